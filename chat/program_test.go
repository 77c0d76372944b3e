package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// asProgram returns a template that has a name as a template without a name, without marks of the answers.
func asProgram(t testing.TB, f Template) Template {
	t.Helper()
	p, err := newTemplate(f.Jinja())
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	p.BOS, p.EOS = f.BOS, f.EOS
	return p
}

// compareWithProgram renders a conversation in both ways. Without marks it may not be known which parts are targets; if
// it is, they are what the marks say.
func compareWithProgram(t testing.TB, f, p Template, messages []Message, o Options) (known bool) {
	t.Helper()
	want, wantErr := f.Render(messages, o)
	got, err := p.Render(messages, o)
	if (err != nil) != (wantErr != nil) || err != nil && !errors.As(err, new(*RefusedError)) {
		t.Fatalf("%s: %v, want %v", f.Name, err, wantErr)
	}
	var said, wanted *RefusedError
	if errors.As(err, &said) && errors.As(wantErr, &wanted) && said.Reason != wanted.Reason &&
		!strings.HasPrefix(said.Reason, "line ") { // which is Jinja's own error, not the template's
		t.Errorf("%s: refused with %q, want %q", f.Name, said.Reason, wanted.Reason)
	}
	if err != nil {
		return false
	}
	if got.Text != want.Text || got.BOS != want.BOS {
		t.Fatalf("%s:\n got %q, BOS %v\nwant %q, BOS %v", f.Name, got.Text, got.BOS, want.Text, want.BOS)
	}
	for i, c := range want.Contents {
		if g := got.Contents[i]; g != c && c != Dropped && c.Start != c.End {
			t.Errorf("%s: content %d at %v, want %v", f.Name, i, g, c)
		}
		// Nothing that a message says is markup, not even the parts of it that are not its content, such as thoughts.
		if overlaps(got.Markup, c) && c != Dropped {
			t.Errorf("%s: content %d at %v is in the markup %v", f.Name, i, c, got.Markup)
		}
	}
	if got.NoTargets == nil && !slices.Equal(got.Targets, want.Targets) {
		t.Errorf("%s: targets %v of %q, want %v", f.Name, got.Targets, got.Text, want.Targets)
	}
	return got.NoTargets == nil
}

func TestPrograms_RenderAsNamedTemplates(t *testing.T) {
	known, all := 0, 0
	for _, f := range templates {
		if f.Name == "raw" {
			continue
		}
		p := asProgram(t, f)
		if p.EndOfTurn() != f.EndOfTurn() || p.Jinja() != f.Jinja() || !strings.HasPrefix(p.Name, "jinja-") {
			t.Errorf("%s as a program: %s ends turns with %q, want %q", f.Name, p.Name, p.EndOfTurn(), f.EndOfTurn())
		}
		for _, g := range readGoldens(t, "testdata/goldens.jsonl") {
			if g.Family == f.Name && g.Error == nil && slices.ContainsFunc(g.Messages, func(m Message) bool {
				return m.Role == "assistant"
			}) {
				all++
			}
			if g.Family == f.Name && compareWithProgram(t, f, p, g.Messages, g.options(t)) && len(g.Learn) > 0 {
				known++
			}
		}
	}
	// Qwen3 changes answers when others follow, and Mistral moves the system prompt to the last question.
	if 10*known < 8*all {
		t.Errorf("the targets of %d conversations of %d are known", known, all)
	}
	t.Logf("the targets of %d conversations of %d are known", known, all)
}

// TestProgramsOfRoles compares programs with and without marks on every sequence of up to three messages of any role.
func TestProgramsOfRoles(t *testing.T) {
	roles := []string{"system", "user", "assistant", "tool", "ipython", "tool_results", "referee"}
	for _, f := range templates {
		if f.Name == "raw" {
			continue
		}
		p := asProgram(t, f)
		for number := range len(roles) * len(roles) * len(roles) {
			var messages []Message
			for i, rest := 0, number; i < 3; i, rest = i+1, rest/len(roles) {
				messages = append(messages, Message{Role: roles[rest%len(roles)], Content: fmt.Sprintf(" %c%d ", 'a'+i, i)})
			}
			for n := 1; n <= len(messages); n++ {
				compareWithProgram(t, f, p, messages[:n], Options{AddGenerationPrompt: number%2 == 1})
			}
		}
	}
}

