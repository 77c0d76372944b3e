package dataset

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
)

// TestOtherKeys_UsedOrRefused reads keys of messages and columns of rows that change what is asked or learned: each is
// used or refused by name, in JSON and, if the row can be written so, in CSV and TSV. Columns without a meaning are
// listed.
func TestOtherKeys_UsedOrRefused(t *testing.T) {
	const (
		ask   = `{"role":"user","content":"a"},`
		pair  = `{"instruction":"a","output":"b",`
		talk  = `{"messages":[` + ask + `{"role":"assistant","content":"b"}],`
		plain = "user: a | assistant: b"
	)
	answer := func(keys string) string { return `{"messages":[` + ask + `{"role":"assistant",` + keys + `}]}` }
	masked := func(key string) string { return answer(`"content":"b",` + key) }
	call := `[{"type":"function","function":{"name":"f","arguments":{"x":1.0}}}]`
	for _, c := range []struct {
		row, want string // the conversation, then what is for the template, then the columns and keys after ;
		err       []string
	}{
		{masked(`"train":false`), plain + " {context}", nil},
		{masked(`"training":0`), plain + " {context}", nil},
		{masked(`"loss_mask":0.0`), plain + " {context}", nil},
		{masked(`"trainable":false`), plain + " {context}", nil},
		{masked(`"loss":false`), plain + " {context}", nil},
		{masked(`"loss_scale":0`), plain + " {context}", nil},
		{masked(`"weight":0`), plain + " {context}", nil},
		{masked(`"masked":true`), plain + " {context}", nil},
		{masked(`"weight":0,"train":false,"masked":1`), plain + " {context}", nil},
		{masked(`"loss":null,"x":1,"train":false`), plain + ` {more {"x":1}} {context};;x`, nil},
		{masked(`"train":true`), plain, nil},
		{masked(`"weight":1.0,"loss_mask":1,"masked":false,"loss":null`), plain, nil},
		{masked(`"mask":null,"train_detail":[]`), plain, nil},
		{masked(`"weight":0.5`), "", []string{"message 1", "weight 0.5", "0 or false"}},
		{masked(`"train":"no"`), "", []string{"message 1", `train "no"`}},
		{masked(`"train":true,"weight":0`), "", []string{"train and weight contradict"}},
		{masked(`"Train":false`), plain + " {context}", nil},
		{masked(`"mask":1`), "", []string{`"mask"`, "not clear"}},
		{masked(`"is_masked":true`), "", []string{`"is_masked"`, "not clear", "rename it to train"}},
		{masked(`"compute_loss":0`), "", []string{`"compute_loss"`, "not clear"}},
		{masked(`"lossy":"no","trained_on":"x","skip":null`),
			plain + ` {more {"lossy":"no","trained_on":"x"}};;lossy trained_on`, nil},
		{masked(`"train_detail":[{"begin_offset":0,"end_offset":1,"train":false}]`), "", []string{`"train_detail"`, "parts"}},
		{answer(`"content":[{"type":"text","text":"b","train":false}]`), plain + " {context}", nil},
		{answer(`"content":[{"text":"é","weight":0},{"text":"b"},{"text":"c","masked":true}]`),
			"user: a | assistant: é\nb\nc {aside \"é\"} {aside \"c\"}", nil},
		{answer(`"content":[{"text":"b","train":1},{"text":"c","train":null}]`), "user: a | assistant: b\nc", nil},
		{answer(`"train":false,"content":[{"text":"b"},{"text":"c","train":true}]`), "",
			[]string{"part 1", "remove one mark"}},
		{answer(`"train":false,"content":[{"text":"b"},{"text":"c","train":false}]`),
			"user: a | assistant: b\nc {context}", nil},
		{answer(`"content":[{"text":"b","weight":0.5}]`), "", []string{"part 0", "weight 0.5"}},
		{answer(`"content":[{"text":"b"},{"type":"thinking","thinking":"t","train":false}]`), "",
			[]string{"part 1", "thoughts", "whole message"}},
		{talk + `"loss_mask":[0,0]}`, "user: a {context} | assistant: b {context};loss_mask", nil},
		{talk + `"system":"s","loss_mask":[0,1]}`, "system: s | user: a {context} | assistant: b;loss_mask", nil},
		{talk + `"loss_mask":[1]}`, "", []string{`"loss_mask"`, "1 values", "2 messages"}},
		{talk + `"loss_mask":[1,2]}`, "", []string{`"loss_mask"`, "value 1 is 2"}},
		{talk + `"weight":0}`, "user: a {context} | assistant: b {context};weight", nil},
		{talk + `"weight":2}`, "", []string{`"weight"`, "0 or 1"}},
		{talk + `"weights":[0,0]}`, "user: a {context} | assistant: b {context};weights", nil},
		{talk + `"loss_mask":0}`, "user: a {context} | assistant: b {context};loss_mask", nil},
		{pair + `"train":false}`, "user: a {context} | assistant: b {context};train", nil},
		{pair + `"train":true,"weight":0.3}`, plain + ";train;;weight", nil}, // as of a thing
		{pair + `"sample_weight":0.5}`, "", []string{`"sample_weight"`, "0 or 1"}},
		{pair + `"loss_mask":[1,1],"history":[["p","q"]]}`, "", []string{`"loss_mask"`, "2 values", "4 messages"}},
		{pair + `"trainable":true,"train":false,"loss_scale":[1,1],"reasoning":"t"}`,
			"user: a {context} | assistant: b {~t} {context};reasoning loss_scale train trainable", nil},
		{talk + `"unmask":true}`, "", []string{`"unmask"`, "train on all"}},
		{talk + `"mask":"User"}`, plain + ";mask", nil},
		{talk + `"mask":"Assistant"}`, "", []string{`"mask"`, `"User"`}},
		{talk + `"completion_mask":[0,1]}`, "", []string{`"completion_mask"`}},

		{answer(`"content":"b","reasoning_content":"t"`), plain + " {~t}", nil},
		{answer(`"content":"b","thinking":"t","reasoning":"t"`), plain + " {~t}", nil},
		{answer(`"content":"b","reasoning":"t","thinking":"u"`), "", []string{`"thinking"`, "other thoughts"}},
		{answer(`"content":"b","reasoning":["t"]`), "", []string{`"reasoning"`, "an array"}},
		{answer(`"content":"b","thinking":"","reasoning":null,"thought":"null"`), plain, nil},
		{answer(`"content":"b","reasoning_text":"t"`), plain + " {~t}", nil},
		{answer(`"content":[{"type":"output_text","text":"b"}]`), plain, nil},
		{answer(`"content":[{"text":"b"}]`), plain, nil},
		{answer(`"content":[{"image":"x.png"}]`), "", []string{"part 0", `"text"`, "nothing"}},
		{answer(`"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"b"}]`), plain + " {~t}", nil},
		{answer(`"content":[{"type":"reasoning","text":"t"},{"type":"text","text":"b"}]`), plain + " {~t}", nil},
		{`{"messages":[{"role":"user","content":"a","thinking":"t"}]}`, "", []string{"message 0", "only an assistant"}},
		{pair + `"reasoning":"t"}`, plain + " {~t};reasoning", nil},

		{answer(`"content":null,"tool_calls":` + call), "user: a | assistant: {calls " + call + "}", nil},
		{answer(`"tool_calls":` + quoted(call)), "user: a | assistant: {calls " + call + "}", nil},
		{answer(`"content":"b","tool_calls":` + call), plain + " {calls " + call + "}", nil},
		{`{"messages":[{"role":"tool_call","content":"b","tool_calls":` + call + `}]}`, "assistant: b {calls " + call + "}",
			nil},
		{answer(`"content":"b","tool_calls":"[]"`), plain, nil},
		{answer(`"content":"b","tool_calls":{"name":"f"}`), "", []string{`"tool_calls"`, "a list of objects"}},
		{answer(`"content":"b","tool_calls":["f"]`), "", []string{`"tool_calls"`, "item 0"}},
		{answer(`"content":null,"function_call":{"name":"f","arguments":{"x":1.0}}`),
			"user: a | assistant: {calls " + call + "}", nil},
		{answer(`"content":null,"function_call":{"arguments":{}}`), "", []string{`"function_call"`, "name"}},
		{answer(`"function_call":{"name":"f"},"tool_calls":` + call), "", []string{"function_call", "one of them"}},
		{`{"conversations":[{"from":"human","value":"a"},{"from":"function_call","value":"{\"name\":\"f\",\"arguments\":` +
			`{\"x\":1.0}}"},{"from":"observation","value":"1"},{"from":"gpt","value":"b"}]}`,
			"user: a | assistant: {calls " + call + "} | tool: 1 | assistant: b", nil},
		{`{"messages":[` + ask + `{"role":"tool_call","content":"{\"name\":\"f\"}"},{"role":"tool_call","content":` +
			`"{\"name\":\"g\"}"},{"role":"tool_response","content":"1"}]}`,
			`user: a | assistant: {calls [{"type":"function","function":{"name":"f"}},{"type":"function","function":` +
				`{"name":"g"}}]} | tool: 1`, nil},
		{`{"conversations":[{"from":"function_call","value":"f(x)"}]}`, "", []string{"function_call", `"f(x)"`}},
		{`{"messages":[{"role":"function","name":"f","content":"1"}]}`, `tool: 1 {more {"name":"f"}};;name`, nil},
		{`{"messages":[{"role":"user","name":"Ada","content":"a","id":null}]}`, `user: a {more {"name":"Ada"}};;name`, nil},
		{`{"messages":[{"role":"developer","content":"a"}]}`, "system: a", nil},
		{`{"mask":"User","conversations":[{"from":"User","value":"a"},{"from":"Assistant","value":"b"}]}`,
			plain + ";mask", nil}, // NeMo's

		{talk + `"tools":[{"name":"f"}],"id":7}`, plain + ` tools [{"name":"f"}];tools;;id`, nil},
		{talk + `"tools":"[{\"name\":\"f\"}]"}`, plain + ` tools [{"name":"f"}];tools`, nil},
		{talk + `"functions":[{"name":"f"}]}`, plain + ` tools [{"type":"function","function":{"name":"f"}}];functions`, nil},
		{talk + `"tools":[]}`, plain + ";;;tools", nil},
		{talk + `"tools":"null"}`, plain + ";;;tools", nil},
		{talk + `"tools":"{}","chat_template_kwargs":{},"id":{ }}`, plain + ";;;chat_template_kwargs id tools", nil},
		{talk + `"tools":"[{'name': 'f'}]"}`, "", []string{`"tools"`, "Python's repr", "json.dumps"}},
		{talk + `"available_tools":[{"name":"f"}]}`, plain + ` tools [{"name":"f"}];available_tools`, nil},
		{pair + `"tool_calls":` + call + `}`, "", []string{`"tool_calls"`, "as messages"}},
		{pair + `"tool_calls":"[]"}`, plain + ";;;tool_calls", nil},
		{talk + `"tool_calls":` + call + `}`, plain + ";;;tool_calls", nil}, // messages have their own
		{talk + `"tools":"f"}`, "", []string{`"tools"`, `"f"`}},
		{talk + `"chat_template_kwargs":{"enable_thinking":false,"x":null}}`,
			plain + ` variables {"enable_thinking":false};chat_template_kwargs;enable_thinking`, nil},
		{talk + `"documents":[{"text":"d"}]}`, plain + ` variables {"documents":[{"text":"d"}]};;documents`, nil},
		{talk + `"documents":"a title"}`, plain + ";;;documents", nil},

		{pair + `"history":[["p","q"],["r","s"]]}`,
			"user: p | assistant: q | user: r | assistant: s | " + plain + ";history", nil},
		{pair + `"system":"s","history":[{"role":"user","content":"p"},{"role":"assistant","content":"q"}]}`,
			"system: s | user: p | assistant: q | " + plain + ";history", nil},
		{pair + `"chat_history":[["p","q"]]}`, "user: p | assistant: q | " + plain + ";chat_history", nil},
		{talk + `"chat_history":[["p","q"]]}`, plain + ";;;chat_history", nil},
		{pair + `"history":[],"id":"x","source":1}`, plain + ";;;history id source", nil},
		{pair + `"history":[["p"]]}`, "", []string{`"history"`, "turn 0"}},
		{pair + `"history":"none"}`, "", []string{`"history"`, `"none"`}},

		{`{"prompt":"a","completion":"b","label":false}`, "", []string{`"label"`, "false", "KTO"}},
		{`{"prompt":"a","completion":"b","label":0}`, "", []string{`"label"`, "KTO"}},
		{`{"prompt":"a","completion":"b","label":true}`, plain + ";label", nil},
		{pair + `"label":"False"}`, "", []string{`"label"`, "KTO"}},
		{pair + `"kto_tag":false}`, "", []string{`"kto_tag"`, "KTO"}},
		{pair + `"is_correct":false}`, "", []string{`"is_correct"`, "false"}},
		{pair + `"is_preferred":false}`, "", []string{`"is_preferred"`, "false"}},
		{pair + `"is_correct":0}`, "", []string{`"is_correct"`}},
		{pair + `"correct":false}`, "", []string{`"correct"`, "false"}},
		{pair + `"correct":0}`, plain + ";;;correct", nil}, // the first of several choices
		{pair + `"correct":"Paris"}`, plain + ";;;correct", nil},
		{pair + `"label":0}`, plain + ";;;label", nil}, // the number of a class
		{`{"prompt":"a","chosen":"b","rejected":"c"}`, "", []string{`"rejected"`, "DPO", "output=chosen"}},
		{pair + `"rejected":"c"}`, "", []string{`"rejected"`, "DPO"}},
		{pair + `"rejected_output":"c"}`, "", []string{`"rejected_output"`, "DPO"}},
		{talk + `"rejected":"c"}`, plain + ";;;rejected", nil}, // messages are to be learned
		{`{"conversations":[{"from":"human","value":"a"}],"chosen":{"from":"gpt","value":"b"},"rejected":{"from":"gpt",` +
			`"value":"c"}}`, "", []string{`"rejected"`, "DPO"}},
		{`{"input":{"messages":[]},"preferred_output":[],"non_preferred_output":[]}`, "",
			[]string{`"non_preferred_output"`, "DPO"}},
		{pair + `"images":["x.png"]}`, "", []string{`"images"`, "only text"}},
		{pair + `"images":[],"score":1.5}`, plain + ";;;images score", nil},

		// Both sides of each rule, and what comes second.
		{pair + `"history":"[[\"p\",\"q\"]]"}`, "user: p | assistant: q | " + plain + ";history", nil},
		{pair + `"history":[["p","q"],["r"]]}`, "", []string{`"history"`, "turn 1: must be [question, answer]"}},
		{pair + `"history":[["p","q","r"]]}`, "", []string{`"history"`, "turn 0: must be"}},
		{pair + `"history":[["p","q"],["r",7]]}`, "", []string{`"history"`, "turn 1: expected a string"}},
		{pair + `"history":{"a":1}}`, "", []string{`"history"`, "must be a list of [question, answer]"}},
		{pair + `"history":[{"role":"user"}]}`, "", []string{`"history"`, `no key "content"`}},
		{pair + `"reasoning":"t","thinking":"u"}`, "", []string{`"thinking"`, "other thoughts than another column"}},
		{pair + `"reasoning":"t","thinking":"t"}`, plain + " {~t};reasoning thinking", nil},
		{talk + `"tools":[{"name":"f"}],"functions":[{"name":"g"}]}`, "", []string{`"tools"`, "so has another column"}},
		{talk + `"functions":[{"name":"f"},{"type":"function","function":{"name":"g"}},{"name":"h"}]}`,
			plain + ` tools [{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}},` +
				`{"type":"function","function":{"name":"h"}}];functions`, nil},
		{talk + `"functions":["f"]}`, "", []string{`"functions"`, "item 0"}},
		{talk + `"tools":[{"name":"f"},7]}`, "", []string{`"tools"`, "item 1"}},
		{talk + `"tools":[{"name":"f","name":"g"}]}`, "", []string{`"tools"`, "twice"}},
		{talk + `"chat_template_kwargs":"{\"x\":1}"}`, plain + ` variables {"x":1};chat_template_kwargs;x`, nil},
		{talk + `"chat_template_kwargs":{"y":null,"x":1,"z":2}}`,
			plain + ` variables {"x":1,"z":2};chat_template_kwargs;x z`, nil},
		{talk + `"chat_template_kwargs":{"x":1,"messages":[]}}`, "", []string{`must not have the key "messages"`}},
		{talk + `"chat_template_kwargs":{"tools":[1]}}`, "", []string{`must not have the key "tools"`}},
		{talk + `"chat_template_kwargs":{"add_generation_prompt":true}}`, "", []string{`"add_generation_prompt"`}},
		{talk + `"chat_template_kwargs":[1]}`, "", []string{`"chat_template_kwargs"`, "an array"}},
		{talk + `"chat_template_kwargs":"x"}`, "", []string{`"chat_template_kwargs"`, `"x"`}},
		{pair + `"train":" FALSE "}`, "user: a {context} | assistant: b {context};train", nil},
		{pair + `"train":"0.0"}`, "user: a {context} | assistant: b {context};train", nil},
		{pair + `"train":"1.0"}`, plain + ";train", nil},
		{pair + `"train":"1"}`, plain + ";train", nil},
		{pair + `"train":"yes"}`, "", []string{`"train"`, "must be 0 or 1"}},
		{pair + `"loss_mask":"[0,1]"}`, "user: a {context} | assistant: b;loss_mask", nil},
		{pair + `"system":"s","loss_mask":[1,0,1]}`, "system: s | user: a {context} | assistant: b;loss_mask", nil},
		{pair + `"system":"s","loss_mask":[1,0]}`, "system: s | user: a | assistant: b {context};loss_mask", nil},
		{pair + `"system":"s","loss_mask":[1]}`, "", []string{`"loss_mask"`, "1 values", "3 messages"}},
		{pair + `"system":"s","loss_mask":[1,1,1,1]}`, "", []string{`"loss_mask"`, "4 values", "3 messages"}},
		{pair + `"loss_mask":[1,1,1]}`, "", []string{`"loss_mask"`, "3 values", "2 messages"}},
		{talk + `"unmask":false}`, plain + ";unmask", nil},
		{talk + `"unmask":"0"}`, plain + ";unmask", nil},
		{talk + `"mask":"human"}`, plain + ";mask", nil},
		{talk + `"mask":7}`, "", []string{`"mask"`, `"User"`}},
		{`{"prompt":"a","completion":"b","label":1}`, plain + ";label", nil},
		{`{"prompt":"a","answer":"b","label":0}`, plain + ";;;label", nil}, // not of KTO
		{`{"question":"a","completion":"b","label":0}`, plain + ";;;label", nil},
		{pair + `"is_correct":"yes","is_good":"true","kto_tag":1}`, plain + ";is_good;;is_correct kto_tag", nil},
		{pair + `"correct":"0","label":"1"}`, plain + ";;;correct label", nil},
		{`{"messages":[` + ask + `{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"rejected":"c"}`, "",
			[]string{`"rejected"`, "DPO"}},
	} {
		check := func(form, name, content string) {
			got, err := besideOnly(expect.File(t, name, content))
			if c.err != nil {
				expect.Error(t, err, append(c.err, name)...)
			} else if want := strings.TrimRight(c.want, ";"); err != nil || got != want {
				t.Errorf("%s %s:\n got %q, %v\nwant %q", form, c.row, got, err, want)
			}
		}
		check("JSON", "x.jsonl", c.row)
		if row, fits := inCSV(t, c.row, ','); fits {
			check("CSV", "x.csv", row)
			row, _ = inCSV(t, c.row, '\t')
			check("TSV", "x.tsv", row)
		}
	}
}

