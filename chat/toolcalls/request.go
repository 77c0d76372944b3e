package toolcalls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"restyle/chat"
)

// A Set has the tools of a request, and which of them the answer calls.
type Set struct {
	Tools  []Tool
	Choice Choice
	// Named is the tool that has to be called, if Choice is Required and there is one.
	Named string
}

// A Tool is a function that the model may call.
type Tool struct {
	Name       string
	Parameters json.RawMessage // the schema of its arguments; nil: none
	raw        json.RawMessage
}

// Choice says whether the answer calls tools.
type Choice string

// The choices.
const (
	None     Choice = "none" // the model sees the tools, but answers in text
	Auto     Choice = "auto"
	Required Choice = "required"
)

// MaxTools is the maximum number of tools in a request.
const MaxTools = 128

var validName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// Read reads the fields tools and tool_choice of a request. Errors name the field.
func Read(tools, choice json.RawMessage) (s Set, err error) {
	if !empty(tools) {
		if err := s.readTools(tools); err != nil {
			return Set{}, err
		}
	}
	if err := s.readChoice(choice); err != nil {
		return Set{}, err
	}
	return s, nil
}

func empty(field json.RawMessage) bool { return len(field) == 0 || string(field) == "null" }

func (s *Set) readTools(tools json.RawMessage) error {
	var list []json.RawMessage
	if err := json.Unmarshal(tools, &list); err != nil {
		return fmt.Errorf("tools: must be a list of tools")
	}
	if len(list) > MaxTools {
		return fmt.Errorf("tools: there are %d: at most %d are supported", len(list), MaxTools)
	}
	for i, raw := range list {
		var t struct {
			Type     string
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("tools[%d]: %w", i, err)
		}
		f := t.Function
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools[%d].type %q: only functions are supported", i, t.Type)
		case !validName.MatchString(f.Name):
			return fmt.Errorf("tools[%d].function.name %.80q: must be 1 to 64 letters, digits, underscores, points and "+
				"hyphens", i, f.Name)
		case s.has(f.Name):
			return fmt.Errorf("tools[%d].function.name %q: another tool has that name", i, f.Name)
		case empty(f.Parameters):
			f.Parameters = nil
		case f.Parameters[0] != '{':
			return fmt.Errorf("tools[%d].function.parameters: must be a JSON schema of an object", i)
		}
		s.Tools = append(s.Tools, Tool{f.Name, f.Parameters, raw})
	}
	return nil
}

func (s *Set) readChoice(choice json.RawMessage) error {
	s.Choice = Auto
	if len(s.Tools) == 0 {
		s.Choice = None
	}
	if empty(choice) {
		return nil
	}
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	switch {
	case json.Unmarshal(choice, &s.Choice) == nil:
		if !slices.Contains([]Choice{None, Auto, Required}, s.Choice) {
			return fmt.Errorf("tool_choice %q: must be none, auto, required or a function", s.Choice)
		}
	case json.Unmarshal(choice, &named) == nil && named.Type == "function":
		s.Choice, s.Named = Required, named.Function.Name
		if !s.has(s.Named) {
			return fmt.Errorf("tool_choice: tools have no function %.80q", s.Named)
		}
	default:
		return fmt.Errorf("tool_choice %.80s: must be none, auto, required or "+
			`{"type": "function", "function": {"name": …}}`, choice)
	}
	if len(s.Tools) == 0 && s.Choice == Required {
		return fmt.Errorf("tool_choice required: there are no tools")
	}
	if len(s.Tools) == 0 {
		s.Choice = None
	}
	return nil
}

func (s *Set) has(name string) bool {
	return slices.ContainsFunc(s.Tools, func(t Tool) bool { return t.Name == name })
}

// Text returns the tools for chat.Options.Tools, or "" if there are none.
func (s Set) Text() string {
	if len(s.Tools) == 0 {
		return ""
	}
	var list [][]byte
	for _, t := range s.Tools {
		list = append(list, t.raw)
	}
	return "[" + string(bytes.Join(list, []byte(", "))) + "]"
}

