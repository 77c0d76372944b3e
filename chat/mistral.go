package chat

// mistral renders Mistral v0.3. A system prompt goes in front of the last question, if that is the last message of all;
// otherwise it is lost. There is no generation prompt: a question ends with [/INST], and the space after that belongs
// to the answer.
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
			p.target(start)
		case "tool", "tool_results":
			return p.refuse(i, "Tool call IDs should be alphanumeric strings with length 9!",
				"tools are not supported: leave such messages out")
		default:
			return p.refuse(i, "Only user and assistant roles are supported, "+
				"with the exception of an initial optional system message!",
				"leave the message out or give it the role user or assistant")
		}
	}
	return nil
}

// mistralOrder refuses messages that do not alternate between questions and answers. Tool results do not count.
func (p *page) mistralOrder(first int) error {
	question := true
	for i := first; i < len(p.messages); i++ {
		switch role := p.messages[i].Role; {
		case role == "tool" || role == "tool_results":
		case (role == "user") != question:
			return p.refuse(i, "After the optional system message, "+
				"conversation roles must alternate user/assistant/user/assistant/...",
				"start with a question and join consecutive messages of one role, or use the template raw")
		default:
			question = !question
		}
	}
	return nil
}
