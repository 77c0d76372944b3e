package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"restyle/chat"
)

// roles maps the names of roles in datasets, in lower case, to the names in chat templates. Any other name is an error:
// with a misspelt role, train would silently not learn an answer.
var roles = map[string]string{
	"system": "system", "user": "user", "assistant": "assistant",
	"human": "user", "gpt": "assistant", // ShareGPT
	"prompter": "user", "model": "assistant", "bot": "assistant", "ai": "assistant", "chatgpt": "assistant",
	"developer": "system", // OpenAI's name for it
	"tool":      "tool", "ipython": "ipython",
	"observation": "tool", "tool_response": "tool", "function": "tool", // what a tool returned
	"function_call": "assistant", "tool_call": "assistant", // what calls it: the content is JSON
}

// callRoles are the roles of messages whose content is a call.
var callRoles = []string{"function_call", "tool_call"}

// masks are the keys that tell whether an answer is to be learned, and what 1 or true means.
var masks = map[string]bool{
	"train": true, "training": true, "trainable": true, // axolotl, verl
	"loss": true, "loss_mask": true, "loss_scale": true, "loss_weight": true, // ms-swift, verl
	"weight": true, "learn": true, // OpenAI, Mistral
	"masked": false, "ignore_loss": false, "no_loss": false, // torchtune
}

// unclear are keys about what is asked or learned that are not supported, and what to do about them.
var unclear = map[string]string{
	"mask":         ambiguous,
	"train_detail": wholly, "training_detail": wholly,
	"audio": textOnly, "audios": textOnly, "image": textOnly, "images": textOnly, "video": textOnly, "videos": textOnly,
}

// markWords are in the names of keys that say whether a message is to be learned.
var markWords = []string{"train", "loss", "mask", "learn", "supervis", "weight", "ignore", "skip"}

// isMark reports whether a key that is not in masks may say by 0 or 1 whether a message is to be learned.
func isMark(key string, value []byte) bool {
	_, mark := truth(value)
	return mark && slices.ContainsFunc(markWords, func(word string) bool { return strings.Contains(key, word) })
}

const (
	ambiguous = `whether it means "learned" or "left out" is not clear: rename it to train or masked`
	wholly    = `to leave a part of a text out of the loss, give the content as a list of parts ` +
		`{"type": "text", "text": …}, which are joined with a line break, and mark one with "train": false`
	textOnly = "only text is supported: remove such conversations"
)

// maxNames is the largest number of names that are remembered: in some files the keys are data.
const maxNames = 1000

// names are different names in the order in which they came.
type names struct {
	list  []string
	has   map[string]bool
	asked int // messages with a mask that wants them learned, though they are no answers
}

func (n *names) add(all ...string) {
	for _, name := range all {
		if n.has[name] || len(n.list) == maxNames {
			continue
		}
		if n.has == nil {
			n.has = map[string]bool{}
		}
		n.has[name], n.list = true, append(n.list, name)
	}
}

// parseMessages reads a conversation: an array of {"role", "content"} or of {"from", "value"}. It adds to seen the keys
// that are only for the template.
func parseMessages(raw []byte, seen *names) ([]chat.Message, error) {
	whole := kind(raw)
	if whole == "a string" { // which holds the JSON
		inner, err := text(raw)
		if err != nil {
			return nil, fmt.Errorf("the conversation: %w", err)
		}
		raw = []byte(strings.TrimSpace(inner))
	}
	if kind(raw) != "an array" {
		return nil, fmt.Errorf("the conversation is %s: expected an array of messages", whole)
	}
	if err := tooMuch(raw); err != nil {
		return nil, fmt.Errorf("the conversation: %w", err)
	}
	if _, _, commas := shape(raw); commas >= maxItems { // before a slice grows
		return nil, fmt.Errorf("the conversation has %d messages: at most %d are read", commas+1, maxItems)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		if pythons.Match(raw) {
			err = errors.New("it is " + python)
		}
		return nil, fmt.Errorf("the conversation: %w", err)
	}
	if len(items) == 0 {
		return nil, errors.New("the conversation has no messages: remove the row")
	}
	messages := make([]chat.Message, 0, len(items))
	called := false    // by the message before, whose content was a call
	var calls []string // of that message, and of those after it
	join := func() {
		if len(calls) > 1 {
			messages[len(messages)-1].Calls = "[" + strings.Join(calls, ",") + "]"
		}
	}
	for i, item := range items {
		m, call, err := parseMessage(item, seen)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		inside := strings.TrimSuffix(strings.TrimPrefix(m.Calls, "["), "]")
		if call && called && m.Context == messages[len(messages)-1].Context {
			calls = append(calls, inside)
			continue
		}
		join()
		messages, called, calls = append(messages, m), call, []string{inside}
	}
	join()
	return messages, nil
}