// FuzzProgram compares programs with marks of the answers and without.
func FuzzProgram(f *testing.F) {
	f.Add(uint8(0), "system", "You are terse.", "user", " Hello\n", "assistant", "<|eot_id|>", true)
	f.Add(uint8(5), "user", "a", "assistant", "\n<think>\n b\n</think>\n\n c", "user", "d", false)
	f.Add(uint8(8), "system", "a", "user", "\u2028", "assistant", "\x1c", false)
	f.Fuzz(func(t *testing.T, which uint8, r1, c1, r2, c2, r3, c3 string, prompt bool) {
		of := templates[int(which)%(len(templates)-1)]
		p := asProgram(t, of)
		all := []Message{{Role: r1, Content: c1}, {Role: r2, Content: c2}, {Role: r3, Content: c3}}
		for _, m := range all {
			if !utf8.ValidString(m.Role + m.Content) {
				return // Jinja2 has no such strings
			}
		}
		for n := range len(all) + 1 {
			compareWithProgram(t, of, p, all[:n], Options{AddGenerationPrompt: prompt})
		}
	})
}

const turns = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}\n{% endfor %}"

func TestPrograms_AnswersOfUnknownTemplates(t *testing.T) {
	conversation := []Message{
		{Role: "system", Content: "s"}, {Role: "user", Content: "<|user|>"}, {Role: "assistant", Content: " a "},
		{Role: "user", Content: "q"}, {Role: "assistant", Content: "b</s>"},
	}
	prompt := "{% if add_generation_prompt %}<|assistant|>{% endif %}"
	for _, c := range []struct {
		name, template string
		end            string
		targets        []string // nil if they are not known
		reason         string
	}{
		{"rendering", turns + prompt, "</s>", []string{" a </s>", "b</s></s>"}, ""},
		{"no prompt", turns, "</s>", []string{"<|assistant|> a </s>", "<|assistant|>b</s></s>"}, ""},
		{"generation", strings.Replace(turns, "{{ m.content }}{{ eos_token }}",
			"{% if m.role == 'assistant' %}{% generation %}{{ m.content ~ eos_token }}{% endgeneration %}"+
				"{% else %}{{ m.content }}{% endif %}", 1), "</s>", []string{" a </s>", "b</s></s>"}, ""},
		{"another end", strings.ReplaceAll(turns, "{{ eos_token }}", "<end>") + prompt, "<end>",
			[]string{" a <end>", "b</s><end>"}, ""},
		{"two tokens", strings.ReplaceAll(turns, "{{ eos_token }}", "<end>{{ eos_token }}") + prompt, "</s>",
			[]string{" a <end></s>", "b</s><end></s>"}, ""},
		{"a space before the end", strings.ReplaceAll(turns, "{{ eos_token }}", " {{ eos_token }}") + prompt, "</s>",
			[]string{" a  </s>", "b</s> </s>"}, ""},
		{"no end", strings.ReplaceAll(turns, "{{ eos_token }}", "") + prompt, "</s>", nil, "no token after it"},
		{"generation without the end", strings.Replace(turns, "{{ m.content }}",
			"{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"+
				"{% else %}{{ m.content }}{% endif %}", 1), "</s>", nil, "does not contain the end"},
		{"an answer that goes on behind generation", strings.Replace(turns, "{{ m.content }}{{ eos_token }}",
			"{% if m.role == 'assistant' %}{% generation %}{{ m.content[:1] }}{% endgeneration %}{{ m.content[1:] }}"+
				"{% else %}{{ m.content }}{% endif %}{{ eos_token }}", 1) + prompt, "</s>", nil, "does not contain the end"},
		{"generation of everything", "{% generation %}" + turns + "{% endgeneration %}", "</s>", nil, "marks 1 parts"},
		{"only the last answer", strings.Replace(turns, "{{ m.content }}",
			"{{ m.content if m.role != 'assistant' or loop.last else '…' }}", 1) + prompt, "</s>", nil, "another way"},
		{"messages counted", "{{ messages|length }}" + turns + prompt, "</s>", nil, "another way"},
		{"no answers first", turns + prompt +
			"{% if messages[-1].role == 'assistant' %}{{ raise_exception('no') }}{% endif %}", "</s>", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Detect(c.template)
			if err != nil {
				if c.name != "no answers first" || !strings.Contains(err.Error(), "refuses the conversation: no;") {
					t.Error(err)
				}
				return
			}
			f.EOS = "</s>"
			r, err := f.Render(conversation, Options{})
			if err != nil || f.EndOfTurn() != c.end || f.Stops()[0] != c.end || !slices.Contains(f.Stops(), "</s>") {
				t.Fatalf("%q, %v: turns end with %q, want %q", r.Text, err, f.Stops(), c.end)
			}
			known := slices.Clone(conversation)
			known[2].Context, known[4].Context = true, true
			if r, err := f.Render(known, Options{}); err != nil || r.NoTargets != nil || len(r.Targets) != 2 {
				t.Errorf("nothing to learn: %v, %v, %v", r.Targets, r.NoTargets, err)
			}
			if c.targets == nil {
				refused := (*RefusedError)(nil)
				if !errors.As(r.NoTargets, &refused) || !strings.Contains(refused.Reason, c.reason) || r.Targets != nil ||
					refused.Template != f.Name || refused.Role != "assistant" ||
					conversation[refused.Message].Role != refused.Role || !strings.Contains(refused.Advice, "generation") {
					t.Errorf("targets %v, %v, want none because of %q", r.Targets, r.NoTargets, c.reason)
				}
				return
			}
			checkParts(t, f, conversation, Options{}, r)
			var got []string
			for _, s := range r.Targets {
				got = append(got, r.Text[s.Start:s.End])
			}
			if r.NoTargets != nil || !slices.Equal(got, c.targets) {
				t.Errorf("targets %q, %v, want %q", got, r.NoTargets, c.targets)
			}
			// <|user|> is a token where the template writes a role, not where a user typed it.
			first := strings.Index(r.Text, "<|user|>")
			typed := first + len("<|user|>")
			whole := slices.ContainsFunc(r.Markup, func(m Span) bool { return m.Start <= first && typed <= m.End })
			if !whole || overlaps(r.Markup, Span{typed, typed + len("<|user|>")}) {
				t.Errorf("markup %v of %q", r.Markup, r.Text)
			}
		})
	}
}

