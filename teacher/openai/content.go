package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unmarshal is [json.Unmarshal], but leaves out values whose type does not fit v.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		return nil
	}
	return err
}

// notNumbers matches the JSON strings in a text, and the numbers that JSON does not have.
var notNumbers = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)

// WithoutNaN returns JSON with null in place of NaN and Infinity, which Python writes.
func WithoutNaN(data []byte) []byte {
	return notNumbers.ReplaceAllFunc(data, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte("null")
	})
}

// isNull reports whether a field is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// IsError reports whether the field "error" of a response states an error: many servers send it empty, as null, "",
// {} or false.
func IsError(raw json.RawMessage) bool { return !blank(raw) }

// blank reports whether there is nothing in a JSON value.
func blank(raw json.RawMessage) bool {
	var v any
	return isNull(raw) || json.Unmarshal(raw, &v) == nil && blankValue(v)
}

func blankValue(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range v {
			if !blankValue(field) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, func(element any) bool { return !blankValue(element) })
	case string:
		return slices.Contains([]string{"", "null", "none"}, strings.ToLower(strings.TrimSpace(v)))
	}
	return v == nil || v == false || v == 0.0
}

// numberOf returns a count that may be a float or in quotes, or 0 if raw is not a count.
func numberOf(raw json.RawMessage) int {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || !(n >= 0 && n < math.MaxInt32) {
		return 0
	}
	return int(n)
}

// usage is the number of tokens of a request and its answer, by OpenAI's names and by Anthropic's.
type usage struct {
	PromptTokens     json.RawMessage `json:"prompt_tokens"`
	CompletionTokens json.RawMessage `json:"completion_tokens"`
	InputTokens      json.RawMessage `json:"input_tokens"`
	OutputTokens     json.RawMessage `json:"output_tokens"`
	TotalTokens      json.RawMessage `json:"total_tokens"`
}

// tokens returns the numbers, with 0 for missing ones. Some servers count thoughts only in the total.
func (u usage) tokens() (prompt, completion int) {
	prompt = max(numberOf(u.PromptTokens), numberOf(u.InputTokens))
	completion = max(numberOf(u.CompletionTokens), numberOf(u.OutputTokens))
	if prompt > 0 {
		completion = max(completion, numberOf(u.TotalTokens)-prompt)
	}
	return prompt, completion
}

// A joined text is made from the insides of JSON strings. A character may be cut between two of them, as \ud83d and
// \ude00 or within its bytes.
type joined struct {
	whole []byte
	half  []byte // the beginning of a character, as in JSON
}

// add adds the inside of a JSON string.
func (t *joined) add(part []byte) {
	part = append(t.half, part...)
	at := cutAt(part)
	t.whole = append(t.whole, unquote(part[:at])...)
	t.half = slices.Clone(part[at:])
}

func (t *joined) String() string { return string(t.whole) + unquote(t.half) }

// cutAt returns where the last character of the inside of a JSON string starts if it is incomplete, and otherwise the
// length.
func cutAt(part []byte) int {
	if at := len(part) - len(`\ud83d`); at >= 0 && part[at] == '\\' && part[at+1] == 'u' {
		before := len(part[:at]) - len(bytes.TrimRight(part[:at], `\`))
		code, err := strconv.ParseUint(string(part[at+2:]), 16, 16)
		if before%2 == 0 && err == nil && code >= 0xd800 && code < 0xdc00 {
			return at
		}
	}
	for n := 1; n < utf8.UTFMax && n <= len(part); n++ {
		if at := len(part) - n; utf8.RuneStart(part[at]) {
			if !utf8.FullRune(part[at:]) {
				return at
			}
			break
		}
	}
	return len(part)
}

// unquote returns the text of the inside of a JSON string.
func unquote(part []byte) string {
	var s string
	if bytes.ContainsAny(part, "\\") || !utf8.Valid(part) {
		json.Unmarshal(slices.Concat([]byte{'"'}, part, []byte{'"'}), &s)
		return s
	}
	return string(part)
}

// read returns the text of a delta or a message as the inside of a JSON string, and how many bytes of thoughts it
// has. If there is no text, it returns the refusal.
func read(raw json.RawMessage) (said []byte, thoughts int, refuses bool, err error) {
	if isNull(raw) || raw[0] != '{' {
		return textOf(raw)
	}
	var c content
	if err := unmarshal(raw, &c); err != nil {
		return nil, 0, false, err
	}
	said, thoughts, refuses, err = textOf(c.Content)
	if err == nil && len(said) == 0 {
		said, _, _, err = textOf(c.Refusal)
		refuses = len(said) > 0
	}
	for _, thought := range []json.RawMessage{c.ReasoningContent, c.Reasoning, c.Thinking} {
		if thoughts == 0 && !blank(thought) {
			thoughts = len(thought)
		}
	}
	return said, thoughts, refuses, err
}

// textOf returns the text of content, which is null, a string, a part or a list of parts, and whether a part of it is
// a refusal.
func textOf(raw json.RawMessage) (said []byte, thoughts int, refuses bool, err error) {
	return textIn(raw, maxParts)
}

// maxParts is the maximum depth of parts within parts: each level is read once more. One level is usual.
const maxParts = 8

func textIn(raw json.RawMessage, levels int) (said []byte, thoughts int, refuses bool, err error) {
	switch {
	case levels == 0:
		return nil, 0, false, fmt.Errorf("content: more than %d levels of parts: %s", maxParts, excerpt(raw))
	case isNull(raw):
		return nil, 0, false, nil
	case raw[0] == '"':
		return raw[1 : len(raw)-1], 0, false, nil
	case raw[0] == '{':
		var part struct {
			Type    string          `json:"type"`
			Text    json.RawMessage `json:"text"`
			Refusal json.RawMessage `json:"refusal"`
		}
		if err := unmarshal(raw, &part); err != nil {
			return nil, 0, false, err
		}
		if part.Type == "text" || part.Type == "output_text" || part.Type == "" && len(part.Text) > 0 {
			return textIn(part.Text, levels-1)
		}
		if part.Type == "refusal" {
			said, thoughts, _, err = textIn(part.Refusal, levels-1)
			return said, thoughts, len(said) > 0, err
		}
		return nil, len(raw), false, nil // thoughts, most likely
	case raw[0] == '[':
		var parts []json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil {
			return nil, 0, false, err
		}
		for _, p := range parts {
			more, n, no, err := textIn(p, levels-1)
			if err != nil {
				return nil, 0, false, err
			}
			said, thoughts, refuses = append(said, more...), thoughts+n, refuses || no
		}
		return said, thoughts, refuses, nil
	}
	return nil, 0, false, fmt.Errorf("content: neither text nor a list of parts: %s", excerpt(raw))
}