// parseMessage reads a message. call tells that its content was a call.
func parseMessage(raw []byte, seen *names) (m chat.Message, call bool, err error) {
	keys, values, err := object(raw)
	if err != nil {
		return m, false, err
	}
	who, what := "role", "content"
	if values[who] == nil && values["from"] != nil {
		who, what = "from", "value"
	}
	name, err := wordOf(values, keys, who)
	if err != nil {
		return m, false, err
	}
	role, known := roles[strings.ToLower(name)]
	if !known {
		return m, false, fmt.Errorf("role %.60q: unknown: use system, user or assistant", name)
	}
	m.Role, name = role, strings.ToLower(name)
	said, err := masked(keys, values)
	if err != nil {
		return m, false, err
	}
	m.Context = said == leave
	if said == learn && role != "assistant" {
		seen.asked++
	}
	if m.Calls, err = callsOf(values); err != nil {
		return m, false, err
	}
	if err := readContent(&m, values, keys, what); err != nil {
		return m, false, err
	}
	if err := readThoughts(&m, values); err != nil {
		return m, false, err
	}
	if slices.Contains(callRoles, name) && m.Calls == "" {
		if m.Calls, err = calls([]byte(m.Content)); err != nil {
			return m, false, fmt.Errorf("role %s: %w", name, err)
		}
		m.Content, m.NoContent, call = "", true, true
	}
	if (m.Calls != "" || m.Thoughts != "") && role != "assistant" {
		return m, false, fmt.Errorf("role %.60q: only an assistant calls tools and thinks", name)
	}
	m.More = moreOf(keys, values, append(slices.Clone(ownKeys), who, what), seen)
	if loneSurrogate([]byte(m.Calls + m.More)) {
		return m, false, errors.New("half of a surrogate pair in a call or another key is no character")
	}
	return m, call, nil
}

// ownKeys are the keys that become fields of a message, besides masks and thoughts.
var ownKeys = []string{"tool_calls", "function_call"}

// wordOf returns the string under a key that must be there.
func wordOf(values map[string]json.RawMessage, keys []string, key string) (string, error) {
	switch k := kind(values[key]); k {
	case "a string":
	case "nothing":
		return "", missing(key, keys)
	default:
		return "", fmt.Errorf("key %q: expected a string, found %s", key, k)
	}
	s, err := text(values[key])
	if err != nil {
		return "", fmt.Errorf("key %q: %w", key, err)
	}
	return s, nil
}

func missing(key string, keys []string) error {
	return fmt.Errorf("there is no key %q among %s: "+
		`a message is {"role": …, "content": …} or {"from": …, "value": …}`, key, list(keys))
}

// What a message says about itself.
const (
	nothing = iota
	learn
	leave
)

// masked returns what a message says about whether it is to be learned.
func masked(keys []string, values map[string]json.RawMessage) (is int, err error) {
	said := ""
	for _, key := range keys {
		value := values[key]
		if empty(value) {
			continue
		}
		name := strings.ToLower(key)
		if why := unclear[name]; why != "" {
			return nothing, fmt.Errorf("key %q: %s", key, why)
		}
		learned, mask := masks[name]
		switch {
		case !mask && isMark(name, value):
			return nothing, fmt.Errorf("key %q: %s", key, ambiguous)
		case !mask:
			continue
		}
		yes, ok := truth(value)
		if !ok {
			return nothing, fmt.Errorf("%s %.20s: must be 0 or false, or 1 or true, "+
				"because all answers that are learned count equally", key, value)
		}
		now := learn
		if yes != learned {
			now = leave
		}
		if said != "" && now != is {
			return nothing, fmt.Errorf("%s and %s contradict each other: remove one", said, key)
		}
		said, is = key, now
	}
	return is, nil
}

