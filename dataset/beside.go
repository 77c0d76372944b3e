package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"restyle/chat"
)

// Besides the columns that hold a row, some are known to change what a model is asked or what it learns. Each of them
// is used or refused here. A record carries their values as a JSON object, in which empty ones are left out. All other
// columns mean nothing, and [Conversations.Unused] lists them.

// A beside is such a column.
type beside struct {
	names []string
	where where
	// use changes the conversation by a value that is not empty. used is false if the value means nothing after all.
	use func(c *reading, column string, value json.RawMessage) (used bool, err error)
	gen string // why gen refuses the row; empty if it does not read the column
}

// where are the rows in which a column means something: talks are whole conversations, and pairs are questions and
// answers. If columns are named, unnamed ones do not have the answer.
type where int

const (
	everywhere where = iota
	inTalks
	inPairs // unnamed
	unnamed
)

const preference = "is for preference training (DPO, ORPO, reward models), which is not supported: all answers are " +
	"learned. To learn the good ones, name their column (instruction=prompt,output=chosen), or rename it to messages if " +
	"there is none of the questions"

// besides lists the columns. Earlier ones are used first: a mask also counts the turns of a history.
var besides = []beside{
	{names: []string{"history"}, use: (*reading).useHistory, gen: earlier},
	{names: []string{"chat_history", "conversation_history", "dialogue_history"}, where: inPairs,
		use: (*reading).useHistory, gen: earlier},
	{names: chat.ThoughtKeys, where: inPairs, use: (*reading).useThoughts},
	{names: []string{"tools", "functions", "available_tools"}, use: (*reading).useTools},
	{names: []string{"tool_calls", "function_call"}, where: inPairs,
		use: refuse("has calls of tools, which only messages can have: write such rows as messages")},
	{names: []string{"documents"}, where: inTalks, use: (*reading).useVariable},
	{names: []string{"chat_template_kwargs"}, use: (*reading).useVariables},
	{names: []string{"loss_mask", "loss_scale", "loss_weight", "sample_weight", "train", "trainable"},
		use: (*reading).useMask, gen: masking},
	{names: []string{"weight", "weights", "masks"}, where: inTalks, use: (*reading).useMask, gen: masking},
	{names: []string{"unmask"}, where: inTalks, use: (*reading).useUnmask},
	{names: []string{"mask"}, where: inTalks, use: (*reading).useRole},
	{names: []string{"label", "kto_tag", "is_correct", "correct", "is_good", "accepted", "desirable",
		"is_preferred", "is_chosen", "is_accepted", "is_desirable"},
		use: (*reading).useLabel,
		gen: "says that the answer is bad: remove such rows"},
	{names: bad, where: unnamed, use: (*reading).usePreference, gen: preference},
	{names: []string{"image", "images", "video", "videos", "audio", "audios"}, use: refuse(onlyText), gen: onlyText},
	{names: []string{"completion_mask", "assistant_masks", "input_ids"},
		use: refuse("has tokens or a mask of tokens, which are not read: leave the column out")},
}

// bad are columns of answers that are not to be learned.
var bad = []string{"rejected", "rejected_response", "rejected_answer", "rejected_output", "rejected_completion",
	"response_rejected", "output_rejected", "non_preferred_output"}

const (
	earlier = "has earlier turns, and gen rewrites single answers: remove the row, or the column"
	masking = "marks answers as not to be learned" // firstExchange refuses the row if the first one is among them
)

const onlyText = "is part of the question, and only text is supported: remove such rows, or the column"

// besideNames has the index of each name of besides.
var besideNames = func() map[string]int {
	at := map[string]int{}
	for i, b := range besides {
		for _, name := range b.names {
			at[name] = i
		}
	}
	return at
}()

// besideOf returns what a column means, or nil.
func besideOf(column string) *beside {
	at, is := besideNames[strings.ToLower(column)]
	if !is {
		return nil
	}
	return &besides[at]
}

// beside returns the columns among there that change what the chosen ones ask or answer.
func (w wanted) beside(there, chosen []string) (found []string) {
	if w.Exactly != nil || w.document(chosen) {
		return nil
	}
	talk := w.conversation(chosen)
	for _, column := range there {
		b := besideOf(column)
		switch {
		case b == nil || slices.Contains(chosen, column) || !w.Training && b.gen == "":
		case b.where == inTalks && !talk || b.where == inPairs && talk || b.where >= inPairs && w.Columns != Columns{}:
		default:
			found = append(found, column)
		}
	}
	return found
}

// preferences returns an error if one of the columns has bad answers.
func preferences(there []string) error {
	if found := present(bad, there); len(found) > 0 {
		return columnsErrorf("the column %q %s", found[0], preference)
	}
	return nil
}

