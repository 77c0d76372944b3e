package jinja

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"restyle/internal/expect"
)

// vector is a recording of Jinja2: a template on a conversation, or an expression.
type vector struct {
	Name, Feature, Template, Now string
	Parts                        [][2]any `json:"template_parts"`
	Messages, Options, Variables json.RawMessage
	Text, Error                  *string
	ErrorType                    string   `json:"error_type"`
	Points                       [][2]int `json:"spans"`
	Spans                        [][2]int `json:"spans_bytes"`
	MustEnd                      string   `json:"must_end"`
}

func read(t testing.TB, path string) (rows []vector) {
	t.Helper()
	expect.Lines(t, path, func(_ int, v vector) {
		if v.Variables == nil {
			v.Variables = []byte("{}")
		}
		rows = append(rows, v)
	})
	return rows
}

func parse(t testing.TB, data []byte) *Dict {
	t.Helper()
	v, err := Parse(data, 0)
	expect.OK(t, err)
	return v.(*Dict)
}

// conversation makes the variables of a recorded conversation as transformers makes them, and reads its clock: all
// options but "now" are variables, and so are tools and documents if the options lack them.
func (v vector) conversation(t *testing.T) (*Dict, time.Time) {
	t.Helper()
	vars := &Dict{}
	vars.Set("tools", nil)
	vars.Set("documents", nil)
	given := parse(t, v.Options)
	for i, k := range given.keys {
		if k.(Str).s != "now" {
			vars.set(k.(Str), given.values[i])
		}
	}
	messages, err := Parse(v.Messages, 0)
	expect.OK(t, err)
	all := messages.(*List).items
	for i, m := range all {
		all[i] = withThoughts(m.(*Dict))
	}
	vars.Set("messages", messages)
	var o struct{ Now string }
	expect.OK(t, json.Unmarshal(v.Options, &o))
	return vars, at(t, o.Now)
}

// withThoughts puts a message's thoughts under "thinking" and "reasoning_content", whichever name they came by.
func withThoughts(m *Dict) *Dict {
	for _, name := range []string{"reasoning_content", "thinking", "reasoning"} {
		thoughts, _ := m.get(name)
		if thoughts == nil {
			continue
		}
		with := &Dict{}
		with.Set("thinking", thoughts) // in front, even if it is there
		for j, k := range m.keys {
			with.set(k.(Str), m.values[j])
		}
		with.Set("reasoning_content", thoughts)
		return with
	}
	return m
}

func at(t *testing.T, now string) time.Time {
	if now == "" {
		now = "2001-02-03T04:05:06"
	}
	when, err := time.Parse("2006-01-02T15:04:05", now)
	expect.OK(t, err)
	return when
}

// absent matches errors that name something that a template asked for in vain.
var absent = regexp.MustCompile("is undefined|has no (attribute|element)|was empty|is unsafe|not provided|" +
	"no .* item|no else|no caller")

// check runs a template and compares the result with v.
func (v vector) check(t *testing.T, text string, vars *Dict, now time.Time) {
	t.Helper()
	var out Output
	template, err := Compile(text)
	if err == nil {
		out, err = template.Render(vars, now)
	}
	switch e, _ := AsError(err); {
	case v.Error == nil && v.Text == nil: // it differs
	case v.Error == nil && err != nil:
		t.Errorf("%s: %v, want %q", text[:min(300, len(text))], err, *v.Text)
	case v.Error == nil && out.Text != *v.Text:
		t.Errorf("%s\n got %q\nwant %q", text[:min(300, len(text))], out.Text, *v.Text)
	case v.Error != nil && v.ErrorType == "ValueError" && strings.Contains(*v.Error, "Tools should be"):
	case v.Error != nil && err == nil:
		t.Errorf("%s is %q, want the error %s", text[:min(300, len(text))], out.Text, *v.Error)
	case v.Error != nil && (v.ErrorType == "TemplateError") != e.Raised:
		t.Errorf("%s: error %v, raised %v, want %s: %s", text[:min(300, len(text))], err, e.Raised, v.ErrorType, *v.Error)
	case v.ErrorType == "UndefinedError" && !absent.MatchString(e.Message):
		t.Errorf("%s: error %v, want one that names what is undefined", text, err)
	case v.Error != nil && e.Raised && e.Message != *v.Error:
		t.Errorf("raised %q, want %q", e.Message, *v.Error)
	case err != nil && (e.Line < 1 || e.Line > strings.Count(text, "\n")+1):
		t.Errorf("error on line %d of %d", e.Line, strings.Count(text, "\n")+1)
	}
	if v.Error != nil || err != nil {
		return
	}
	var spans, points [][2]int
	for _, s := range out.Generated {
		spans = append(spans, [2]int{s.Start, s.End})
		points = append(points, [2]int{utf8.RuneCountInString(out.Text[:s.Start]), utf8.RuneCountInString(out.Text[:s.End])})
	}
	if v.Spans != nil && !slices.Equal(spans, v.Spans) || v.Points != nil && !slices.Equal(points, v.Points) {
		t.Errorf("generated %v, in characters %v, want %v and %v", spans, points, v.Spans, v.Points)
	}
	checkGiven(t, out)
}

