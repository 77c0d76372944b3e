package serve

import (
	"encoding/json"
	"maps"
	"slices"

	"restyle/chat"
	"restyle/chat/toolcalls"
)

// conversation reads a list of messages in the form of OpenAI's chat completions, and Anthropic's is the same as far
// as there is only text.
func (b *body) conversation(name string) (messages []chat.Message) {
	var all []json.RawMessage
	if !b.read(name, &all) || len(all) == 0 {
		b.fail(refuse(name, "at least one message is needed, as [{\"role\": \"user\", \"content\": \"…\"}]"))
		return nil
	}
	for i, raw := range all {
		m, err := message(name, i, raw)
		if err != nil {
			b.fail(err)
			return nil
		}
		messages = append(messages, m)
	}
	return messages
}

// message reads one message: its content may be a list of parts of text, and what is null counts as absent.
func message(name string, i int, raw json.RawMessage) (m chat.Message, e *Error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return m, refuse(name, `message %d: must be an object like {"role": "user", "content": "…"}, not %s`, i+1, brief(raw))
	}
	for key, value := range fields {
		if string(value) == "null" || slices.Contains(nothing, plain(value)) && key != "content" {
			delete(fields, key)
		}
	}
	for _, key := range []string{"audio", "function_call"} {
		if fields[key] != nil {
			return m, refuse(name, "message %d: this server does not support %s", i+1, key)
		}
	}
	for _, key := range []string{"annotations", "cache_control", "id", "status", "type", "phase"} { // of earlier answers
		delete(fields, key)
	}
	absent := fields["content"] == nil
	text, e := content(name, i, fields["content"])
	if e != nil {
		return m, e
	}
	if fields["content"] != nil || fields["tool_calls"] == nil {
		fields["content"] = json.RawMessage(encode(text))
	}
	if string(fields["role"]) == `"developer"` { // OpenAI's newer name
		fields["role"] = json.RawMessage(`"system"`)
	}
	if fields["role"] == nil {
		return m, refuse(name, "message %d: it has no role", i+1)
	}
	if role := string(fields["role"]); absent && (role == `"user"` || role == `"system"`) {
		return m, refuse(name, "message %d: it has no content", i+1)
	}
	if err := json.Unmarshal(encode(fields), &m); err != nil {
		return m, refuse(name, "message %d: %v", i+1, err)
	}
	return m, nil
}

// content returns the text of a content, which may be a list of parts.
func content(name string, i int, raw json.RawMessage) (text string, e *Error) {
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", refuse(name, "message %d: the content must be a text or a list of parts, not %s", i+1, brief(raw))
	}
	for n, part := range parts {
		var kind, more string
		json.Unmarshal(part["type"], &kind)
		if kind != "text" && kind != "input_text" && kind != "output_text" {
			return "", refuse(name, "message %d: this server does not support parts of type %s, only text", i+1,
				brief(part["type"]))
		}
		if json.Unmarshal(part["text"], &more) != nil {
			return "", refuse(name, "message %d: a part of its content has no text", i+1)
		}
		if n > 0 {
			text += "\n" // as vLLM and llama.cpp join them
		}
		text += more
	}
	return text, nil
}

// variables reads the variables of the chat template.
func (b *body) variables() string {
	var all map[string]json.RawMessage
	if !b.read("chat_template_kwargs", &all) || len(all) == 0 {
		return ""
	}
	for _, own := range []string{"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "tokenize"} {
		if all[own] != nil {
			b.fail(refuse("chat_template_kwargs", "%s is not a variable that a request may set", own))
		}
	}
	return string(encode(all))
}

// unread returns the names of variables that a template did not read, sorted.
func unread(variables string, read []string) (names []string) {
	var all map[string]json.RawMessage
	if variables == "" || json.Unmarshal([]byte(variables), &all) != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return slices.Contains(read, name) })
}

// history makes calls of tools in a conversation, and their results, what templates read.
func (b *body) history(messages []chat.Message) []chat.Message {
	messages, err := toolcalls.History(messages)
	if err != nil {
		b.fail(refuse("messages", "%v", err))
	}
	return messages
}