// TestColumns_ThatChangeMeaning reads every column that is known to change what is asked or learned next to a question
// with its answer and next to messages. § is the column's name; what begins with ! is an error.
func TestColumns_ThatChangeMeaning(t *testing.T) {
	const plain, context = "user: a | assistant: b", "user: a {context} | assistant: b {context}"
	const call, unused = `[{"type":"function","function":{"name":"f"}}]`, plain + ";;;§"
	for _, c := range []struct{ names, value, pair, talk string }{
		{"history", `[["p","q"]]`, "user: p | assistant: q | " + plain + ";§", "user: p | assistant: q | " + plain + ";§"},
		{"chat_history conversation_history dialogue_history", `[["p","q"]]`, "user: p | assistant: q | " + plain + ";§",
			unused},
		{"reasoning_content reasoning thinking thoughts thought thinking_content reasoning_text chain_of_thought cot", `"t"`,
			plain + " {~t};§", unused},
		{"tools available_tools", `[{"name":"f"}]`, plain + ` tools [{"name":"f"}];§`, plain + ` tools [{"name":"f"}];§`},
		{"functions", `[{"name":"f"}]`, plain + " tools " + call + ";§", plain + " tools " + call + ";§"},
		{"tool_calls function_call", call, "!as messages", unused},
		{"documents", `[1]`, unused, plain + ` variables {"§":[1]};;§`},
		{"chat_template_kwargs", `{"x":1}`, plain + ` variables {"x":1};§;x`, plain + ` variables {"x":1};§;x`},
		{"loss_mask loss_scale loss_weight sample_weight train trainable", "0", context + ";§", context + ";§"},
		{"weight weights masks", "0", unused, context + ";§"},
		{"unmask", "true", unused, "!train on all"},
		{"mask", `"User"`, unused, plain + ";§"},
		{"label kto_tag is_correct correct is_good accepted desirable is_preferred is_chosen is_accepted is_desirable",
			"false", "!KTO", "!KTO"},
		{"rejected rejected_response rejected_answer rejected_output rejected_completion response_rejected " +
			"output_rejected non_preferred_output", `"c"`, "!DPO", unused},
		{"image images video videos audio audios", `["x"]`, "!only text", "!only text"},
		{"completion_mask assistant_masks input_ids", `[0,1]`, "!not read", "!not read"},
		{"id source score title", `"x"`, unused, unused},
	} {
		for name := range strings.FieldsSeq(c.names) {
			for row, want := range map[string]string{`{"instruction":"a","output":"b"`: c.pair,
				`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`: c.talk} {
				for _, spelled := range []string{name, strings.ToUpper(name)} {
					got, err := besideOnly(expect.File(t, "x.jsonl", fmt.Sprintf("%s,%q:%s}", row, spelled, c.value)))
					if problem, refused := strings.CutPrefix(want, "!"); refused {
						expect.Error(t, err, fmt.Sprintf("%q", spelled), problem)
					} else if want := strings.ReplaceAll(want, "§", spelled); err != nil ||
						!strings.EqualFold(got, want) { // a template's variable is in lower case
						t.Errorf("%s, %q:\n got %q, %v\nwant %q", row, spelled, got, err, want)
					}
				}
			}
		}
	}
}

