package parity

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"restyle/chat/jinja"
)

// hasTemplate reports whether there is one template, whose conversations are in vectors.jsonl.
func (f *folder) hasTemplate() bool {
	_, err := os.Stat(f.path("template.jinja"))
	return err == nil && f.hasFile("vectors.jsonl")
}

// isJinja finds one template with conversations, and collections of templates to be rendered or refused.
func isJinja(f *folder) bool {
	return f.hasTemplate() || f.hasFile("expressions.jsonl") || f.hasFile("hostile.jsonl")
}

func compareJinja(f *folder) error {
	if f.hasTemplate() {
		text, err := f.read("template.jinja")
		if err != nil {
			return err
		}
		f.enter("template.jinja")
		template, err := jinja.Compile(string(text))
		f.compare("template compiled", "template.jinja", differ(err == nil), exact)
		if err != nil {
			return nil
		}
		return f.eachLine("vectors.jsonl", func(n int, line []byte) error {
			return f.rendering("vectors.jsonl", n, line, func(v jinjaLine) (jinja.Output, error) {
				vars, err := jinja.Conversation(v.Messages, v.Options)
				if err != nil {
					return jinja.Output{}, err
				}
				return template.Render(vars, v.clock())
			})
		})
	}
	for _, file := range []string{"expressions.jsonl", "hostile.jsonl"} {
		if !f.hasFile(file) {
			continue
		}
		err := f.eachLine(file, func(n int, line []byte) error {
			return f.rendering(file, n, line, func(v jinjaLine) (jinja.Output, error) {
				template, err := jinja.Compile(v.text())
				if err != nil {
					return jinja.Output{}, err
				}
				vars, err := jinja.Parse(v.Variables, 0)
				if err != nil {
					return jinja.Output{}, err
				}
				return template.Render(vars.(*jinja.Dict), v.clock())
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A jinjaLine is a template or a conversation, and what Jinja2 makes of it.
type jinjaLine struct {
	Messages, Options, Variables json.RawMessage
	Template, Now                string
	Parts                        []jinjaPart `json:"template_parts"`
	Text, Error                  *string
	ErrorType                    string   `json:"error_type"`
	Spans                        [][2]int `json:"spans"`
	SpansBytes                   [][2]int `json:"spans_bytes"`
}

// A jinjaPart is a text that is repeated: ["(", 1000].
type jinjaPart struct {
	text  string
	times int
}

func (p *jinjaPart) UnmarshalJSON(data []byte) error {
	parts := []any{&p.text, &p.times}
	return json.Unmarshal(data, &parts)
}

func (v jinjaLine) text() string {
	text := v.Template
	for _, p := range v.Parts {
		text += strings.Repeat(p.text, p.times)
	}
	return text
}

// clock is the time that the template sees.
func (v jinjaLine) clock() time.Time {
	var o struct{ Now string }
	if v.Options != nil {
		_ = json.Unmarshal(v.Options, &o) // without one, it is not read
	}
	if o.Now == "" {
		o.Now = v.Now
	}
	now, err := time.Parse("2006-01-02T15:04:05", o.Now)
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return now
}

// rendering compares a text, or an error, whose words count only if they are the template's own.
func (f *folder) rendering(file string, n int, line []byte, render func(jinjaLine) (jinja.Output, error)) error {
	fields, key, err := f.fields(file, n, line, "name", "feature", "messages", "options", "variables", "template",
		"template_parts", "now")
	if err != nil {
		return err
	}
	v := jinjaLine{Variables: json.RawMessage("{}")}
	if err := json.Unmarshal(line, &v); err != nil {
		return err
	}
	out, err := render(v)
	var e *jinja.Error
	is := errors.As(err, &e)
	if err != nil && !is {
		return err
	}
	if fields["must_end"] != nil {
		f.compare("hostile templates refused", key("must_end"), differ(is), exact)
		return nil
	}
	if v.Error != nil {
		// transformers itself refuses tools that are no mappings, before there is a template.
		if v.ErrorType == "ValueError" && strings.Contains(*v.Error, "Tools should be") {
			f.strike(key("error"), input)
			f.strike(key("error_type"), input)
			return nil
		}
		raised := v.ErrorType == "TemplateError"
		f.compare("refused renderings", key("error"), differ(is && (!raised || e.Message == *v.Error)), exact)
		f.compare("refused renderings", key("error_type"), differ(is && e.Raised == raised), exact)
		return nil
	}
	if v.Text == nil {
		f.missing(key("text"))
		return nil
	}
	f.compare("rendered texts", key("text"), differ(err == nil && out.Text == *v.Text), exact)
	if fields["spans"] == nil && fields["spans_bytes"] == nil {
		return nil
	}
	var bytes, points [][2]int
	for _, s := range out.Generated {
		bytes = append(bytes, [2]int{s.Start, s.End})
		points = append(points, [2]int{len([]rune(out.Text[:s.Start])), len([]rune(out.Text[:s.End]))})
	}
	f.compare("generated parts", key("spans"), differ(slices.Equal(points, v.Spans)), exact)
	f.compare("generated parts", key("spans_bytes"), differ(slices.Equal(bytes, v.SpansBytes)), exact)
	return nil
}
