package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/chat"
	"restyle/internal/disk"
)

// A prompt is a question of --prompts.
type prompt struct {
	question string
	before   []chat.Message // earlier messages of the conversation, without a system prompt
	system   *string        // in place of --system; nil: that one
}

// openPrompts reads a file of questions; - is standard input. See readPrompts.
func openPrompts(path string, stdin io.Reader) (prompts []prompt, unused []string, err error) {
	if path == "-" {
		return readPrompts(stdin, "standard input")
	}
	f, err := disk.OpenInput(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--prompts: %w", err)
	}
	defer f.Close()
	return readPrompts(f, path)
}

// jsonArray matches the start of a JSON array over several lines or of objects with our keys, also if the rest is
// damaged. A question may also start with a bracket.
var jsonArray = regexp.MustCompile(`^\[\s*?(\n|\{\s*"(prompt|messages|system|role|content|id)"\s*:)`)

// maxPrompts is the maximum size of questions in bytes.
const maxPrompts = 256 << 20

// readPrompts reads questions: one per line, or JSON. JSON is any number of values, as in JSON lines or in one array.
// Each is an object (see promptReader.object), a string, or a conversation as a list of messages. unused are the keys
// of objects that mean nothing to chat.
func readPrompts(r io.Reader, name string) (prompts []prompt, unused []string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPrompts+1))
	if err == nil && len(text) > maxPrompts {
		err = fmt.Errorf("more than %d MiB: split the questions", maxPrompts>>20)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return nil, nil, fmt.Errorf("%s: line %d: not valid UTF-8: convert the file to UTF-8", name, i+1)
		}
	}
	p := &promptReader{name: name, unused: map[string]bool{}}
	text = bytes.TrimSpace(text)
	ext := strings.ToLower(filepath.Ext(name))
	switch {
	case bytes.HasPrefix(text, []byte("{")), jsonArray.Match(text),
		slices.Contains([]string{".json", ".jsonl", ".ndjson"}, ext),
		bytes.HasPrefix(text, []byte("[")) && json.Valid(text):
		err = p.values(text)
	default:
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" {
				p.add(prompt{question: line})
			}
		}
	}
	if err == nil && len(p.prompts) == 0 {
		err = fmt.Errorf("%s has no questions: write one per line", name)
	}
	return p.prompts, slices.Sorted(maps.Keys(p.unused)), err
}

// A promptReader reads the questions of a file in JSON.
type promptReader struct {
	name    string
	prompts []prompt
	unused  map[string]bool
}

func (p *promptReader) add(x prompt) { p.prompts = append(p.prompts, x) }

// values reads all values of a file.
func (p *promptReader) values(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		at := int(decoder.InputOffset())
		at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n"))
		where := fmt.Sprintf("line %d", 1+bytes.Count(text[:at], []byte("\n")))
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %s is not valid JSON: %w", p.name, where, err)
		}
		if err := p.value(value, where); err != nil {
			return err
		}
	}
}

// value reads one value.
func (p *promptReader) value(value json.RawMessage, where string) error {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || value[0] != '[' {
		x, err := p.one(value)
		if err != nil {
			return fmt.Errorf("%s: %s %w", p.name, where, err)
		}
		p.add(x)
		return nil
	}
	if len(list) > 0 && isMessage(list[0]) {
		list = []json.RawMessage{value} // a conversation
	}
	for i, value := range list {
		x, err := p.one(value)
		if err != nil {
			return fmt.Errorf("%s: %s, element %d %w", p.name, where, i+1, err)
		}
		p.add(x)
	}
	return nil
}

// isMessage reports whether value is a message of a conversation, and no object that chat reads.
func isMessage(value json.RawMessage) bool {
	var keys map[string]json.RawMessage
	return json.Unmarshal(value, &keys) == nil && keys["role"] != nil && keys["prompt"] == nil && keys["messages"] == nil
}

// one reads a question.
func (p *promptReader) one(value json.RawMessage) (x prompt, err error) {
	switch value[0] {
	case '"':
		x.question, err = textOf(value)
		return x, err
	case '[':
		return conversation(value)
	case '{':
		return p.object(value)
	}
	return x, fmt.Errorf(`is %.40s: must be a text or an object like {"prompt": "How do I …?"}`, value)
}