// TestMessages_NamesOfRoles reads messages with every name of a role, and with every key that says whether an answer is
// learned, with either value.
func TestMessages_NamesOfRoles(t *testing.T) {
	for role, names := range map[string]string{"system": "system developer", "user": "user human prompter",
		"assistant": "assistant gpt model bot ai chatgpt", "tool": "tool observation tool_response function",
		"ipython": "ipython", "": "users teacher narrator"} {
		for name := range strings.FieldsSeq(names) {
			for _, spelled := range []string{name, strings.ToUpper(name)} {
				got, err := besideOnly(expect.File(t, "x.jsonl", fmt.Sprintf(`{"messages":[{"role":%q,"content":"a"}]}`, spelled)))
				if want := role + ": a"; (err != nil) != (role == "") || err == nil && got != want {
					t.Errorf("%s: %q, %v, want %q", spelled, got, err, want)
				}
			}
		}
	}
	for name, learned := range map[string]bool{"train": true, "training": true, "trainable": true, "loss": true,
		"loss_mask": true, "loss_scale": true, "loss_weight": true, "weight": true, "learn": true, "masked": false,
		"ignore_loss": false, "no_loss": false} {
		for value, yes := range map[string]bool{"0": false, "1": true, "false": false, "true": true, "1.0": true} {
			got, err := besideOnly(expect.File(t, "x.jsonl",
				fmt.Sprintf(`{"messages":[{"role":"assistant","content":"a",%q:%s}]}`, name, value)))
			if want := "assistant: a" + map[bool]string{true: " {context}"}[yes != learned]; err != nil || got != want {
				t.Errorf("%s %s: %q, %v, want %q", name, value, got, err, want)
			}
		}
	}
}