// Schema returns the JSON schema of an answer, between the texts of form.Around, if it has to call a tool, and nil if
// it may also be text.
func (s Set) Schema(form Form) []byte {
	if s.Choice != Required {
		return nil
	}
	var calls []json.RawMessage
	for _, t := range s.Tools {
		if s.Named == "" || s.Named == t.Name {
			calls = append(calls, t.schema(form.arguments))
		}
	}
	schema := object("anyOf", list(calls...))
	if form.kind == inList {
		return object("type", quote("array"), "items", schema, "minItems", []byte("1"))
	}
	return schema
}

// schema returns the schema of a call.
func (t Tool) schema(arguments string) json.RawMessage {
	parameters := t.Parameters
	if parameters == nil {
		parameters = []byte(`{"type": "object", "properties": {}, "additionalProperties": false}`)
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(parameters, &keys) == nil && keys["$id"] == nil { // it refers only to itself
		separator := ", "
		if len(keys) == 0 {
			separator = ""
		}
		parameters = append([]byte(`{"$id": `+string(quote(t.Name))+separator), bytes.TrimSpace(parameters)[1:]...)
	}
	return object("type", quote("object"),
		"properties", object("name", object("const", quote(t.Name)), arguments, parameters),
		"required", list(quote("name"), quote(arguments)),
		"additionalProperties", []byte("false"))
}

func quote(s string) json.RawMessage {
	text, _ := json.Marshal(s)
	return text
}

func list(items ...json.RawMessage) json.RawMessage {
	text, _ := json.Marshal(items)
	return text
}

// object returns an object of keys and values, in that order.
func object(pairs ...any) json.RawMessage {
	var out bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		out.WriteByte("{,"[min(i, 1)])
		out.Write(quote(pairs[i].(string)))
		out.WriteByte(':')
		switch value := pairs[i+1].(type) {
		case json.RawMessage:
			out.Write(value)
		case []byte:
			out.Write(value)
		}
	}
	out.WriteByte('}')
	return out.Bytes()
}

// History returns the messages of a request as templates read them: the arguments of calls, a string in OpenAI's API,
// become the object in that string, and a result gets the name of the tool that returned it. A result of a call that
// is not in the conversation is an error.
func History(messages []chat.Message) ([]chat.Message, error) {
	messages = slices.Clone(messages)
	names := map[string]string{} // of the tools, by the ids of their calls
	for i := range messages {
		m := &messages[i]
		if m.Calls != "" {
			if err := readCalls(m, names); err != nil {
				return nil, fmt.Errorf("messages[%d].tool_calls: %w", i, err)
			}
		}
		if m.Role != "tool" {
			continue
		}
		more := map[string]json.RawMessage{}
		var id string
		if m.More != "" {
			if err := json.Unmarshal([]byte(m.More), &more); err != nil {
				return nil, fmt.Errorf("messages[%d]: %w", i, err)
			}
		}
		if err := json.Unmarshal(more["tool_call_id"], &id); err != nil || names[id] == "" {
			return nil, fmt.Errorf("messages[%d].tool_call_id %s: no earlier message has a call of that id", i,
				more["tool_call_id"])
		}
		if more["name"] == nil {
			more["name"] = quote(names[id])
			text, err := json.Marshal(more)
			if err != nil {
				return nil, err
			}
			m.More = string(text)
		}
	}
	return messages, nil
}

// readCalls turns the arguments of a message's calls into objects, and records the names by the calls' ids.
func readCalls(m *chat.Message, names map[string]string) error {
	var calls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal([]byte(m.Calls), &calls); err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		if c.ID == "" || c.Function.Name == "" {
			return fmt.Errorf("[%d]: it needs an id and a function with a name", i)
		}
		var text string
		if json.Unmarshal(c.Function.Arguments, &text) == nil && text != "" {
			c.Function.Arguments = []byte(text)
		}
		if len(c.Function.Arguments) == 0 || string(c.Function.Arguments) == `""` {
			c.Function.Arguments = []byte("{}")
		}
		var arguments map[string]json.RawMessage
		if err := json.Unmarshal(c.Function.Arguments, &arguments); err != nil {
			return fmt.Errorf("[%d].function.arguments: must be a JSON object, in a string: %w", i, err)
		}
		c.Type = "function"
		names[c.ID] = c.Function.Name
	}
	text, err := json.Marshal(calls)
	m.Calls = string(text)
	return err
}