// truth returns the value of true, false, 1 or 0. ok is false for anything else.
func truth(raw []byte) (yes, ok bool) {
	switch kind(raw) {
	case "true or false":
		return raw[0] == 't', true
	case "a number":
		var n float64
		err := json.Unmarshal(raw, &n)
		return n == 1, err == nil && (n == 0 || n == 1)
	}
	return false, false
}

// empty reports whether a value says nothing: there is none, or it is null or an empty list or object, perhaps as JSON
// in a string, or an empty text.
func empty(raw []byte) bool {
	switch kind(raw) {
	case "nothing", "null":
		return true
	case "a string":
		var s string
		return json.Unmarshal(raw, &s) == nil && slices.Contains([]string{"", "null", "[]", "{}"}, strings.TrimSpace(s))
	case "an array", "an object":
		return strings.TrimSpace(string(raw[1:len(raw)-1])) == ""
	}
	return false
}

// readContent reads a content: a string, or a list of parts {"type": "text", "text": …}, which are joined with a line
// break, as servers of templates do that take only strings. Among them may be thoughts. A message that calls tools may
// have none.
func readContent(m *chat.Message, values map[string]json.RawMessage, keys []string, what string) error {
	raw := values[what]
	if k := kind(raw); m.Calls != "" && (k == "nothing" || k == "null") {
		m.NoContent = true
		return nil
	}
	var err error
	if kind(raw) == "an array" {
		err = readParts(m, raw)
	} else {
		m.Content, err = wordOf(values, keys, what)
		return err
	}
	if err != nil {
		return fmt.Errorf("key %q: %w", what, err)
	}
	return nil
}

// readParts joins the parts of a content. One that is marked as not to be learned is an aside.
func readParts(m *chat.Message, raw json.RawMessage) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	var parts, thoughts []string
	from := 0 // of the next part in the content
	for i, item := range items {
		text, thinks, mark, err := partOf(i, item)
		switch {
		case err != nil:
			return err
		case thinks && mark != nothing:
			return fmt.Errorf("part %d: thoughts are learned with the answer: mark the whole message", i)
		case thinks:
			thoughts = append(thoughts, text)
			continue
		case mark == learn && m.Context:
			return fmt.Errorf("part %d is to be learned, and the message is not: remove one mark", i)
		case mark == leave:
			m.Asides = append(m.Asides, chat.Span{Start: from, End: from + len(text)})
		}
		parts = append(parts, text)
		from += len(text) + len("\n")
	}
	m.Content, m.Thoughts = strings.Join(parts, "\n"), strings.Join(thoughts, "\n")
	if m.Context || len(m.Asides) > 0 && len(m.Asides) == len(parts) {
		m.Context, m.Asides = true, nil
	}
	return nil
}

// partOf reads part i of a content. mark is what the part says about whether it is to be learned.
func partOf(i int, item json.RawMessage) (said string, thinks bool, mark int, err error) {
	if kind(item) != "an object" {
		return "", false, 0, fmt.Errorf("part %d is %s: expected an object", i, kind(item))
	}
	keys, values, err := object(item)
	if err != nil {
		return "", false, 0, fmt.Errorf("part %d: %w", i, err)
	}
	is, key := string(values["type"]), "text"
	switch is {
	case `"text"`, `"input_text"`, `"output_text"`, "": // as messages, and OpenAI's Responses, have it
	case `"thinking"`, `"reasoning"`:
		thinks = true
		if values[key] == nil {
			key = strings.Trim(is, `"`)
		}
	default:
		return "", false, 0, fmt.Errorf("part %d is of type %.60s: only text is supported: remove such conversations", i, is)
	}
	if k := kind(values[key]); k != "a string" {
		return "", false, 0, fmt.Errorf("part %d: key %q: expected a string, found %s", i, key, k)
	}
	if said, err = text(values[key]); err == nil {
		mark, err = masked(keys, values)
	}
	if err != nil {
		return "", false, 0, fmt.Errorf("part %d: %w", i, err)
	}
	return said, thinks, mark, nil
}