// TestPrograms_MarkersOfRoles checks for every role whether a template's marker of it may be a token: the roles that
// every template knows may be part of one, any other could be something that a user typed. The content never is.
func TestPrograms_MarkersOfRoles(t *testing.T) {
	for _, template := range []string{turns, strings.ReplaceAll(turns, "{{ m.role }}", "{{ m['role'] | trim }}"),
		strings.ReplaceAll(turns, "<|{{ m.role }}|>", "{{ '<|' + m.role + '|>' }}")} {
		f, err := Detect(template)
		expect.OK(t, err)
		for role, own := range map[string]bool{"system": true, "user": true, "assistant": true, "tool": true, "x": false,
			"x|><|eot": false, "": false, "User": false, "user ": false, "ipython": false, "developer": false} {
			r, err := f.Render([]Message{{Role: role, Content: "<|tool|>"}}, Options{})
			marker := "<|" + role + "|>"
			if err != nil || !strings.HasPrefix(r.Text, marker) && strings.TrimSpace(role) == role {
				t.Fatalf("%q: %q, %v", role, r.Text, err)
			}
			whole := slices.ContainsFunc(r.Markup, func(m Span) bool { return m.Start == 0 && m.End >= len(marker) })
			if at := strings.LastIndex(r.Text, "<|tool|>"); whole != own && role != "" ||
				overlaps(r.Markup, Span{at, at + len("<|tool|>")}) {
				t.Errorf("%s: %q: markup %v of %q", template, role, r.Markup, r.Text)
			}
		}
		if _, err := f.Render([]Message{{NoRole: true, NoContent: true}}, Options{}); err != nil && template == turns {
			t.Errorf("a message of nothing, which is empty text in Jinja: %v", err)
		}
	}
}

