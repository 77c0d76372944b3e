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
// listed. What is wanted of a row is the conversation, then what is for the template, then, after ;, columns and keys.
func TestOtherKeys_UsedOrRefused(t *testing.T) {
	for _, c := range expect.Cases(t, "testdata/other_keys.txt", "want", "err") {
		row, errs := c.Name, c.All("err")
		check := func(form, name, content string) {
			got, err := besideOnly(expect.File(t, name, content))
			if errs != nil {
				expect.Error(t, err, append(errs, name)...)
			} else if want := strings.TrimRight(c.Get("want"), ";"); err != nil || got != want {
				t.Errorf("%s %s:\n got %q, %v\nwant %q", form, row, got, err, want)
			}
		}
		check("JSON", "x.jsonl", row)
		if text, fits := inCSV(t, row, ','); fits {
			check("CSV", "x.csv", text)
			text, _ = inCSV(t, row, '\t')
			check("TSV", "x.tsv", text)
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
	expect.OK(t, err)
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
	expect.OK(t, w.WriteAll([][]string{keys, row}))
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
		expect.OK(t, err)
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
		expect.OK(t, err)
		row, err := s.Next()
		if c.err != "" {
			expect.Error(t, err, "row 0", c.err)
		} else if unused := strings.Join(s.Unused(), " "); err != nil || row.Output != "b" || unused != c.unused {
			t.Errorf("%s: %v, %v, not used %q", c.row, row, err, unused)
		}
		s.Close()
	}
}
