package chat

import "strings"

// qwen3 renders Qwen3: ChatML in which an answer may start with thoughts, <think> … </think>. Before the last question,
// thoughts are left out. After it, the last message of all, if it is an answer, has a place for them, possibly empty;
// other answers have one only if they have thoughts. Tool results become user turns, and messages of unknown roles are
// left out.
func (p *page) qwen3() error {
	if err := p.needMessages(); err != nil {
		return err
	}
	question := p.lastQuestion()
	for i, m := range p.messages {
		switch m.Role {
		case "system", "user":
			if m.Role == "system" && i == 0 {
				if err := p.needContent(i); err != nil {
					return err
				}
			}
			p.turn(chatml, i, m.Role, m.Content)
		case "assistant":
			thoughts, answer := think(m.Content)
			if i <= question || i < len(p.messages)-1 && thoughts == "" {
				p.turn(chatml, i, m.Role, answer)
				continue
			}
			p.header(chatml, m.Role)
			start := p.text.Len()
			p.own("<think>\n")
			p.given(strings.Trim(thoughts, "\n"))
			p.own("\n</think>\n\n")
			p.content(i, strings.TrimLeft(answer, "\n"))
			p.own(chatml.end)
			p.target(start)
			p.own(chatml.gap)
		case "tool":
			p.toolResult(i)
		}
	}
	p.prompt(chatml, "assistant")
	return nil
}

// lastQuestion returns the index of the last user message that is not a tool result, or of the last message if there is
// none.
func (p *page) lastQuestion() int {
	for i := len(p.messages) - 1; i >= 0; i-- {
		m := p.messages[i]
		result := strings.HasPrefix(m.Content, "<tool_response>") && strings.HasSuffix(m.Content, "</tool_response>")
		if m.Role == "user" && !m.NoContent && !result {
			return i
		}
	}
	return len(p.messages) - 1
}

// think splits an assistant's content into its thoughts, up to the first </think>, and the answer after the last.
func think(content string) (thoughts, answer string) {
	const begin, end = "<think>", "</think>"
	first := strings.Index(content, end)
	if first < 0 {
		return "", content
	}
	thoughts = strings.TrimRight(content[:first], "\n")
	if i := strings.LastIndex(thoughts, begin); i >= 0 {
		thoughts = thoughts[i+len(begin):]
	}
	answer = content[strings.LastIndex(content, end)+len(end):]
	return strings.TrimLeft(thoughts, "\n"), strings.TrimLeft(answer, "\n")
}
