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

	// NoRole and NoContent tell a missing role or content from an empty one, as templates do. The field itself is then
	// empty. Only messages that were read from JSON have them.
	NoRole    bool `json:"-"`
	NoContent bool `json:"-"`
}

// UnmarshalJSON reads an object with the keys "role" and "content". Either may be missing. "tool_calls" is an error;
// other keys are ignored, as templates ignore them.
func (m *Message) UnmarshalJSON(data []byte) error {
	// Through a map, since a struct would match "Role" and "ROLE" as well.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return fmt.Errorf(`chat message %.60q: must be an object like {"role": "user", "content": "…"}`, data)
	}
	if _, is := fields["tool_calls"]; is {
		return fmt.Errorf("chat message with tool_calls: tools are not supported: leave such conversations out")
	}
	*m = Message{}
	var err error
	if m.Role, m.NoRole, err = text(fields, "role"); err != nil {
		return err
	}
	m.Content, m.NoContent, err = text(fields, "content")
	return err
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