// TestProgramBOS checks that a BOS counts only if the template writes it.
func TestProgramBOS(t *testing.T) {
	for _, c := range []struct {
		template, content string
		want              bool
	}{
		{"{{ bos_token }}{{ messages[0].content }}", "x", true},
		{"{{ messages[0].content }}", "<s>", false},
		{"{{ messages[0].content }}!", "<s>", false},
		{"<{{ messages[0].content }}", "s>", false},
		{"{{ messages[0].content }}", "x", false},
	} {
		f, err := Detect(c.template)
		expect.OK(t, err)
		f.BOS = "<s>"
		r, err := f.Render([]Message{{Role: "user", Content: c.content}}, Options{})
		if err != nil || r.BOS != c.want {
			t.Errorf("%s with %q: BOS is %v, %v", c.template, c.content, r.BOS, err)
		}
	}
}

// TestProgram_TokensAreVariables checks that all tokens of a model are variables, and the template's own text.
func TestProgram_TokensAreVariables(t *testing.T) {
	f, err := Detect("{{ unk_token }}{{ image_token }}{{ pad_token is defined }}{{ messages[0].content }}" +
		"{{ tools }}{{ documents }}{{ add_generation_prompt }}")
	expect.OK(t, err)
	f.Tokens = map[string]string{"unk_token": "<unk>", "image_token": "<img>", "messages": "x", "tools": "x",
		"documents": "x", "add_generation_prompt": "x"}
	r, err := f.Render([]Message{{Role: "user", Content: "<unk>"}}, Options{})
	if err != nil || r.Text != "<unk><img>False<unk>NoneNoneFalse" || !slices.Equal(r.Markup, []Span{{0, 15}, {20, 33}}) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestProgramDate(t *testing.T) {
	f, err := Detect("{{ date_string or strftime_now('%d %b %Y') }} {{ messages[0].content }}")
	expect.OK(t, err)
	day := time.Date(2031, 3, 7, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, FixedDate + " x"}, {Options{Now: day}, "07 Mar 2031 x"}, {Options{DateString: "May", Now: day}, "May x"},
	} {
		r, err := f.Render([]Message{{Role: "user", Content: "x"}}, c.o)
		if err != nil || r.Text != c.want {
			t.Errorf("%q, %v, want %q", r.Text, err, c.want)
		}
	}
}

// FuzzDetect renders a conversation with any text as its template: whatever it does, spans are in order and inside,
// and nothing that a user typed is markup.
func FuzzDetect(f *testing.F) {
	for _, text := range []string{
		turns, "{{ messages[0].content }}", "{{ bos_token }}{{ messages }}", "{{ messages[0].content|tojson }}</s>",
		"{% for m in messages %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}",
		"{% for m in messages %}{{ m.content[::-1] }}{{ m.content|upper }}</s>{% endfor %}{{ strftime_now('%d') }}",
	} {
		f.Add(text, "<s>", "b</s>")
	}
	f.Fuzz(func(t *testing.T, text, question, answer string) {
		p, err := hostile.Parse(t, text, Detect)
		if err != nil || p.program == nil {
			return
		}
		p.BOS, p.EOS = "<s>", "</s>"
		for _, o := range []Options{{}, {AddGenerationPrompt: true}} {
			r, err := p.Render([]Message{{Role: "user", Content: question}, {Role: "assistant", Content: answer}}, o)
			if err != nil {
				if !errors.As(err, new(*RefusedError)) {
					t.Error(err)
				}
				continue
			}
			at := 0
			for _, s := range r.Markup {
				if s.Start < at || s.End <= s.Start || s.End > len(r.Text) {
					t.Fatalf("markup %v of %d bytes", r.Markup, len(r.Text))
				}
				at = s.End
			}
			at = 0
			for _, s := range r.Targets {
				if s.Start < at || s.End < s.Start || s.End > len(r.Text) || r.NoTargets != nil {
					t.Fatalf("targets %v of %d bytes, %v", r.Targets, len(r.Text), r.NoTargets)
				}
				at = s.End
			}
			if r.NoTargets == nil && len(r.Targets) != 1 {
				t.Errorf("targets %v of one answer", r.Targets)
			}
			for _, s := range r.Contents {
				if s != Dropped && (s.Start < 0 || s.End > len(r.Text) || overlaps(r.Markup, s)) {
					t.Errorf("contents %v, markup %v", r.Contents, r.Markup)
				}
			}
		}
	})
}
