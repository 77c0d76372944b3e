package serve

import (
	"encoding/json"
	"slices"
)

// The functions here give tool calls and their results in a conversation the form of chat completions, whichever API
// it came by. What they do not know they leave to the functions that read messages.

// flat turns items of the responses API into messages: a call is an item of its own there, and so is its result.
func (b *body) flat(name string) {
	var items []map[string]json.RawMessage
	if json.Unmarshal(b.fields[name], &items) != nil {
		return
	}
	var messages []any
	var calls []object // of the answer that the last items were
	for i, item := range items {
		var kind string
		json.Unmarshal(item["type"], &kind)
		switch kind {
		case "function_call":
			calls = append(calls, object{"id": item["call_id"], "type": "function",
				"function": object{"name": item["name"], "arguments": item["arguments"]}})
			if i == len(items)-1 || string(items[i+1]["type"]) != `"function_call"` {
				messages = append(messages, object{"role": "assistant", "tool_calls": calls})
				calls = nil
			}
		case "function_call_output":
			messages = append(messages, object{"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
		default:
			messages = append(messages, item)
		}
	}
	b.fields[name] = encode(messages)
}

// blocks turns messages of Anthropic's API into messages of chat completions: calls are parts of an answer there, and
// results are parts of the next question.
func (b *body) blocks(name string) {
	var all []map[string]json.RawMessage
	if json.Unmarshal(b.fields[name], &all) != nil {
		return
	}
	var messages []any
	for _, m := range all {
		var parts, rest []map[string]json.RawMessage
		if json.Unmarshal(m["content"], &parts) != nil {
			messages = append(messages, m)
			continue
		}
		var calls []object
		for _, part := range parts {
			switch string(part["type"]) {
			case `"tool_use"`:
				calls = append(calls, object{"id": part["id"], "type": "function",
					"function": object{"name": part["name"], "arguments": part["input"]}})
			case `"tool_result"`:
				messages = append(messages, object{"role": "tool", "tool_call_id": part["tool_use_id"],
					"content": part["content"]})
			default:
				rest = append(rest, part)
			}
		}
		if len(rest) == len(parts) {
			messages = append(messages, m)
			continue
		}
		if delete(m, "content"); len(rest) > 0 {
			m["content"] = encode(rest)
		}
		if len(calls) > 0 {
			m["tool_calls"] = encode(calls)
		}
		if len(calls)+len(rest) > 0 {
			messages = append(messages, m)
		}
	}
	b.fields[name] = encode(messages)
}

// An opened is which part of a streamed answer is open, in the APIs that have parts: text, or a call.
type opened struct {
	index int // of the part
	text  bool
	call  bool
	said  string // of the text or the arguments
}

// shut closes the part that is open, if any, and returns what it was.
func (o *opened) shut() opened {
	was := *o
	if was.text || was.call {
		*o = opened{index: o.index + 1}
	}
	return was
}

// calling reports whether a question may be answered by calls.
func (q *question) calling() bool { return len(q.tools.Tools) > 0 }

// input returns the arguments of a call as JSON, and an empty object if they are cut.
func (c call) input() json.RawMessage {
	if !json.Valid([]byte(c.arguments)) {
		return json.RawMessage("{}")
	}
	return slices.Clone(json.RawMessage(c.arguments))
}
