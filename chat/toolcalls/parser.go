package toolcalls

import (
	"encoding/json"
	"strings"
)

// An Event is what a piece of an answer's text turned out to be. Exactly one of its fields is set.
type Event struct {
	// Text is the next part of the answer's content.
	Text string
	// Begin is the name of the tool of a call that starts.
	Begin string
	// Arguments is the next part of the arguments of the call, which are JSON when they are complete.
	Arguments string
}

// A Call is a call in an answer.
type Call struct{ Name, Arguments string }

// Split returns the content and the calls of a whole answer.
func (s Set) Split(f Form, answer string) (content string, calls []Call) {
	var said, arguments strings.Builder
	p := s.Parser(f)
	for _, e := range append(p.Add(answer), p.End()...) {
		said.WriteString(e.Text)
		if e.Begin != "" {
			calls = append(calls, Call{Name: e.Begin})
			arguments.Reset()
		}
		if e.Arguments != "" {
			arguments.WriteString(e.Arguments)
			calls[len(calls)-1].Arguments = arguments.String()
		}
	}
	return said.String(), calls
}

// A Parser finds calls in an answer that comes in pieces. How the answer was divided affects only where the parts of
// the result are divided. Text that looks like a call of a tool that does not exist, or of none, is content. If tools
// may not be called, everything is content.
type Parser struct {
	set   Set
	form  Form
	state state
	held  string // text that may become a tag, or the white space before one
	tag   string // the part of a call that came before its object
	call  *call
	calls int
	out   []Event
}

type state int

const (
	start  state = iota // nothing but white space came
	text                // content
	before              // after a tag: a call starts
	inside              // a call
	after               // a call has ended; its closing tag, another call, or content
)

// maxBlank is the maximum white space, in bytes, that is held back, so that the work is linear in the text.
const maxBlank = 256

// Parser returns a parser of one answer.
func (s Set) Parser(f Form) *Parser {
	p := &Parser{set: s, form: f}
	if s.Choice == None || len(s.Tools) == 0 {
		p.set.Tools = nil
	}
	return p
}

// Calls returns the number of calls so far.
func (p *Parser) Calls() int { return p.calls }

// Add adds a piece of the answer.
func (p *Parser) Add(piece string) []Event {
	p.out = nil
	if len(p.set.Tools) == 0 {
		p.say(piece)
		return p.out
	}
	p.held += piece
	for p.step() {
	}
	return p.out
}

// End ends the answer.
func (p *Parser) End() []Event {
	p.out = nil
	switch {
	case p.state == before || p.state == inside && !p.call.begun:
		p.giveUp()
	case p.state == after && strings.TrimSpace(p.held) == "":
		p.held = ""
	}
	p.say(p.held)
	p.held = ""
	return p.out
}

func (p *Parser) say(text string) {
	if text != "" {
		p.out = append(p.out, Event{Text: text})
	}
}

// giveUp turns what could have been a call into content.
func (p *Parser) giveUp() {
	said := p.tag
	if p.call != nil {
		said += p.call.text.String()
	}
	p.tag, p.call, p.state = "", nil, text
	p.say(said)
}

// step does what can be done with the held text, and reports whether it may do more.
func (p *Parser) step() bool {
	switch p.state {
	case start, after:
		return p.look()
	case text:
		return p.search()
	case before:
		return p.begin()
	default:
		return p.follow()
	}
}

// tags are the texts before a call.
func (p *Parser) tags() []string {
	if p.form.kind == bare {
		return []string{pythonTag}
	}
	return []string{p.form.open}
}

// look decides what follows at the start of the answer, or after a call.
func (p *Parser) look() bool {
	trimmed := strings.TrimLeft(p.held, " \n\r\t")
	if trimmed == "" && len(p.held) <= maxBlank {
		return false
	}
	opens := p.tags()
	switch { // a tag that is a special token is not there
	case p.form.kind == inList && p.state == start:
		opens = append(opens, "[")
	case p.form.kind == inList:
		opens = append(opens, ",", "]")
	case p.form.kind == bare && p.state == start:
		opens = append(opens, "{")
	case p.form.kind == bare:
		opens = append(opens, ";", "{")
	case p.state == after:
		opens = append(opens, p.form.close)
	}
	for _, open := range opens {
		rest, found := strings.CutPrefix(trimmed, open)
		switch {
		case found && (open == p.form.close && p.form.kind == inTags || open == "]"):
			p.held = rest
			return true
		case found && open == "{":
			p.tag, p.held, p.state = p.held[:len(p.held)-len(trimmed)], trimmed, before
			return true
		case found:
			p.tag, p.held, p.state = p.held[:len(p.held)-len(rest)], rest, before
			return true
		case strings.HasPrefix(open, trimmed):
			return false
		}
	}
	p.state = text
	return true
}

// search emits the text up to a tag, without the white space before it, or, if there is no tag, all text but what may
// become that.
func (p *Parser) search() bool {
	if p.form.kind == bare { // only at the start
		p.say(p.held)
		p.held = ""
		return false
	}
	said, rest, found := strings.Cut(p.held, p.form.open)
	if found {
		shown := strings.TrimRight(said, " \n\r\t")
		p.say(shown)
		p.tag, p.held, p.state = said[len(shown):]+p.form.open, rest, before
		return true
	}
	keep := 0
	for n := min(len(p.form.open)-1, len(p.held)); n > 0 && keep == 0; n-- {
		if strings.HasSuffix(p.held, p.form.open[:n]) {
			keep = n
		}
	}
	shown := p.held[:len(p.held)-keep]
	if blank := strings.TrimRight(shown, " \n\r\t"); len(shown)-len(blank) <= maxBlank {
		shown = blank
	}
	p.say(shown)
	p.held = p.held[len(shown):]
	return false
}