// A reading is a conversation as far as its row is read.
type reading struct {
	*Conversation
	seen      *names // keys of messages, and variables, that are only for the template
	kto       bool   // a prompt and its completion
	whole     bool   // a whole conversation
	variables []byte // for Variables
	halves    bool   // question and answer have columns of their own, and one of them or both are lists
}

// use applies the columns that a row has besides its own. It returns the ones that were used.
func (c *reading) use(object string) (used []string, err error) {
	if object == "" {
		return nil, nil
	}
	values, err := columnsIn(object)
	if err != nil {
		return nil, err
	}
	columns := slices.Sorted(maps.Keys(values))
	slices.SortStableFunc(columns, func(a, b string) int {
		return cmp.Compare(besideNames[strings.ToLower(a)], besideNames[strings.ToLower(b)])
	})
	for _, column := range columns {
		is, err := besideOf(column).use(c, column, values[column])
		if err != nil {
			return nil, fmt.Errorf("column %q %w", column, err)
		}
		if is {
			used = append(used, column)
		}
	}
	c.Variables = string(c.variables)
	return used, nil
}

// columnsIn returns the values that a record has besides its columns.
func columnsIn(object string) (values map[string]json.RawMessage, err error) {
	return values, json.Unmarshal([]byte(object), &values)
}

// refuse returns a use that refuses.
func refuse(why string) func(*reading, string, json.RawMessage) (bool, error) {
	return func(*reading, string, json.RawMessage) (bool, error) { return false, errors.New(why) }
}

// useHistory puts the turns before the question: a list of questions with their answers, as LLaMA-Factory has them, or
// of messages.
func (c *reading) useHistory(_ string, value json.RawMessage) (bool, error) {
	list, err := inner(value)
	if err != nil {
		return false, err
	}
	var turns []json.RawMessage
	if json.Unmarshal(list, &turns) != nil {
		return false, errors.New("must be a list of [question, answer]")
	}
	var messages []chat.Message
	for i, turn := range turns {
		if kind(turn) == "an object" {
			if messages, err = parseMessages(list, c.seen); err != nil {
				return false, err
			}
			break
		}
		var pair []json.RawMessage
		if json.Unmarshal(turn, &pair) != nil || len(pair) != 2 {
			return false, fmt.Errorf("turn %d: must be [question, answer]", i)
		}
		for k, role := range []string{"user", "assistant"} {
			said, err := text(pair[k])
			if err != nil {
				return false, fmt.Errorf("turn %d: %w", i, err)
			}
			messages = append(messages, chat.Message{Role: role, Content: said})
		}
	}
	at := 0
	if len(c.Messages) > 0 && c.Messages[0].Role == "system" {
		at = 1
	}
	c.Messages = slices.Insert(c.Messages, at, messages...)
	if c.Prompt > 0 {
		c.Prompt += len(messages)
	}
	return len(messages) > 0, nil
}

func (c *reading) useThoughts(_ string, value json.RawMessage) (bool, error) {
	thoughts, err := text(value)
	if err != nil {
		return false, err
	}
	last := &c.Messages[len(c.Messages)-1]
	if last.Thoughts != "" && last.Thoughts != thoughts {
		return false, errors.New("has other thoughts than another column: name the columns")
	}
	last.Thoughts = thoughts
	return true, nil
}

// usePreference refuses bad answers, unless they are next to a whole conversation with its good ones.
func (c *reading) usePreference(string, json.RawMessage) (bool, error) {
	if c.whole && c.Messages[len(c.Messages)-1].Role == "assistant" {
		return false, nil
	}
	return false, errors.New(preference)
}

// useTools gives the template the tools. The column functions has them without their type, as OpenAI had before tools.
func (c *reading) useTools(column string, value json.RawMessage) (bool, error) {
	list, err := inner(value)
	if err == nil {
		err = objects(list)
	}
	switch {
	case err != nil:
		return false, err
	case empty(list):
		return false, nil
	case c.Tools != "":
		return false, errors.New("has tools, and so has another column: remove one")
	case strings.EqualFold(column, "functions"):
		var items []json.RawMessage
		if err := json.Unmarshal(list, &items); err != nil {
			return false, err
		}
		for i, item := range items {
			if _, values, _ := object(item); values["function"] == nil {
				items[i] = slices.Concat([]byte(`{"type":"function","function":`), item, []byte("}"))
			}
		}
		if list, err = json.Marshal(items); err != nil {
			return false, err
		}
	}
	c.Tools = string(list)
	return true, nil
}

// useVariable gives the template a variable of the column's name.
func (c *reading) useVariable(column string, value json.RawMessage) (bool, error) {
	list, err := inner(value)
	if err != nil {
		return false, nil // such as a title: no template could read it
	}
	c.set(strings.ToLower(column), list)
	return false, nil
}

