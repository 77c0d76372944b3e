package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
)

// refusing returns a copy of a model whose template refuses a question with the word mercy.
func refusing(t *testing.T, model string) string {
	t.Helper()
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS(model)))
	path := filepath.Join(dir, "tokenizer_config.json")
	var config map[string]any
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	expect.OK(t, err)
	config["chat_template"] = "{% if 'mercy' in messages[-1].content %}{{ raise_exception('no mercy') }}{% endif %}" +
		config["chat_template"].(string)
	if data, err = json.Marshal(config); err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	expect.OK(t, err)
	return dir
}

// A disturbance happens in a session, from one line to the next.
type disturbance struct {
	lines []string
	begin func(c *chatter) (end func()) // called before the lines, and end after them; may be nil
	keeps []string                      // models whose answer, as far as it went, is in the conversation
}

// A scripted display passes what it draws to a function.
type scripted func(panes []pane) error

func (s scripted) draw(panes []pane) error { return s(panes) }

// breaking makes the activations of the models NaN, also those that their caches keep.
func breaking(labels ...string) func(c *chatter) (end func()) {
	return func(c *chatter) func() {
		var restore []func()
		for _, s := range c.sides {
			for _, p := range s.engine.Model.Params() {
				if slices.Contains(labels, s.label) && strings.HasSuffix(p.Name, "norm.weight") {
					was := p.W.Half()[3]
					p.W.Half()[3] = 0x7fc0
					restore = append(restore, func() { p.W.Half()[3] = was })
				}
			}
		}
		return func() {
			for _, f := range restore {
				f()
			}
		}
	}
}

// drawing makes the drawing that follows the first n call f.
func drawing(n int, f func(c *chatter) error) func(c *chatter) (end func()) {
	return func(c *chatter) func() {
		was := c.display
		c.display = scripted(func([]pane) error {
			if n--; n == -1 {
				return f(c)
			}
			return nil
		})
		return func() { c.display = was }
	}
}

// disturbances returns the ways in which a step of a session fails.
func disturbances(t *testing.T) map[string]disturbance {
	existing := filepath.Join(t.TempDir(), "there.json")
	expect.OK(t, os.WriteFile(existing, nil, 0o644))
	const failing = "How do I print hello world?"
	long := strings.Repeat("word ", 500)
	everyone := []string{baseLabel, tunedLabel}
	short := func(*chatter) error { return io.ErrShortWrite }
	stop := func(c *chatter) error { c.interrupts.hit(); return nil }
	all := map[string]disturbance{
		"a long question":          {lines: []string{long}},
		"a long one of several":    {lines: []string{`"""word`, strings.Repeat("word\n", 500) + `"""`}},
		"two in a row":             {lines: []string{long, strings.Repeat("words ", 500)}},
		"a refusing template":      {lines: []string{"Have mercy."}},
		"one model":                {lines: []string{failing}, begin: breaking(tunedLabel), keeps: []string{baseLabel}},
		"the other model":          {lines: []string{failing}, begin: breaking(baseLabel), keeps: []string{tunedLabel}},
		"both models":              {lines: []string{failing}, begin: breaking(everyone...)},
		"an edited question":       {lines: []string{"/edit " + failing}, begin: breaking(everyone...)},
		"an answer again":          {lines: []string{"/regen"}, begin: breaking(everyone...)},
		"a long one after an edit": {lines: []string{"/regen", "/edit " + failing, "/edit Count to ten.", long}},
		"an edit of a long one":    {lines: []string{long, "/edit " + failing}, keeps: everyone},
		"an edit that is long":     {lines: []string{"/edit " + long}},
		"the same question":        {lines: []string{"Count to ten."}, begin: breaking(everyone...)},
		"the same one again": {lines: []string{"Count to ten.", "/regen", "/edit Count to ten."},
			begin: breaking(everyone...)},
		"stopped at once":       {lines: []string{failing}, begin: drawing(0, stop), keeps: everyone},
		"stopped in the middle": {lines: []string{failing}, begin: drawing(1, stop), keeps: everyone},
		"a display that fails": {lines: []string{failing}, begin: drawing(1, short),
			keeps: everyone},
		"^C, then a question": {lines: []string{"^C"}},
	}
	for _, line := range []string{"/set colour red", "/set top-p 2", "/set temperature x", "/set max-tokens 0", "/seed x",
		"/set repetition-penalty 0", "/set min-p NaN", "/set top-k -1", "/conversation one", "/vote maybe", "/save",
		"/save " + existing, "/what", "/edit", "", "   ", `""""""`} {
		all[line] = disturbance{lines: []string{line}}
	}
	return all
}

