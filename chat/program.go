package chat

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"restyle/chat/jinja"
)

// A program is the Jinja program of a chat template.
type program struct {
	text string
	code *jinja.Template

	once  sync.Once
	reads reader
}

func newProgram(text string) (*program, error) {
	code, err := jinja.Compile(text)
	if err != nil {
		return nil, err
	}
	return &program{text: text, code: code}, nil
}

// newTemplate compiles the text of a template, and checks that it writes a question.
func newTemplate(text string) (Template, error) {
	code, err := newProgram(text)
	if err != nil {
		return Template{}, err
	}
	t := Template{Name: "jinja-" + hash(text)[:8], program: code}
	with := t // a model's tokens are not known yet, and a program may fail without them
	with.BOS, with.EOS = "<s>", "</s>"
	_, question, _, err := with.probe()
	if err == nil && question == Dropped {
		err = fmt.Errorf("it leaves out the question of a user")
	}
	return t, err
}

// probe renders a question and its answer, after a system prompt if the template refuses them without one, and returns
// where they are.
func (t Template) probe() (text string, question, answer Span, err error) {
	all := []Message{
		{Role: "system", Content: "Rules"}, {Role: "user", Content: "Question"}, {Role: "assistant", Content: "Answer"},
	}
	p := page{Template: t}
	out, err := p.execute(all[1:], false)
	at := 0
	if err != nil {
		var again error
		if out, again = p.execute(all, false); again != nil {
			return "", Dropped, Dropped, err
		}
		at = 1
	}
	return out.Text, last(out.Given, at), last(out.Given, at+1), nil
}

// endAfterAnswer returns what the template writes to end an answer: EOS if it is there, else the first word, or "".
// Training checks that it is one token.
func (t Template) endAfterAnswer() string {
	text, _, answer, err := t.probe()
	if err != nil || answer == Dropped {
		return ""
	}
	tail := Strip(text[answer.End:])
	if t.EOS != "" && strings.Contains(tail, t.EOS) {
		return t.EOS
	}
	if i := strings.IndexFunc(tail, jinja.IsSpace); i >= 0 {
		tail = tail[:i]
	}
	return tail
}

// run renders a template by running its program.
func (p *page) run() error {
	vars, messages, err := p.variables(p.messages, p.AddGenerationPrompt)
	if err != nil {
		return err
	}
	out, err := p.runOn(vars)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return p.explain(refused)
	}
	if err != nil {
		return err
	}
	if err := p.noteRead(messages); err != nil {
		return err
	}
	p.out.Text = out.Text
	at := 0
	for _, g := range append(out.Given, jinja.Span{Start: len(out.Text), End: len(out.Text)}) {
		if at < g.Start {
			p.out.Markup = append(p.out.Markup, Span{at, g.Start})
		}
		at = g.End
	}
	for i := range p.messages {
		p.out.Contents[i] = last(out.Given, i)
	}
	p.out.BOS = p.BOS != "" && strings.HasPrefix(out.Text, p.BOS) && len(p.out.Markup) > 0 &&
		p.out.Markup[0].Start == 0 && len(p.BOS) <= p.out.Markup[0].End // no user typed it
	p.out.Targets, p.out.NoTargets = p.targets(out)
	slices.Sort(p.out.Read)
	return nil
}

// execute runs the program on messages other than the page's.
func (p *page) execute(messages []Message, prompt bool) (jinja.Output, error) {
	vars, _, err := p.variables(messages, prompt)
	if err != nil {
		return jinja.Output{}, err
	}
	return p.runOn(vars)
}

// message returns a message as a value. Whatever is missing in it is undefined.
func (p *page) message(i int, m Message) (*jinja.Dict, error) {
	d := &jinja.Dict{}
	if !m.NoRole {
		d.Set("role", roleOf(m.Role))
	}
	if !m.NoContent {
		d.Set("content", jinja.Text(m.Content, i))
	} else if m.Calls != "" {
		d.Set("content", nil) // as servers answer
	}
	if m.Thoughts != "" {
		d.Set(cmp.Or(p.Template.reads().thoughts, ThoughtKeys[0]), jinja.Text(m.Thoughts, jinja.Elsewhere))
	}
	if m.Calls != "" {
		calls, err := jinja.Parse([]byte(m.Calls), jinja.Elsewhere)
		if err != nil {
			return nil, fmt.Errorf("chat: message %d: tool_calls: %w", i+1, err)
		}
		d.Set("tool_calls", calls)
	}
	if m.More != "" {
		if err := d.Add([]byte(m.More), jinja.Elsewhere); err != nil {
			return nil, fmt.Errorf("chat: message %d: %w", i+1, err)
		}
	}
	d.Watch()
	return d, nil
}