// refused are keys of objects that other programs use to change what is asked or how it is answered, with what chat has
// instead of them.
var refused = map[string]string{
	"temperature": "--temperature", "top_p": "--top-p", "top_k": "--top-k", "min_p": "--min-p",
	"repetition_penalty": "--repetition-penalty", "max_tokens": "--max-tokens", "max_new_tokens": "--max-tokens",
	"max_completion_tokens": "--max-tokens", "seed": "--seed", "stop": "--stop",
	"input": `"prompt"`, "instruction": `"prompt"`, "question": `"prompt"`, "query": `"prompt"`, "text": `"prompt"`,
	"prompts": `"prompt", and one object for each question`, "questions": `"prompt", and one object for each question`,
	"context": `"prompt"`, "documents": `"prompt"`, "prefix": `"prompt"`, "suffix": `"prompt"`,
	"system_prompt": `"system"`, "history": `"messages"`, "turns": `"messages"`, "conversation": `"messages"`,
	"conversations": `"messages"`, "role": `"messages"`, "content": `"messages"`,
	"tools": "", "functions": "", "tool_choice": "", "image": "", "images": "", "audio": "", "frequency_penalty": "",
	"presence_penalty": "", "logit_bias": "", "response_format": "", "chat_template_kwargs": "",
}

// object reads an object. "prompt" is the question, or a conversation as "messages" is, and "system" the system prompt.
// Keys in refused are errors, and p.unused gets all others.
func (p *promptReader) object(value json.RawMessage) (x prompt, err error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(value, &keys); err != nil {
		return x, err
	}
	lower := map[string]json.RawMessage{}
	for key, value := range keys {
		if string(value) != "null" {
			lower[strings.ToLower(key)] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(lower)) {
		switch instead, wrong := refused[key]; {
		case instead != "":
			return x, fmt.Errorf("has %q, which chat does not read: use %s", key, instead)
		case wrong:
			return x, fmt.Errorf("has %q, which chat does not support: leave it out", key)
		case key != "prompt" && key != "messages" && key != "system":
			p.unused[key] = true
		}
	}
	question, messages := lower["prompt"], lower["messages"]
	switch {
	case question != nil && messages != nil:
		return x, errors.New(`has "prompt" and "messages": leave one out`)
	case question != nil && question[0] == '[':
		messages = question
		fallthrough
	case messages != nil:
		x, err = conversation(messages)
	default:
		if x.question, err = textOf(question); err != nil {
			err = errors.New(`has no text as "prompt": must be like {"prompt": "How do I …?"}`)
		}
	}
	if system, given := lower["system"]; given && err == nil {
		if x.system != nil {
			return x, errors.New(`has "system" and a message with the role "system": leave one out`)
		}
		x.system = new(string)
		if json.Unmarshal(system, x.system) != nil {
			return x, fmt.Errorf(`has %.40s as "system": must be a text`, system)
		}
	}
	return x, err
}

// conversation reads a list of messages that ends with the question.
func conversation(value json.RawMessage) (x prompt, err error) {
	var list []map[string]json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return x, errors.New(`has no list of messages: must be like [{"role": "user", "content": "How do I …?"}]`)
	}
	for i, m := range list {
		role, content, err := message(m)
		last := i == len(list)-1
		switch {
		case err != nil:
			return x, fmt.Errorf("has in message %d %w", i+1, err)
		case role == "system" && i == 0 && !last:
			x.system = &content
		case role == "user" && last && strings.TrimSpace(content) != "":
			x.question = content
		case last:
			return x, fmt.Errorf("ends with a message of the role %q: the last must be a question, with the role user", role)
		case role == "user", role == "assistant":
			x.before = append(x.before, chat.Message{Role: role, Content: content})
		default:
			return x, fmt.Errorf("has in message %d the role %q: must be user or assistant, or system in the first", i+1, role)
		}
	}
	return x, nil
}

// message returns role and content of a message. It refuses what it would lose.
func message(m map[string]json.RawMessage) (role, content string, err error) {
	if role, err = textOf(m["role"]); err != nil {
		return "", "", errors.New(`no text as "role"`)
	}
	if json.Unmarshal(m["content"], &content) != nil || m["content"] == nil || m["content"][0] != '"' {
		return "", "", errors.New(`no text as "content"`)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value := string(m[key])
		if key != "role" && key != "content" && !slices.Contains([]string{"null", "[]", "{}", `""`}, value) {
			return "", "", fmt.Errorf("%q, which chat does not support: leave it out", key)
		}
	}
	return role, content, nil
}

// textOf returns the text in a JSON string, which must not be blank.
func textOf(value json.RawMessage) (text string, err error) {
	if len(value) == 0 || value[0] != '"' {
		return "", errors.New("is no text")
	}
	if err := json.Unmarshal(value, &text); err != nil {
		return "", err
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("is an empty text")
	}
	return text, nil
}
