package chat

import (
	"fmt"
	"strings"
)

var llama = marks{"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", ""}

// llama3 renders Llama 3: every message trimmed, whatever its role. The BOS belongs to the first message, so an empty
// conversation has none.
func (p *page) llama3() error {
	for i, m := range p.messages {
		if err := p.needRole(i); err != nil {
			return err
		}
		if i == 0 {
			p.bos()
		}
		p.turn(llama, i, m.Role, strip(m.Content))
	}
	p.prompt(llama, "assistant")
	return nil
}

// llama31 renders Llama 3.1: first always a system turn with two date lines, and the system prompt if the first message
// is one. Tool results are written as JSON strings.
func (p *page) llama31() error {
	date := p.DateString
	if date == "" {
		date = FixedDate
	}
	return p.dated(date)
}

// llama32 renders Llama 3.2: like 3.1, but Options.Now sets its date.
func (p *page) llama32() error {
	date := p.DateString
	switch {
	case date != "":
	case p.Now.IsZero():
		date = FixedDate
	default:
		date = p.Now.Format("02 Jan 2006")
	}
	return p.dated(date)
}

func (p *page) dated(date string) error {
	if err := p.needMessages(); err != nil {
		return err
	}
	p.bos()
	p.header(llama, "system")
	p.own("Cutting Knowledge Date: December 2023\nToday Date: ")
	p.given(date)
	p.own("\n\n")
	first := 0
	if p.messages[0].Role == "system" {
		p.content(0, strip(p.messages[0].Content))
		first = 1
	}
	p.own(llama.end)
	for i := first; i < len(p.messages); i++ {
		m := p.messages[i]
		if m.Role == "tool" || m.Role == "ipython" {
			if err := p.needContent(i); err != nil {
				return err
			}
			p.header(llama, "ipython")
			p.own(`"`)
			p.content(i, escape(m.Content))
			p.own(`"` + llama.end)
			continue
		}
		if err := p.needRole(i); err != nil {
			return err
		}
		p.turn(llama, i, m.Role, strip(m.Content))
	}
	p.prompt(llama, "assistant")
	return nil
}

// escape returns s as Python's json.dumps(s, ensure_ascii=False) writes it, without the quotes. encoding/json differs:
// it also escapes U+2028, U+2029 and, by default, <, > and &.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\':
			b.Write([]byte{'\\', c})
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		default:
			if c < ' ' {
				fmt.Fprintf(&b, `\u%04x`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}