// quoted returns a JSON string.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// besideOnly reads the one conversation of a file as TestOtherKeys_UsedOrRefused's want has it.
func besideOnly(path string) (string, error) {
	c, err := OpenConversations(context.Background(), path, Options{})
	if err != nil {
		return "", err
	}
	defer c.Close()
	next, err := c.Next()
	if err != nil {
		return "", err
	}
	said := wordings(next.Messages)
	for _, v := range [][2]string{{"tools", next.Tools}, {"variables", next.Variables}} {
		if v[1] != "" {
			said += " " + v[0] + " " + v[1]
		}
	}
	for _, list := range [][]string{c.Used(), c.Keys(), slices.Sorted(slices.Values(c.Unused()))} {
		said += ";" + strings.Join(list, " ")
	}
	_, err = c.Next()
	if err == io.EOF {
		err = nil
	}
	return strings.TrimRight(said, ";"), err
}

// inCSV writes an object as CSV, what is no string as JSON. It does not fit if a value would be another one then.
func inCSV(t *testing.T, object string, separator rune) (string, bool) {
	t.Helper()
	keys, values, err := objectKeys(object)
	if err != nil {
		t.Fatal(err)
	}
	var row []string
	for _, key := range keys {
		switch value := values[key]; kind(value) {
		case "a string":
			s, _ := text(value)
			row = append(row, s)
		case "an array", "true or false", "a number", "an object":
			if !slices.Contains([]string{"messages", "conversations"}, key) && besideOf(key) == nil && key != "id" {
				return "", false
			}
			row = append(row, string(value))
		default:
			return "", false
		}
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Comma = separator
	if err := w.WriteAll([][]string{keys, row}); err != nil {
		t.Fatal(err)
	}
	return b.String(), true
}

func objectKeys(s string) ([]string, map[string]json.RawMessage, error) { return object([]byte(s)) }

// TestParquet_OtherColumns reads what changes the prompt or the targets from typed columns.
func TestParquet_OtherColumns(t *testing.T) {
	for _, c := range []struct {
		name string
		want []string // conversations with their tools, then the columns used and not used, and the keys
		err  []string
	}{
		{"rich", []string{
			`user: p | assistant: q | user: a {more {"name":"Ada"}} | assistant: WRONG {context} | user: b | ` +
				`assistant: c {~t} `,
			`user: a | assistant: {calls [{"id":"c1","type":"function","function":{"name":"sky","arguments":` +
				`{"city":"Malmö","days":1.0}}},{"id":"c2","type":"function","function":{"name":"sea","arguments":{"n":2}}}]} | ` +
				`tool: 1 | assistant: b {context} [{"name":"sky","more":{"k":"v"}}]`,
			"[history tools] [images id] [name]",
		}, nil},
		{"rich_picture", nil, []string{"row 1", `"images"`, "only text"}},
		{"bad_answers", nil, []string{"row 2", `"label"`, "KTO"}},
		{"messages_weight", nil, nil},
	} {
		var got []string
		talks, err := OpenConversations(context.Background(), "testdata/"+c.name+".parquet", Options{})
		if err != nil {
			t.Fatal(err)
		}
		var next Conversation
		for err == nil {
			if next, err = talks.Next(); err == nil {
				got = append(got, wordings(next.Messages)+" "+next.Tools)
			}
		}
		switch {
		case c.err != nil:
			expect.Error(t, err, c.err...)
		case err != io.EOF:
			t.Errorf("%s: %v", c.name, err)
		case c.want == nil: // the last answer is context
			if got[len(got)-1] != "assistant: a {context} " {
				t.Errorf("%s: %q", c.name, got)
			}
		default:
			got = append(got, fmt.Sprint(talks.Used(), talks.Unused(), talks.Keys()))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s: %s", c.name, d)
			}
		}
		talks.Close()
	}
}