func checkGiven(t *testing.T, out Output) {
	t.Helper()
	end := 0
	for _, s := range out.Given {
		if s.Start < end || s.End <= s.Start || s.End > len(out.Text) {
			t.Fatalf("given %v of %d bytes", out.Given, len(out.Text))
		}
		end = s.End
	}
}

// TestExpressions_AsRecorded compares with what testdata/make.py recorded.
func TestExpressions_AsRecorded(t *testing.T) { expressions(t, "testdata/recorded.jsonl") }

// TestNames_ScopesAsRecorded compares which value a name has with what testdata/make_names.py recorded: given or not,
// set in each kind of block, which is taken or not, and read before, inside and after.
func TestNames_ScopesAsRecorded(t *testing.T) {
	for line := range strings.Lines(expect.Read(t, "testdata/names.jsonl")) {
		var row struct {
			Open, Close, Conditions string
			Cases                   [][3]string
		}
		expect.OK(t, json.Unmarshal([]byte(line), &row))
		for _, c := range row.Cases {
			texts := strings.Split(c[2], "|")
			for _, reads := range strings.Fields(c[1]) {
				read := func(i int) string { return strings.Repeat("{{ x|default('U') }};", int(reads[i]-'0')) }
				text := read(0) + row.Open + read(1) + c[0] + read(2) + row.Close + read(3)
				texts = checkNames(t, strings.ReplaceAll(text, "§", read(4)), row.Conditions, texts)
			}
			if len(texts) != 0 {
				t.Errorf("%s%s: %d texts are left", row.Open, c[0], len(texts))
			}
		}
	}
}

// TestOptions_AsRecorded compares every combination of the options of each filter, function and method with what
// testdata/make_options.py recorded.
func TestOptions_AsRecorded(t *testing.T) {
	for line := range strings.Lines(expect.Read(t, "testdata/options.jsonl")) {
		var row struct {
			Expressions []string
			Options     [][]string
			Texts       []any
		}
		expect.OK(t, json.Unmarshal([]byte(line), &row))
		for _, expression := range row.Expressions {
			given := []string{""}
			for _, alternatives := range row.Options {
				var more []string
				for _, before := range given {
					for _, option := range alternatives {
						if before != "" && option != "" {
							option = ", " + option
						}
						more = append(more, before+option)
					}
				}
				given = more
			}
			for _, options := range given {
				v := vector{Error: new("an error")}
				switch want := row.Texts[0].(type) {
				case string:
					v = vector{Text: &want}
				case bool:
					if v.ErrorType = "UndefinedError"; want {
						v = vector{}
					}
				}
				row.Texts = row.Texts[1:]
				v.check(t, strings.ReplaceAll(expression, "§", options), &Dict{}, at(t, "2024-02-05T15:04:09"))
			}
		}
		if len(row.Texts) != 0 {
			t.Errorf("%s: %d texts are left", row.Expressions, len(row.Texts))
		}
	}
}

// checkNames renders a template with x or without and with all values of its conditions, and returns the texts that
// follow.
func checkNames(t *testing.T, template, conditions string, texts []string) []string {
	t.Helper()
	cases := 2 << len(conditions)
	for i := range cases {
		vars := &Dict{}
		if i >= cases/2 {
			vars.Set("x", Own("G"))
		}
		for j, name := range conditions {
			vars.Set(string(name), i>>(len(conditions)-1-j)&1 == 1)
		}
		vector{Text: &texts[i]}.check(t, template, vars, time.Time{})
	}
	return texts[cases:]
}