// readThoughts reads the thoughts of a message, which may be under several keys if they are the same.
func readThoughts(m *chat.Message, values map[string]json.RawMessage) error {
	for _, key := range chat.ThoughtKeys {
		if empty(values[key]) {
			continue
		}
		thoughts, err := text(values[key])
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if m.Thoughts != "" && m.Thoughts != thoughts {
			return fmt.Errorf("key %q: the message has other thoughts under another key: remove one", key)
		}
		m.Thoughts = thoughts
	}
	return nil
}

// callsOf returns the calls of a message as templates read them: tool_calls as they are, or the function_call that came
// before them.
func callsOf(values map[string]json.RawMessage) (string, error) {
	all, one := values["tool_calls"], values["function_call"]
	switch {
	case empty(all) && empty(one):
		return "", nil
	case !empty(all) && !empty(one):
		return "", errors.New("tool_calls and function_call: a message has one of them: remove the other")
	case !empty(one):
		calls, err := calls(one)
		if err != nil {
			return "", fmt.Errorf("key %q: %w", "function_call", err)
		}
		return calls, nil
	}
	list, err := inner(all)
	if err == nil {
		err = objects(list)
	}
	if err != nil {
		return "", fmt.Errorf("key %q: %w", "tool_calls", err)
	}
	return string(list), nil
}

// calls wraps calls {"name": …, "arguments": …}, one or a list of them, as templates read them.
func calls(raw []byte) (string, error) {
	raw, err := inner(raw)
	if err != nil {
		return "", err
	}
	if kind(raw) == "an object" {
		raw = slices.Concat([]byte("["), raw, []byte("]"))
	}
	if err := objects(raw); err != nil {
		return "", err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return "", err
	}
	for i, item := range items {
		_, values, err := object(item)
		if err != nil {
			return "", err
		}
		if values["function"] != nil {
			continue
		}
		if kind(values["name"]) != "a string" {
			return "", errors.New(`a call is {"name": …, "arguments": …}: its name must be a string`)
		}
		items[i] = slices.Concat([]byte(`{"type":"function","function":`), item, []byte("}"))
	}
	all, err := json.Marshal(items)
	return string(all), err
}

// pythons matches how Python writes lists and objects of text.
var pythons = regexp.MustCompile(`^[\[{\s]*'`)

const python = "Python's repr, not JSON: write it with json.dumps"

// inner returns a list or object that may be JSON in a string, as parquet and CSV have it.
func inner(raw []byte) ([]byte, error) {
	if kind(raw) == "a string" {
		s, err := text(raw)
		if err != nil {
			return nil, err
		}
		raw = []byte(strings.TrimSpace(s))
	}
	if pythons.Match(raw) {
		return nil, fmt.Errorf("%.40q is %s", raw, python)
	}
	if len(raw) == 0 || raw[0] != '[' && raw[0] != '{' || !json.Valid(raw) {
		return nil, fmt.Errorf("%.40q is neither a list nor an object, nor JSON of one", raw)
	}
	return raw, tooMuch(raw)
}

// objects returns an error unless raw is a list of objects.
func objects(raw []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return fmt.Errorf("expected a list of objects, found %s", kind(raw))
	}
	for i, item := range items {
		if kind(item) != "an object" {
			return fmt.Errorf("item %d: expected an object, found %s", i, kind(item))
		}
		if _, _, err := object(item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// moreOf returns the other keys of a message as a JSON object, or "" if there are none, and adds them to seen.
func moreOf(keys []string, values map[string]json.RawMessage, own []string, seen *names) string {
	var more strings.Builder
	for _, key := range keys {
		name := strings.ToLower(key)
		if _, mask := masks[name]; mask || unclear[name] != "" || kind(values[key]) == "null" || slices.Contains(own, key) ||
			slices.Contains(chat.ThoughtKeys, key) {
			continue
		}
		if !empty(values[key]) {
			seen.add(key)
		}
		more.WriteString(map[bool]string{true: "{", false: ","}[more.Len() == 0])
		quoted, _ := json.Marshal(key) // a string
		more.Write(quoted)
		more.WriteString(":")
		more.Write(values[key])
	}
	if more.Len() > 0 {
		more.WriteString("}")
	}
	return more.String()
}