// TestGenRows_OtherColumns checks that gen's rows are refused for what changes their answers, and which columns are not
// used.
func TestGenRows_OtherColumns(t *testing.T) {
	pair := `{"instruction":"a","output":"b",`
	talk := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"`
	for _, c := range []struct{ row, unused, err string }{
		{pair + `"id":1,"tools":[{}],"label":true,"history":[]}`, "id tools", ""},
		{pair + `"history":[["p","q"]]}`, "", `the column "history" has earlier turns`},
		{pair + `"label":false}`, "", `"label" says that the answer is bad`},
		{pair + `"images":["x.png"]}`, "", `"images" is part of the question`},
		{pair + `"rejected":"c"}`, "", `"rejected" is for preference training`},
		{talk + `,"thinking":"t","id":7}],"rejected":"c","system":"s"}`, "system id thoughts", ""},
		{talk + `,"train":false}]}`, "", "is marked as not to be learned"},
		{talk + `}],"weight":0}`, "", "is marked as not to be learned"},
		{talk + `}],"loss_mask":[1,0]}`, "", "is marked as not to be learned"},
		{pair + `"train":false}`, "", "is marked as not to be learned"},
		{`{"messages":[{"role":"user","content":"a"},{"role":"assistant",` +
			`"content":[{"text":"b"},{"text":"c","train":0}]}]}`, "", "is marked as not to be learned"},
		{pair + `"input":"c","loss_mask":[0,1]}`, "", ""},
		{pair + `"sample_weight":0.5}`, "", `"sample_weight" is 0.5`},
		{talk + `,"tool_calls":[{"function":{"name":"f"}}]}]}`, "", "calls a tool"},
	} {
		s, err := Open(context.Background(), expect.File(t, "x.jsonl", c.row), Options{SkipBad: true})
		if err != nil {
			t.Fatal(err)
		}
		row, err := s.Next()
		if c.err != "" {
			expect.Error(t, err, "row 0", c.err)
		} else if unused := strings.Join(s.Unused(), " "); err != nil || row.Output != "b" || unused != c.unused {
			t.Errorf("%s: %v, %v, not used %q", c.row, row, err, unused)
		}
		s.Close()
	}
}