// TestAfterAnError_AnswersAreTheSame answers a question after a step that failed, for each way in which one fails:
// answer, settings and conversation are the same as in a session without that step.
func TestAfterAnError_AnswersAreTheSame(t *testing.T) {
	base, tuned := refusing(t, tinyBase), refusing(t, tinyTuned)
	device, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	expect.OK(t, err)
	defer device.Close()
	var engines []*infer.Engine
	for _, name := range []string{base, tuned} {
		e, err := infer.Open(t.Context(), device, name, infer.OpenOptions{})
		expect.OK(t, err)
		defer e.Close()
		engines = append(engines, e)
	}
	// run has a session with a disturbance between two questions.
	run := func(conversation string, d disturbance) *chatter {
		var out, notes strings.Builder
		o := defaults()
		flags := o.flags(&out, &notes)
		if _, done := flags.Parse([]string{"--temperature", "0", "--log", filepath.Join(t.TempDir(), "log.md")}); done {
			t.Fatal(notes.String())
		}
		c := &chatter{options: o, out: &out, notes: &notes, status: cli.NewStatusLine(&notes), fresh: conversation == "new"}
		c.interrupts = &interrupts{leave: func() { t.Error("the session was left") }}
		var err error
		if c.record, _, err = openRecord(o.log); err != nil {
			t.Fatal(err)
		}
		defer c.record.close()
		for i, label := range []string{baseLabel, tunedLabel} {
			engines[i].ResetCache()
			c.sides = append(c.sides, &side{label: label, engine: engines[i]})
		}
		c.display = scripted(func([]pane) error { return nil })
		in := lines{"Count to ten."}
		expect.OK(t, c.session(t.Context(), &in))
		end := func() {}
		if d.begin != nil {
			end = d.begin(c)
		}
		in = d.lines
		err = c.session(t.Context(), &in)
		if end(); err != nil && !errors.As(err, new(*printed)) {
			t.Fatal(err)
		}
		in = lines{"How do I reverse a list?"}
		if err := c.session(t.Context(), &in); err != nil {
			t.Errorf("%q: and then %v", d.lines, err)
		}
		return c
	}
	for _, conversation := range []string{"new", "keep"} {
		want := run(conversation, disturbance{})
		for name, d := range disturbances(t) {
			got := run(conversation, d)
			for i, s := range got.sides {
				w := *want.sides[i]
				switch kept := slices.Contains(d.keeps, s.label); {
				case kept && conversation == "new":
					s.earlier = s.earlier[:1]
				case kept: // what follows it may be another answer
					last := strings.TrimPrefix(d.lines[len(d.lines)-1], "/edit ")
					if at := len(s.messages) - 4; at != 2 || s.messages[at].Content != last {
						t.Errorf("%s, %s: the conversation is %v", name, s.label, s.messages)
					}
					s.messages, w.messages = s.messages[:2], w.messages[:2]
				}
				if !reflect.DeepEqual(s.messages, w.messages) || !reflect.DeepEqual(s.earlier, w.earlier) {
					t.Errorf("%s, %s of %s: %v and before %v\nwant %v and before %v", name, s.label, conversation, s.messages,
						s.earlier, w.messages, w.earlier)
				}
			}
			if !reflect.DeepEqual(got.settings, want.settings) || got.system != want.system || got.fresh != want.fresh {
				t.Errorf("%s: the settings are %v, and were %v", name, got.settings, want.settings)
			}
		}
	}
}