// useVariables gives the template variables, as TRL does.
func (c *reading) useVariables(_ string, value json.RawMessage) (bool, error) {
	raw, err := inner(value)
	if err != nil {
		return false, err
	}
	keys, values, err := object(raw)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if kind(values[key]) == "null" {
			continue
		}
		if slices.Contains([]string{"messages", "tools", "add_generation_prompt"}, key) {
			return false, fmt.Errorf("must not have the key %q", key)
		}
		c.set(key, values[key])
	}
	return true, nil
}

// set sets a variable of the template.
func (c *reading) set(name string, value []byte) {
	c.variables = withKey(c.variables, name, value)
	c.seen.add(name)
}

// useMask takes out all answers if the value is 0, or the answers whose number in the list is 0. The list has a number
// for each message, as LLaMA-Factory counts them, with or without the system prompt.
func (c *reading) useMask(_ string, value json.RawMessage) (bool, error) {
	if yes, ok := verdict(value); ok {
		for i := range c.Messages {
			c.Messages[i].Context = c.Messages[i].Context || !yes
		}
		return true, nil
	}
	list, err := inner(value)
	var marks []json.RawMessage
	if err != nil || json.Unmarshal(list, &marks) != nil {
		return false, fmt.Errorf("is %.20s: must be 0 or 1, or a list of them, one for each message, because all answers "+
			"that are learned count equally: remove the column", value)
	}
	first := 0
	if c.Messages[0].Role == "system" && len(marks) == len(c.Messages)-1 {
		first = 1
	}
	if len(marks) != len(c.Messages)-first {
		return false, fmt.Errorf("has %d values, and the conversation %d messages: they must be as many", len(marks),
			len(c.Messages))
	}
	for i, mark := range marks {
		yes, ok := truth(mark)
		if !ok {
			return false, fmt.Errorf("value %d is %.20s: must be 0 or false, or 1 or true", i, mark)
		}
		c.Messages[first+i].Context = c.Messages[first+i].Context || !yes
	}
	return true, nil
}

func (c *reading) useUnmask(_ string, value json.RawMessage) (bool, error) {
	if yes, ok := verdict(value); ok && !yes {
		return true, nil
	}
	return false, fmt.Errorf("is %.20s: the questions are also to be learned: remove the column, and train on all", value)
}

// useRole reads NeMo's mask, which names the role whose turns are not learned.
func (c *reading) useRole(_ string, value json.RawMessage) (bool, error) {
	if name, err := text(value); err == nil && roles[strings.ToLower(name)] == "user" {
		return true, nil
	}
	return false, fmt.Errorf(`is %.20s: must be "User", whose turns are not learned: remove the column, and mark `+
		"messages with train", value)
}

// useLabel refuses an answer that is said to be bad. In data other than KTO's, the number in label may be the number of
// a class, and the number in correct the number of a choice.
func (c *reading) useLabel(column string, value json.RawMessage) (bool, error) {
	yes, ok := verdict(value)
	number := strings.ContainsAny(string(value), "01")
	numbered := strings.EqualFold(column, "label") || strings.EqualFold(column, "correct")
	if ok && !yes && (!number || !numbered || c.kto) {
		return false, fmt.Errorf("is %.20s: the answer is a bad one, as for preference training (KTO), which is not "+
			"supported: all answers are learned: remove such rows", value)
	}
	return ok && (!number || c.kto), nil
}

// verdict returns the value of truth, or of its name in a string.
func verdict(value []byte) (yes, ok bool) {
	if kind(value) == "a string" {
		s, _ := text(value)
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "true", "1", "1.0":
			return true, true
		case "false", "0", "0.0":
			return false, true
		}
	}
	return truth(value)
}

// forGen returns why gen refuses a row, from what the row has besides its columns. It marks messages that are not to be
// learned.
func forGen(object string, messages []chat.Message, talk bool) error {
	if object == "" {
		return nil
	}
	values, err := columnsIn(object)
	if err != nil {
		return err
	}
	for _, column := range slices.Sorted(maps.Keys(values)) {
		b := besideOf(column)
		switch b.names[0] {
		case "rejected":
			if talk {
				continue
			}
		case "label":
			if _, err := (&reading{}).useLabel(column, values[column]); err == nil {
				continue
			}
		case "loss_mask", "weight":
			row := reading{Conversation: &Conversation{Messages: messages}}
			if _, err := row.useMask(column, values[column]); err != nil {
				return fmt.Errorf("column %q %w", column, err)
			}
			continue
		}
		return fmt.Errorf("the column %q %s", column, b.gen)
	}
	return nil
}

// pictures reports whether a column holds pictures, sounds or films.
func pictures(column string) bool {
	b := besideOf(column)
	return b != nil && slices.Contains(b.names, "images")
}