// variables returns the variables of the program as transformers sets them, and the messages among them.
func (p *page) variables(messages []Message, prompt bool) (vars *jinja.Dict, dicts []*jinja.Dict, err error) {
	var all []any
	for i, m := range messages {
		d, err := p.message(i, m)
		if err != nil {
			return nil, nil, err
		}
		all, dicts = append(all, d), append(dicts, d)
	}
	vars = &jinja.Dict{}
	vars.Set("tools", nil)
	vars.Set("documents", nil)
	if p.Variables != "" {
		if err := vars.Add([]byte(p.Variables), jinja.Elsewhere); err != nil {
			return nil, nil, fmt.Errorf("chat: variables: %w", err)
		}
	}
	if p.Tools != "" {
		tools, err := jinja.Parse([]byte(p.Tools), jinja.Elsewhere)
		if err != nil {
			return nil, nil, fmt.Errorf("chat: tools: %w", err)
		}
		vars.Set("tools", tools)
	}
	vars.Set("messages", jinja.Items(all...))
	vars.Set("add_generation_prompt", prompt)
	tokens := map[string]string{"bos_token": p.BOS, "eos_token": p.EOS}
	maps.Copy(tokens, p.Tokens)
	for name, token := range tokens {
		if token != "" && !slices.Contains([]string{"messages", "tools", "documents", "add_generation_prompt"}, name) {
			vars.Set(name, jinja.Own(token))
		}
	}
	if p.DateString != "" {
		vars.Set("date_string", jinja.Text(p.DateString, jinja.Elsewhere))
	}
	vars.Watch()
	return vars, dicts, nil
}

// runOn runs the program.
func (p *page) runOn(vars *jinja.Dict) (jinja.Output, error) {
	now := p.Now
	if now.IsZero() {
		now, _ = time.Parse("02 Jan 2006", FixedDate)
	}
	out, err := p.program.code.Render(vars, now)
	if err == nil {
		for _, name := range keysOf(p.Variables) { // some are only for the prompt
			if vars.Read(name) && !slices.Contains(p.out.Read, name) {
				p.out.Read = append(p.out.Read, name)
			}
		}
		return out, nil
	}
	reason := err.Error()
	if e, is := jinja.AsError(err); is && e.Raised {
		reason = e.Message
	}
	return out, &RefusedError{Template: p.Name, Message: -1, Reason: fmt.Sprintf("%.300s", reason),
		Advice: "change the conversation, or choose another template by its name"}
}

// noteRead records which of the other keys the program asked for. It refuses calls that the program did not look at.
func (p *page) noteRead(messages []*jinja.Dict) error {
	for i, m := range p.messages {
		if m.Calls != "" && !messages[i].Read("tool_calls") {
			return p.refuse(i, "the template leaves out its tool_calls", "choose a template that writes them all")
		}
		if key := m.tools(); key != "" && !messages[i].Read(key) {
			return p.refuse(i, "it has "+key+", which the template does not read",
				"choose a template with tools, or leave them out")
		}
		for _, key := range keysOf(m.More) {
			if messages[i].Read(key) && !slices.Contains(p.out.Read, key) {
				p.out.Read = append(p.out.Read, key)
			}
		}
	}
	return nil
}

// roleOf is a role as a value. Templates write "<|" + role + "|>", and that is a token, so the usual roles count as the
// template's own. Any other one could be something that a user typed.
func roleOf(role string) any {
	if slices.Contains([]string{"system", "user", "assistant", "tool"}, role) {
		return jinja.Own(role)
	}
	return jinja.Text(role, jinja.Elsewhere)
}

// last returns the last piece of text that came from a source, or Dropped: an answer comes after its thoughts.
func last(given []jinja.Span, source int) Span {
	piece := Dropped
	for _, g := range given {
		switch {
		case g.Source != source:
		case g.Start == piece.End:
			piece.End = g.End
		default:
			piece = Span{g.Start, g.End}
		}
	}
	return piece
}

