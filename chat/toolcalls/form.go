package toolcalls

import (
	"fmt"
	"regexp"
	"strings"

	"restyle/chat"
)

// A Form is how a model writes calls.
type Form struct {
	kind      kind
	open      string // the tag before a call, or a list; "" for none
	close     string // the tag after a call
	arguments string // the key of the arguments
}

type kind int

const (
	inTags kind = iota
	inList
	bare
)

// pythonTag may come before a bare call.
const pythonTag = "<|python_tag|>"

// listTag comes before a list of calls.
const listTag = "[TOOL_CALLS]"

// Around returns the texts before and after what Set.Schema describes.
func (f Form) Around() (before, after string) {
	if f.kind == inTags {
		return f.open + "\n", "\n" + f.close
	}
	return f.open, ""
}

// The texts of the probe.
const (
	probeName = "qzxvkwjtool"
	probeKey  = "qzxvkwjkey"
)

// written finds the call of the probe, and what is around it.
var written = regexp.MustCompile(`(?s)^(.*?)\{\s*"name":\s*"` + probeName + `",\s*"(\w+)":\s*\{\s*"` + probeKey +
	`":\s*1\s*\}(.*)$`)

// openTag is a tag just before a call, and closeTag one after it.
var (
	openTag  = regexp.MustCompile(`(<(\w+)>)\s*$`)
	closeTag = regexp.MustCompile(`^\s*\}\s*(</(\w+)>)`)
)

// FormOf returns the form in which a template writes calls. It is an error, which names the template, if the template
// writes no tools or calls, or writes calls in another form.
func FormOf(t chat.Template) (Form, error) {
	var reasons []error
	for _, system := range []bool{false, true} {
		for _, result := range []bool{false, true} {
			text, prompt, err := probe(t, system, result)
			if err == nil {
				return formOf(t.Name, text, prompt)
			}
			reasons = append(reasons, err)
		}
	}
	return Form{}, fmt.Errorf("the model takes no tools: %w", reasons[0])
}

func formOf(template, text, prompt string) (Form, error) {
	found := written.FindStringSubmatch(text)
	if found == nil {
		return Form{}, fmt.Errorf("the model takes no tools: chat template %s writes calls in a form that is not "+
			"supported: use a model whose calls are JSON with a name and arguments", template)
	}
	before, key, after := found[1], found[2], found[3]
	open, close := openTag.FindStringSubmatch(before), closeTag.FindStringSubmatch(after)
	bracket := strings.TrimRight(before, " \n[")
	switch {
	case key != "arguments" && key != "parameters":
	case open != nil && close != nil && open[2] == close[2]:
		return Form{inTags, open[1], close[1], key}, nil
	case strings.HasSuffix(bracket, listTag) && bracket != strings.TrimSpace(before):
		return Form{inList, listTag, "", key}, nil
	case strings.TrimSuffix(strings.TrimSpace(before), pythonTag) == strings.TrimSpace(prompt):
		return Form{bare, "", "", key}, nil
	}
	return Form{}, fmt.Errorf("the model takes no tools: chat template %s writes %.60q around calls, which is not "+
		"supported: use a model that writes them in tags, after %s, or alone", template, last(before), listTag)
}

// last returns the end of a text.
func last(text string) string { return text[max(0, len(text)-30):] }

// probe renders a conversation in which a tool is called, and the prompt before the call.
func probe(t chat.Template, system, result bool) (text, prompt string, err error) {
	messages := []chat.Message{
		{Role: "user", Content: "Question"},
		{Role: "assistant", NoContent: true, Calls: `[{"id": "abcdefghi", "type": "function", "function": {"name": "` +
			probeName + `", "arguments": {"` + probeKey + `": 1}}}]`},
	}
	if system {
		messages = append([]chat.Message{{Role: "system", Content: "Rules"}}, messages...)
	}
	asked := messages[:len(messages)-1]
	if result {
		messages = append(messages, chat.Message{Role: "tool", Content: "1",
			More: `{"tool_call_id": "abcdefghi", "name": "` + probeName + `"}`})
	}
	const tools = `[{"type": "function", "function": {"name": "other", "description": "Does it.", ` +
		`"parameters": {"type": "object", "properties": {"x": {"type": "string", "description": "Any."}}}}}]`
	before, err := t.Render(asked, chat.Options{Tools: tools, AddGenerationPrompt: true})
	if err != nil {
		return "", "", err
	}
	all, err := t.Render(messages, chat.Options{Tools: tools})
	return all.Text, before.Text, err
}
