package chat

// raw renders the contents of all messages with an empty line between them; see Raw.
func (p *page) raw() error {
	for i, m := range p.messages {
		start := p.text.Len()
		if i > 0 {
			p.own("\n\n")
		}
		p.content(i, m.Content)
		if m.Role == "assistant" {
			p.own(p.EOS)
			p.target(start)
		}
	}
	return nil
}