// targets returns the answers: what {% generation %} marks, or what the template writes for an answer after the
// prompt that asks for it, up to the end of the turn. If a later message changes the text before it, there is no
// telling which answer followed which prompt, and that is an error. Before Options.From, spans are empty if they are
// not needed.
func (p *page) targets(whole jinja.Output) ([]Span, error) {
	asked := answers(p.messages)
	if !slices.ContainsFunc(asked, func(i int) bool { return i >= p.From && !p.messages[i].Context }) {
		return make([]Span, len(asked)), nil
	}
	if p.program.code.Generation {
		for _, i := range asked {
			if err := p.lost(whole, i); err != nil && i >= p.From && !p.messages[i].Context {
				return nil, err
			}
		}
		return p.generated(whole, asked)
	}
	targets := make([]Span, len(asked))
	for k, i := range asked {
		if i < p.From || p.messages[i].Context {
			continue
		}
		var err error
		if targets[k], err = p.answer(whole, i); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// unknown returns the error for an answer whose place is not known.
func (p *page) unknown(i int, reason string) *RefusedError {
	return &RefusedError{Template: p.Name, Message: i, Role: p.messages[i].Role,
		Reason: "what of it is the answer is not known: " + reason,
		Advice: "mark answers and their end with {% generation %} in the template, or choose another template by its name"}
}

// rewritten is unknown for an answer that would be known if the conversation ended with it.
func (p *page) rewritten(i int, reason string) *RefusedError {
	err := p.unknown(i, reason)
	err.Rewritten = true
	return err
}

// lost returns an error if the template has left out the thoughts of message i.
func (p *page) lost(out jinja.Output, i int) error {
	if strings.Contains(out.Text+p.out.Thoughts, Strip(p.messages[i].Thoughts)) {
		return nil
	}
	err := p.unknown(i, "the template leaves out its thoughts")
	err.Advice = "put them into the content in the form that the model thinks in, or choose another template"
	return err
}

// generated returns what {% generation %} marks.
func (p *page) generated(whole jinja.Output, asked []int) (targets []Span, err error) {
	end := p.EndOfTurn()
	if whole.Unplaced || len(whole.Generated) != len(asked) {
		return nil, p.unknown(asked[0], fmt.Sprintf("its {%% generation %%} marks %d parts for %d answers",
			len(whole.Generated), len(asked)))
	}
	for _, g := range whole.Generated {
		targets = append(targets, Span{g.Start, g.End})
	}
	// Earlier answers may end in another way, and a user who types the end has not ended anything.
	last := targets[len(targets)-1]
	from := last.Start
	for _, g := range whole.Given {
		if g.Start < last.End {
			from = max(from, g.End)
		}
	}
	if from > last.End || !strings.HasSuffix(Strip(whole.Text[from:last.End]), end) {
		return nil, p.unknown(asked[len(asked)-1], fmt.Sprintf("its {%% generation %%} does not contain the end, %q", end))
	}
	return targets, nil
}

// answer returns what the template writes for message i after the prompt that asks for it.
func (p *page) answer(whole jinja.Output, i int) (Span, error) {
	if i == 0 {
		return Dropped, p.unknown(i, "nothing comes before it that asks for it")
	}
	prompt, err := p.execute(p.messages[:i], true)
	if err != nil {
		return Dropped, p.unknown(i, "the template refuses the messages before it")
	}
	through, err := p.execute(p.messages[:i+1], false)
	if err != nil {
		return Dropped, p.unknown(i, "the template refuses a conversation that ends with it")
	}
	start := len(prompt.Text)
	if !strings.HasPrefix(through.Text, prompt.Text) {
		start = opening(prompt)
		switch {
		case start < 0 || !strings.HasPrefix(through.Text, prompt.Text[:start]) ||
			strings.HasPrefix(Strip(through.Text[start:]), "<think>"):
			return Dropped, p.unknown(i, "the template writes the messages before it in another way once they are answered")
		case i < len(p.messages)-1:
			return Dropped, p.rewritten(i, "the prompt begins thoughts, which the template leaves out of an answer")
		}
		p.think(through.Text[start:])
	}
	if err := p.lost(through, i); err != nil {
		return Dropped, err
	}
	from := start
	if n := len(through.Given); n > 0 {
		from = max(from, through.Given[n-1].End)
	}
	end := p.EndOfTurn()
	at := strings.Index(through.Text[from:], end)
	if at < 0 || end == "" {
		return Dropped, p.unknown(i, "the template writes no token after it")
	}
	target := Span{start, from + at + len(end)}
	if !strings.HasPrefix(whole.Text, through.Text[:target.End]) {
		return Dropped, p.rewritten(i, "the template writes it in another way once there are later messages")
	}
	return target, nil
}

// opening returns where a prompt starts thoughts at its end, or -1.
func opening(prompt jinja.Output) int {
	at := strings.LastIndex(prompt.Text, "<think>")
	if at < 0 || Strip(prompt.Text[at:]) != "<think>" {
		return -1
	}
	if n := len(prompt.Given); n > 0 && prompt.Given[n-1].End > at {
		return -1 // a user typed it
	}
	return at
}

// think sets the thoughts with which the last message starts, before what the template writes of it.
func (p *page) think(rest string) {
	answer := p.messages[len(p.messages)-1]
	thoughts := cmp.Or(answer.Thoughts, thoughtsIn(answer.Content))
	p.out.ThoughtsEnd = len(thoughts)
	p.out.Thoughts = thoughts + "\n</think>"
	if !strings.HasPrefix(rest, "\n") {
		p.out.Thoughts += "\n\n"
	}
}

// thoughtsIn returns the thoughts in an assistant's content: up to the first </think>.
func thoughtsIn(content string) string {
	thoughts, _, found := strings.Cut(content, "</think>")
	if !found {
		return ""
	}
	thoughts = strings.TrimRight(thoughts, "\n")
	if i := strings.LastIndex(thoughts, "<think>"); i >= 0 {
		thoughts = thoughts[i+len("<think>"):]
	}
	return strings.TrimLeft(thoughts, "\n")
}
