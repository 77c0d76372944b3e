package chat

var chatml = marks{"<|im_start|>", "\n", "<|im_end|>", "\n"}

// chatml renders ChatML: every message as it is.
func (p *page) chatml() error {
	for i, m := range p.messages {
		if err := p.needRole(i); err != nil {
			return err
		}
		if err := p.needContent(i); err != nil {
			return err
		}
		p.turn(chatml, i, m.Role, m.Content)
	}
	p.prompt(chatml, "assistant")
	return nil
}

// smollm2 renders SmolLM2: ChatML with a default system prompt, unless the first message is one.
func (p *page) smollm2() error {
	if len(p.messages) > 0 && p.messages[0].Role != "system" {
		p.header(chatml, "system")
		p.own("You are a helpful AI assistant named SmolLM, trained by Hugging Face" + chatml.end + chatml.gap)
	}
	return p.chatml()
}

// qwen25 renders Qwen2.5: ChatML with a default system prompt, unless the first message is one. Tool results become
// user turns, and messages of unknown roles are left out.
func (p *page) qwen25() error {
	if err := p.needMessages(); err != nil {
		return err
	}
	if p.messages[0].Role != "system" {
		p.header(chatml, "system")
		p.own("You are Qwen, created by Alibaba Cloud. You are a helpful assistant." + chatml.end + chatml.gap)
	}
	for i, m := range p.messages {
		switch m.Role {
		case "system", "user", "assistant":
			if err := p.needContent(i); err != nil {
				return err
			}
			p.turn(chatml, i, m.Role, m.Content)
		case "tool":
			p.toolResult(i)
		}
	}
	p.prompt(chatml, "assistant")
	return nil
}

// toolResult renders message i, a tool result. Consecutive results share a user turn.
func (p *page) toolResult(i int) {
	if i == 0 || p.messages[i-1].Role != "tool" {
		p.own("<|im_start|>user")
	}
	p.own("\n<tool_response>\n")
	p.content(i, p.messages[i].Content)
	p.own("\n</tool_response>")
	if i == len(p.messages)-1 || p.messages[i+1].Role != "tool" {
		p.own(chatml.end + chatml.gap)
	}
}
