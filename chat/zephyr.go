package chat

// zephyr renders Zephyr and TinyLlama: no BOS, and messages of unknown roles left out. The generation prompt depends on
// the last message, so an empty conversation has none.
func (p *page) zephyr() error {
	for i, m := range p.messages {
		switch m.Role {
		case "system", "user", "assistant":
			if err := p.needContent(i); err != nil {
				return err
			}
			// The template's text has the role as one of three words, and <|user|> may be a token.
			p.turn(marks{"<|" + m.Role + "|>", "\n", p.EOS, "\n"}, i, "", m.Content)
		}
	}
	if p.AddGenerationPrompt && len(p.messages) > 0 {
		p.own("<|assistant|>\n")
	}
	return nil
}