// TestTemplates_AsRecorded renders whole templates on conversations as testdata/make_templates.py recorded it.
func TestTemplates_AsRecorded(t *testing.T) {
	conversations := map[string]vector{}
	for _, v := range read(t, "testdata/conversations.jsonl") {
		conversations[v.Name] = v
	}
	rows := read(t, "testdata/templates.jsonl")
	files, err := filepath.Glob("testdata/templates/*.jinja")
	if err != nil || len(rows) != len(files)*len(conversations) {
		t.Fatalf("%d templates, %d conversations, %d rows: run testdata/make_templates.py", len(files), len(conversations),
			len(rows))
	}
	for _, v := range rows {
		t.Run(v.Feature+"/"+v.Name, func(t *testing.T) {
			text := expect.Read(t, "testdata/templates/"+v.Feature+".jinja")
			vars, now := conversations[v.Name].conversation(t)
			v.check(t, text, vars, now)
		})
	}
}

// TestEncode_IsRefused names the one method of Python's strings whose result is not text.
func TestEncode_IsRefused(t *testing.T) {
	template, err := Compile("{% if messages %}{{ 'é'.encode('utf-8') }}{% endif %}x")
	expect.OK(t, err)
	vars := &Dict{}
	if out, err := template.Render(vars, time.Time{}); err != nil || out.Text != "x" {
		t.Errorf("not reached: %q, %v", out.Text, err)
	}
	vars.Set("messages", true)
	_, err = template.Render(vars, time.Time{})
	expect.Error(t, err, "the string method encode makes bytes")
}

// TestEscapes_RefusesUnsupported refuses escapes of strings that this interpreter has no characters for.
func TestEscapes_RefusesUnsupported(t *testing.T) {
	for text, want := range map[string]string{
		`{{ '\N{BULLET}' }}`: `line 1: the escape \N in a string is not supported: write the character itself`,
		`{{ '\ud83d' }}`:     `line 1: an escape in a string is no character: "ud83d"`,
	} {
		_, err := Compile(text)
		expect.Error(t, err, want)
	}
}

// TestErrors_OnTheirLine checks which line an error names.
func TestErrors_OnTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"\n{{ 1 +\n nope.x }}":                                      "line 3: 'nope' is undefined",
		"{% set x =\n\n 1 + 'a' %}":                                 "line 3: unsupported operand type(s) for +",
		"{% for i in [1] %}\n{{ i }}\n{{ i.x.y }}\n{% endfor %}\nx": "line 3: 'int object' has no attribute 'x'",
		"{% macro f() %}\n{{ nope.x }}{% endmacro %}\n\n{{ f() }}":  "line 2: 'nope' is undefined",
		"\n{{ 'a'|nosuch }}":                                        "line 2: no filter named 'nosuch'",
		"\n\n{{ [1,\n2] | join(\n3, 4, 5) }}":                       "line 4: join takes at most 3",
		"{{ f(\n1)\n }}":                                            "line 1: 'f' is undefined",
		"{% if\n nope.x %}{% endif %}":                              "line 2: 'nope' is undefined",
		"{{ 1 }}{{\n raise_exception('a') }}\n":                     "line 2: a",
		"{% call\n f() %}{% endcall %}":                             "line 2: 'f' is undefined",
		"a\n{# \n #}\n{{ 'a\nb' ~ nope.x }}":                        "line 5: 'nope' is undefined",
		"{% raw %}\n\n{% endraw %}{{ nope.x }}":                     "line 3: 'nope' is undefined",
		"{% if 1 %}\n\n{% else %}\n{% if %}":                        "line 4: ",
		"a\n{# b\n":                                                 "line 2: the end of a comment is missing",
		"a\n{% raw %}\nb":                                           "line 2: the end of a raw block is missing",
		"\n{{ 'a\n":                                                 "line 2: a string has no end",
		"{% for x in [1] %}\n{{ x }}\n":                             "line 2: the template ends where endfor or else",
		"\n{{ (1 is\nnosuch) }}":                                    "line 2: no test named 'nosuch'",
		"{{ 1.5|round(401) }}":                                      "line 1: a precision of 401",
		"{{ range(7)|batch(0) }}":                                   "line 1: batch wants",
		"{{ 'a' * 16777217 }}":                                      "line 1: a text of more than",
		"{{ '%10000000000d' % 1 }}":                                 "a field of 10000000000 characters",
		"{{ '{:.1001f}'.format(1.5) }}":                             "a precision of 1001",
		"{{ 1|items }}":                                             "can only get item pairs",
		"{{ (-8)**0.5 }}":                                           "complex numbers",
		"{{ 3**40000 }}":                                            "an integer of more than",
		"{{ 2**32767 * 2 }}":                                        "32768 bits",
		"{{ 0**-1 }}":                                               "cannot be raised", "{{ 1e300**2 }}": "too large",
	} {
		template, err := Compile(text)
		if err == nil {
			_, err = template.Render(&Dict{}, time.Time{})
		}
		expect.Error(t, err, want)
	}
	long := strings.Repeat("é", 150)
	_, err := Compile("{{ 1|" + long + " }}")
	expect.Error(t, err, "no filter named '"+long[:200]+"…'")
	if _, err = Compile("{{ 1|x" + long + " }}"); !strings.Contains(err.Error(), "x"+long[:198]+"…'") {
		t.Errorf("cut to %q", err)
	}
}

