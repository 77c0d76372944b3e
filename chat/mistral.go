package chat

// mistral writes Mistral v0.3. A system prompt goes in front of the last question, and only if that is the last message
// of all; otherwise it is lost. There is no generation prompt: a question ends with [/INST], and the space in front of
// an answer belongs to it.
func (p *page) mistral() error {
	if err := p.needMessages(); err != nil {
		return err
	}
	first := 0
	if p.messages[0].Role == "system" {
		first = 1
	}
	if err := p.mistralOrder(first); err != nil {
		return err
	}
	p.bos()
	for i := first; i < len(p.messages); i++ {
		switch m := p.messages[i]; m.Role {
		case "user":
			if err := p.needContent(i); err != nil {
				return err
			}
			p.own("[INST] ")
			if i == len(p.messages)-1 && first == 1 && !p.messages[0].NoContent {
				p.content(0, p.messages[0].Content)
				p.own("\n\n")
			}
			p.content(i, m.Content)
			p.own("[/INST]")
		case "assistant":
			start := p.text.Len()
			p.own(" ")
			p.content(i, strip(m.Content))
			p.own(p.EOS)
			p.learn(start)
		case "tool", "tool_results":
			return p.refuse(i, "Tool call IDs should be alphanumeric strings with length 9!",
				"tools are not supported, leave such messages out")
		default:
			return p.refuse(i, "Only user and assistant roles are supported, "+
				"with the exception of an initial optional system message!",
				"leave the message out or give it the role user or assistant")
		}
	}
	return nil
}

// mistralOrder refuses messages that are not questions and answers by turns. Results of tools do not count.
func (p *page) mistralOrder(first int) error {
	question := true
	for i := first; i < len(p.messages); i++ {
		switch role := p.messages[i].Role; {
		case role == "tool" || role == "tool_results":
		case (role == "user") != question:
			return p.refuse(i, "After the optional system message, "+
				"conversation roles must alternate user/assistant/user/assistant/...",
				"begin with a question and join messages of one role, or ask with --raw")
		default:
			question = !question
		}
	}
	return nil
}
