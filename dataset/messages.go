package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"restyle/chat"
)

// roles maps the names of roles in datasets to those of chat templates. Any other name is an error: with a misspelt
// role, train would silently not learn an answer.
var roles = map[string]string{
	"system": "system", "user": "user", "assistant": "assistant",
	"human": "user", "gpt": "assistant", // ShareGPT
	"tool": "tool", "ipython": "ipython",
}

// parseMessages reads a conversation: an array of {"role", "content"} or of {"from", "value"}.
func parseMessages(raw []byte) ([]chat.Message, error) {
	if k := kind(raw); k != "an array" {
		return nil, fmt.Errorf("the conversation is %s: expected an array of messages", k)
	}
	if d := depth(raw); d > maxDepth {
		return nil, fmt.Errorf("the conversation is nested deeper than %d levels", maxDepth)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("the conversation: %w", err)
	}
	if len(items) == 0 {
		return nil, errors.New("the conversation has no messages: remove the row")
	}
	messages := make([]chat.Message, len(items))
	for i, item := range items {
		m, err := parseMessage(item)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages[i] = m
	}
	return messages, nil
}

func parseMessage(raw []byte) (chat.Message, error) {
	keys, values, err := object(raw)
	if err != nil {
		return chat.Message{}, err
	}
	who, what := "role", "content"
	if values[who] == nil && values["from"] != nil {
		who, what = "from", "value"
	}
	if k := kind(values["tool_calls"]); k != "nothing" && k != "null" && string(values["tool_calls"]) != "[]" {
		return chat.Message{}, errors.New("tool_calls are not supported: remove such conversations")
	}
	// To ignore the weight would teach what the row says not to learn.
	if w := values["weight"]; w != nil && string(w) != "1" && string(w) != "1.0" && kind(w) != "null" {
		return chat.Message{}, fmt.Errorf("weight %.20s: must be 1, because all answers count equally: "+
			"remove such conversations, or the weights", w)
	}
	for _, key := range []string{who, what} {
		switch k := kind(values[key]); k {
		case "a string":
		case "an array":
			if key != what {
				return chat.Message{}, fmt.Errorf("key %q: expected a string, found %s", key, k)
			}
		case "nothing":
			return chat.Message{}, fmt.Errorf("there is no key %q among %s: "+
				`a message is {"role": …, "content": …} or {"from": …, "value": …}`, key, list(keys))
		default:
			return chat.Message{}, fmt.Errorf("key %q: expected a string, found %s", key, k)
		}
	}
	name, err := text(values[who])
	if err != nil {
		return chat.Message{}, fmt.Errorf("key %q: %w", who, err)
	}
	role, known := roles[name]
	if !known {
		return chat.Message{}, fmt.Errorf("role %.60q: unknown: use system, user or assistant", name)
	}
	content, err := contentOf(values[what])
	if err != nil {
		return chat.Message{}, fmt.Errorf("key %q: %w", what, err)
	}
	return chat.Message{Role: role, Content: content}, nil
}

// contentOf reads a content: a string, or a list of parts {"type": "text", "text": …}, which are joined with a line
// break, as servers of templates do that take only strings.
func contentOf(raw json.RawMessage) (string, error) {
	if kind(raw) != "an array" {
		return text(raw)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return "", err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		if kind(item) != "an object" {
			return "", fmt.Errorf("part %d is %s: expected an object", i, kind(item))
		}
		_, values, err := object(item)
		if err != nil {
			return "", fmt.Errorf("part %d: %w", i, err)
		}
		if is := string(values["type"]); is != `"text"` {
			return "", fmt.Errorf("part %d is of type %.60s: only text is supported: remove such conversations", i, is)
		}
		if k := kind(values["text"]); k != "a string" {
			return "", fmt.Errorf("part %d: key %q: expected a string, found %s", i, "text", k)
		}
		if parts[i], err = text(values["text"]); err != nil {
			return "", fmt.Errorf("part %d: %w", i, err)
		}
	}
	return strings.Join(parts, "\n"), nil
}
