package chat

import (
	"encoding/json"
	"fmt"
)

// A Message is one message of a conversation. All templates know the roles "system", "user" and "assistant"; some know
// others.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`

	// Thoughts are what an assistant thought before it answered, if they are separate from Content. A template gets
	// them under the key that it reads, one of ThoughtKeys.
	Thoughts string `json:"reasoning_content,omitempty"`
	// Calls are the tools that an assistant calls, as the JSON list that templates know as tool_calls.
	Calls string `json:"-"`
	// More is a JSON object with whatever else the message has, such as name or tool_call_id. Whatever a template
	// reads from it becomes part of the text.
	More string `json:"-"`

	// Context marks an answer that is part of the conversation but not to be learned.
	Context bool `json:"-"`
	// Asides are the parts of Content that are read but not to be learned, in bytes, in order.
	Asides []Span `json:"-"`

	// NoRole and NoContent tell a missing role or content from an empty one, as templates do. The field itself is then
	// empty. Only messages that were read from JSON have them.
	NoRole    bool `json:"-"`
	NoContent bool `json:"-"`
}

// ThoughtKeys are the keys of a message under which templates read thoughts, the most common first.
var ThoughtKeys = []string{"reasoning_content", "reasoning", "thinking", "thoughts", "thought", "thinking_content",
	"reasoning_text", "chain_of_thought", "cot"}

// UnmarshalJSON reads an object with the keys "role" and "content", and perhaps "tool_calls" and thoughts. Each may be
// missing, and content may be null next to tool_calls. All other keys are in More.
func (m *Message) UnmarshalJSON(data []byte) error {
	// Decode through a map, because a struct would match "Role" and "ROLE" as well.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return fmt.Errorf(`chat message %.60q: must be an object like {"role": "user", "content": "…"}`, data)
	}
	*m = Message{}
	if calls := fields["tool_calls"]; calls != nil {
		if calls[0] != '[' && string(calls) != "null" {
			return fmt.Errorf("chat message: tool_calls %.60q: must be a list", calls)
		}
		if calls[0] == '[' {
			m.Calls = string(calls)
		}
		if string(fields["content"]) == "null" {
			delete(fields, "content")
		}
	}
	var err error
	if m.Role, m.NoRole, err = text(fields, "role"); err != nil {
		return err
	}
	if m.Content, m.NoContent, err = text(fields, "content"); err != nil {
		return err
	}
	for _, key := range ThoughtKeys {
		if m.Thoughts == "" {
			if m.Thoughts, _, err = text(fields, key); err != nil {
				return err
			}
		}
		delete(fields, key)
	}
	for _, key := range []string{"role", "content", "tool_calls"} {
		delete(fields, key)
	}
	if len(fields) > 0 {
		more, err := json.Marshal(fields)
		m.More = string(more)
		return err
	}
	return nil
}

func text(fields map[string]json.RawMessage, key string) (s string, missing bool, err error) {
	raw, is := fields[key]
	if !is {
		return "", true, nil
	}
	if raw[0] != '"' { // null would leave s as it is, without an error
		return "", false, fmt.Errorf("chat message: %s %.60q: must be a string", key, raw)
	}
	return s, false, json.Unmarshal(raw, &s)
}

// Says reports whether a message has anything that an assistant would have to generate: text, thoughts or calls.
func (m Message) Says() bool {
	return Strip(m.Content) != "" || m.Thoughts != "" || m.Calls != ""
}
