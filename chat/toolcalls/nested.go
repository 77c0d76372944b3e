package toolcalls

import "encoding/json"

// Nested returns tools and tool_choice in the form of chat completions, which Read reads. It also takes the form of
// OpenAI's responses, in which a function has its name next to its type, and Anthropic's, in which parameters are
// called input_schema. It leaves what it does not know as it is.
func Nested(tools, choice json.RawMessage) (_, _ json.RawMessage) {
	var all []json.RawMessage
	if json.Unmarshal(tools, &all) == nil && all != nil {
		for i, raw := range all {
			all[i] = nestedTool(raw)
		}
		tools = list(all...)
	}
	var c struct{ Type, Name string }
	if json.Unmarshal(choice, &c) != nil {
		return tools, choice
	}
	switch {
	case c.Type == "auto" || c.Type == "none":
		choice = quote(c.Type)
	case c.Type == "any":
		choice = quote(string(Required))
	case c.Name != "" && (c.Type == "tool" || c.Type == "function"):
		choice = object("type", quote("function"), "function", object("name", quote(c.Name)))
	}
	return tools, choice
}

func nestedTool(raw json.RawMessage) json.RawMessage {
	var t map[string]json.RawMessage
	if json.Unmarshal(raw, &t) != nil || t["function"] != nil || t["name"] == nil {
		return raw
	}
	parameters := t["parameters"]
	switch kind := string(t["type"]); {
	case t["input_schema"] != nil && (kind == "" || kind == `"custom"`):
		parameters = t["input_schema"]
	case kind != `"function"`:
		return raw
	}
	function := []any{"name", t["name"]}
	if !empty(t["description"]) {
		function = append(function, "description", t["description"])
	}
	if !empty(parameters) {
		function = append(function, "parameters", parameters)
	}
	return object("type", quote("function"), "function", object(function...))
}
