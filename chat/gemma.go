package chat

var gemma = marks{"<start_of_turn>", "\n", "<end_of_turn>", "\n"}

// gemma renders Gemma: alternating questions and answers, all trimmed, no system prompt. In the place of an answer it
// accepts any role.
func (p *page) gemma() error {
	if err := p.needMessages(); err != nil {
		return err
	}
	if p.messages[0].Role == "system" {
		return p.refuse(0, "System role not supported", "leave the system prompt out or put it into the first question")
	}
	p.bos()
	for i, m := range p.messages {
		if (m.Role == "user") != (i%2 == 0) {
			return p.refuse(i, "Conversation roles must alternate user/assistant/user/assistant/...",
				"start with a question and join consecutive messages of one role, or use the template raw")
		}
		if err := p.needRole(i); err != nil {
			return err
		}
		role := m.Role
		if role == "assistant" {
			role = "model"
		}
		p.turn(gemma, i, role, strip(m.Content))
	}
	p.prompt(gemma, "model")
	return nil
}