// TestGiven_TwoInputsStayTwo has two inputs next to each other, which stay two.
func TestGiven_TwoInputsStayTwo(t *testing.T) {
	template, err := Compile("{{ a }}{{ b }}{{ (b ~ a)|upper }}{{ b[0] ~ b[1:] }}")
	expect.OK(t, err)
	vars := &Dict{}
	vars.Set("a", Text("xy", 1))
	vars.Set("b", Text("zw", 2))
	out, err := template.Render(vars, time.Time{})
	want := []Span{{0, 2, 1}, {2, 6, 2}, {6, 8, 1}, {8, 10, 2}}
	if err != nil || out.Text != "xyzwZWXYzw" || !slices.Equal(out.Given, want) {
		t.Errorf("%q, %v, %v; want %v", out.Text, out.Given, err, want)
	}
}

// TestWatch_NotesWhatIsAsked checks which names a template is found to ask a dict for.
func TestWatch_NotesWhatIsAsked(t *testing.T) {
	for text, want := range map[string]string{"x": "", "{{ d.a }}": "a", "{{ d['b'] }}{{ d.get('a') }}": "ab",
		"{{ d }}":        "ab",
		"{{ d|tojson }}": "ab", "{{ d|dictsort }}": "ab", "{{ d.items() }}": "ab", "{{ d.values()|list }}": "ab",
		"{{ d.keys()|list }}": "", "{{ d|length }}": "", "{{ 'a' in d }}": "a",
		"{{ [d]|map(attribute='b')|list }}": "b"} {
		template, err := Compile(text)
		expect.OK(t, err)
		d, vars := &Dict{}, &Dict{}
		if err := d.Add([]byte(`{"a":1,"b":"x"}`), 3); err != nil || d.Add([]byte("[]"), 3) == nil || d.Add([]byte("{"),
			3) == nil {
			t.Fatal(err)
		}
		d.Watch()
		vars.Set("d", d)
		if _, err := template.Render(vars, time.Time{}); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, name := range []string{"a", "b", "c"} {
			if d.Read(name) {
				got += name
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	const block = "{% generation %}x{% endgeneration %}"
	for text, unplaced := range map[string]bool{block: false,
		"{% macro f() %}" + block + "{% endmacro %}{{ f() }}": true,
		"{% set x %}" + block + "{% endset %}{{ x }}":         true, "{% for i in [1] %}" + block + "{% endfor %}": false} {
		template, err := Compile(text)
		if err != nil || !template.Generation {
			t.Fatal(err)
		}
		out, err := template.Render(&Dict{}, time.Time{})
		if err != nil || out.Unplaced != unplaced || (len(out.Generated) == 0) != unplaced {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}

// TestRefused_BracketsAndChanges refuses brackets that do not belong together, and methods that change a value.
func TestRefused_BracketsAndChanges(t *testing.T) {
	var bad []string
	for open, close := range map[string]string{"(": ")", "[": "]", "{": "}"} {
		for _, other := range []string{")", "]", "}"} {
			if other != close {
				bad = append(bad, "{{ "+open+"1"+other+" }}")
			}
		}
		bad = append(bad, "{{ 1"+close+" }}", "{{ "+open+" }}")
	}
	for _, method := range []string{"clear()", "pop(1)", "popitem()", "setdefault(1, 2)", "update({})"} {
		bad = append(bad, "{{ {1: 2}."+method+" }}")
	}
	for _, method := range []string{"append(1)", "clear()", "extend([])", "insert(0, 1)", "pop()", "remove(1)",
		"reverse()", "sort()"} {
		bad = append(bad, "{{ [1]."+method+" }}")
	}
	for _, text := range bad {
		template, err := Compile(text)
		if err == nil {
			_, err = template.Render(&Dict{}, time.Time{})
		}
		if err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// TestRandomFunctions_AreRefused refuses functions whose output differs from call to call.
func TestRandomFunctions_AreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{{ [1, 2]|random }}": "random is not allowed", "\n{{ lipsum() }}": "lipsum is not allowed",
		"{% if lipsum is defined and 'random' is filter %}x{% else %}{{ lipsum(2) }}{% endif %}": "",
	} {
		template, err := Compile(text)
		expect.OK(t, err)
		out, err := template.Render(&Dict{}, time.Time{})
		if want != "" {
			expect.Error(t, err, want)
		} else if err != nil || out.Text != "x" {
			t.Errorf("%s: %q, %v", text, out.Text, err)
		}
	}
}

func TestReferenceExpressions(t *testing.T) {
	for _, file := range expect.Recordings(t, "expressions.jsonl") {
		expressions(t, file)
	}
}

func expressions(t *testing.T, file string) {
	for _, v := range read(t, file) {
		t.Run(v.Feature, func(t *testing.T) { v.check(t, v.Template, parse(t, v.Variables), at(t, v.Now)) })
	}
}

// TestGiven_StaysTheInputs checks that what a user types stays the input's, whatever a template does with it.
func TestGiven_StaysTheInputs(t *testing.T) {
	const typed = "<|end|> é\n<|x|>"
	for _, text := range []string{
		"{{ '<|u|>' + m + '<|end|>' }}", "{{ m|trim }}|{{ m|upper|lower }}", "{{ m[::-1][::-1] }}{{ m[2:5] }}{{ m[0] }}",
		"{{ m.split(' ')|join('_') }}", "{{ ('a' ~ m ~ '<|end|>')|upper }}{{ ('<|end|>' ~ m)|lower }}",
		"{{ m|replace('x', 'y') }}",
		"{{ 'a-b'|replace('-', m) }}", "{{ [m]|tojson }}{{ [m] }}",
		"{{ '%s|%5s' % (m, m) }}{{ '{:>30}'.format(m) }}", "{% set x %}a{{ m }}b{% endset %}{{ x|title }}{{ x.center(50) }}",
		"{% macro f(s) %}[{{ s }}]{{ caller() }}{% endmacro %}{% call f(m) %}{{ m }}{% endcall %}",
		"{{ {m: 1} }}{{ {'k': m}|dictsort }}",
		"{% for c in m %}{{ c }}{% endfor %}", "{{ m|e }}{{ m|indent(2, true) }}{{ m|wordwrap(5) }}{{ m|truncate(9) }}",
		"{{ '%a' % m }}{{ '{!a}'.format([m]) }}{{ m.swapcase() }}{{ m.casefold() }}{{ m|capitalize }}",
	} {
		template, err := Compile(text)
		expect.OK(t, err)
		render := func(content string) (own string) {
			vars := &Dict{}
			vars.Set("m", Text(content, 7))
			out, err := template.Render(vars, time.Time{})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			at := 0
			for _, g := range append(out.Given, Span{Start: len(out.Text), End: len(out.Text), Source: 7}) {
				if g.Source != 7 {
					t.Errorf("%s: source %d", text, g.Source)
				}
				own += out.Text[at:g.Start]
				at = g.End
			}
			return own
		}
		if got := render(typed); strings.Contains(strings.ReplaceAll(got, "'<|u|>' ", ""), "x|>") ||
			strings.Count(strings.ToLower(got), "<|end|>") != strings.Count(text, "<|end|>") {
			t.Errorf("%s: the template's own text is %q", text, got)
		}
	}
}

// TestReferenceTemplates renders each template.jinja with the conversations next to it.
func TestReferenceTemplates(t *testing.T) {
	for _, file := range expect.Recordings(t, "template.jinja") {
		text := expect.Read(t, file)
		for _, v := range read(t, filepath.Join(filepath.Dir(file), "vectors.jsonl")) {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+v.Name, func(t *testing.T) {
				vars, now := v.conversation(t)
				v.check(t, text, vars, now)
			})
		}
	}
}

func TestReferenceHostile(t *testing.T) {
	for _, file := range expect.Recordings(t, "hostile.jsonl") {
		for _, v := range read(t, file) {
			t.Run(v.Name, func(t *testing.T) { checkHostile(t, v) })
		}
	}
}

func checkHostile(t *testing.T, v vector) {
	t.Helper()
	text := v.Template
	for _, p := range v.Parts {
		text += strings.Repeat(p[0].(string), int(p[1].(float64)))
	}
	template, err := Compile(text)
	out := Output{}
	if err == nil {
		out, err = template.Render(parse(t, v.Variables), time.Time{})
	}
	if e, is := AsError(err); !is || len(err.Error()) > 300 || e.Line < 1 {
		t.Errorf("%.100q, %.300v; want a short error with a line", out.Text, err)
	}
}

// TestReferenceTrim compares what the filter trim takes with Python's str.strip: each code point that it must take, on
// both sides of a text, and the class of every code point.
func TestReferenceTrim(t *testing.T) {
	for _, path := range expect.Recordings(t, "unicode_classes.json") {
		var classes struct{ Strip [][2]rune }
		expect.OK(t, json.Unmarshal([]byte(expect.Read(t, path)), &classes))
		white := ""
		for r := range utf8.MaxRune + 1 {
			want := slices.ContainsFunc(classes.Strip, func(c [2]rune) bool { return c[0] <= r && r <= c[1] })
			if IsSpace(r) != want {
				t.Errorf("U+%04X is white space: %v, want %v", r, !want, want)
			}
			if want {
				white += string(r)
			}
		}
		vars := &Dict{}
		vars.Set("m", Text(white+"x"+white, 0))
		vector{Text: new("x")}.check(t, "{{ m|trim }}", vars, time.Time{})
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"{% for m in messages %}{{ m.content|trim }}{% endfor %}", "{{ 'a%5.2f' % 1.5 }}{{ '{:>5}'.format(1) }}",
		"{% macro m(a, b=2) %}{{ a ~ b }}{{ caller() }}{% endmacro %}{% call m(1) %}x{% endcall %}",
		"{% set ns = namespace(a=1) %}{% set ns.a = messages[::-1] %}{{ ns.a|tojson(indent=2) }}", "{#- c -#}{% raw %}{{",
	} {
		f.Add(text, "<|x|>ß\n")
	}
	f.Fuzz(func(t *testing.T, text, typed string) {
		before := allocated()
		template, err := Compile(text)
		if got := allocated() - before; got > 1<<20+1024*len(text) {
			t.Errorf("allocates %d bytes to read a template of %d", got, len(text))
		}
		if err != nil {
			return
		}
		m := &Dict{}
		m.Set("role", Text("user", 0))
		m.Set("content", Text(typed, 0))
		vars := &Dict{}
		vars.Set("messages", Items(m))
		in := &interp{vars: vars, now: time.Unix(0, 0), budget: newBudget(vars)}
		before = allocated()
		out, err := template.render(in)
		if got := allocated() - before; got > 1<<20+8*in.paid || in.paid > in.maxPaid+maxString {
			t.Errorf("allocates %d bytes, paid %d of %d", got, in.paid, in.maxPaid)
		}
		if err != nil {
			return
		}
		checkGiven(t, out)
		if utf8.ValidString(typed) && utf8.ValidString(text) && !utf8.ValidString(out.Text) {
			t.Errorf("%q of valid text", out.Text)
		}
	})
}