// begin starts a call once its object starts.
func (p *Parser) begin() bool {
	trimmed := strings.TrimLeft(p.held, " \n\r\t")
	if p.form.kind == inList {
		trimmed = strings.TrimLeft(trimmed, "[ \n\r\t")
	}
	if trimmed == "" && len(p.held) <= maxBlank {
		return false
	}
	p.tag, p.held = p.tag+p.held[:len(p.held)-len(trimmed)], trimmed
	if !strings.HasPrefix(trimmed, "{") {
		p.giveUp()
		return true
	}
	p.call, p.state = &call{}, inside
	return true
}

// follow reads the object of a call.
func (p *Parser) follow() bool {
	n, ok := p.call.read(p.held)
	p.held = p.held[n:]
	c := p.call
	if !ok || c.named && !p.set.has(c.name) || c.ended && !c.named {
		p.giveUp()
		return true
	}
	if c.named && (c.argues || c.ended) && !c.begun {
		c.begun = true
		p.calls++
		p.out = append(p.out, Event{Begin: c.name})
	}
	if c.begun {
		if more := c.more(); more != "" {
			p.out = append(p.out, Event{Arguments: more})
		}
	}
	if c.ended {
		p.call, p.tag, p.state = nil, "", after
		return true
	}
	return false
}

// A call reads an object such as {"name": "f", "arguments": {}} by its bytes.
type call struct {
	text     strings.Builder // all of it so far
	nesting  []byte
	inString bool
	escaped  bool
	key      string // of the member, once its colon is there
	keyed    bool   // the colon has come
	token    int    // where in text a string or a value at the top starts; -1 before

	name   string
	named  bool
	argues bool // the arguments have started
	first  int  // where they start in text
	last   int  // where they end; 0 before that
	sent   int  // of them
	begun  bool // the parser has reported the call
	ended  bool
}

// read reads a piece up to the end of the object, and returns the number of bytes read and whether they can be JSON.
func (c *call) read(piece string) (n int, ok bool) {
	for n = range len(piece) {
		if !c.next(piece[n]) {
			return n + 1, false
		}
		if c.ended {
			return n + 1, true
		}
	}
	return len(piece), true
}

// next reads a byte. It checks only what it needs to know where things end.
func (c *call) next(b byte) bool {
	at := c.text.Len()
	c.text.WriteByte(b)
	switch {
	case c.inString:
		switch {
		case c.escaped:
			c.escaped = false
		case b == '\\':
			c.escaped = true
		case b == '"':
			c.inString = false
			if len(c.nesting) == 1 && !c.keyed {
				c.key = unquote(c.text.String()[c.token:])
			}
		}
		return true
	case b == '"':
		c.inString = true
		c.value(at)
	case b == '{' || b == '[':
		c.value(at)
		c.nesting = append(c.nesting, b)
	case b == '}' || b == ']':
		if last := len(c.nesting) - 1; last < 0 || c.nesting[last] != b-2 {
			return false
		}
		if c.nesting = c.nesting[:len(c.nesting)-1]; len(c.nesting) == 0 {
			c.endValue(at)
			c.ended = true
		} else if len(c.nesting) == 1 {
			c.endValue(at + 1)
		}
	case len(c.nesting) != 1 || strings.IndexByte(" \n\r\t", b) >= 0:
	case b == ':':
		c.keyed, c.token = true, -1
	case b == ',':
		c.endValue(at)
		c.keyed, c.key, c.token = false, "", -1
	default:
		c.value(at)
	}
	return true
}

// value records where a string or a value of a member starts.
func (c *call) value(at int) {
	if len(c.nesting) != 1 {
		return
	}
	if !c.keyed || c.token < 0 {
		c.token = at
	}
	if c.keyed && c.token == at && (c.key == "arguments" || c.key == "parameters") && !c.argues {
		c.argues, c.first = true, at
	}
}

// endValue records that the value of a member has ended before at.
func (c *call) endValue(at int) {
	if !c.keyed || c.token < 0 {
		return
	}
	switch {
	case c.key == "name" && !c.named:
		c.name, c.named = unquote(strings.TrimSpace(c.text.String()[c.token:at])), true
	case c.argues && c.last == 0 && c.token == c.first:
		c.last = at
	}
}

// more returns the arguments that have not been reported.
func (c *call) more() string {
	switch {
	case !c.argues && c.ended:
		c.argues, c.last = true, 1
		return "{}"
	case !c.argues:
		return ""
	}
	text := c.text.String()
	end := c.last
	if end == 0 {
		end = len(text)
	}
	if c.first == 0 || c.sent == end-c.first {
		return ""
	}
	if text[c.first] != '{' { // a string with them, or something else
		if c.last == 0 {
			return ""
		}
		c.sent = end - c.first
		value := strings.TrimSpace(text[c.first:end])
		if value == "null" {
			return "{}"
		}
		if inner := unquote(value); inner != "" {
			return inner
		}
		return value
	}
	more := text[c.first+c.sent : end]
	c.sent = end - c.first
	return more
}

// unquote returns the string of a JSON literal, or "".
func unquote(literal string) (s string) {
	if n := len(literal) - 1; n > 0 && literal[0] == '"' && literal[n] == '"' && !strings.ContainsAny(literal, "\\\n") {
		return literal[1:n]
	}
	_ = json.Unmarshal([]byte(literal), &s)
	return s
}
