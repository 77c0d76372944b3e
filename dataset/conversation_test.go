package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"restyle/chat"
	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// conversations reads a dataset to its end. It returns each conversation as "role: content | role: content", with the
// roles of a prompt in parentheses, and a document as "text: content".
func conversations(spec string, o Options) (said []string, format string, err error) {
	c, err := OpenConversations(context.Background(), spec, o)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	for {
		next, err := c.Next()
		if err == io.EOF {
			return said, c.Format, nil
		}
		if err != nil {
			return said, c.Format, err
		}
		if next.Row != len(said) {
			return said, c.Format, fmt.Errorf("row %d has the number %d", len(said), next.Row)
		}
		if c.Text {
			next.Messages = []chat.Message{{Role: "text", Content: next.Text}}
		}
		for i := range next.Messages[:next.Prompt] {
			next.Messages[i].Role = "(" + next.Messages[i].Role + ")"
		}
		said = append(said, wordings(next.Messages))
	}
}

func wordings(messages []chat.Message) string {
	var turns []string
	for _, m := range messages {
		said := m.Role + ":"
		if !m.NoContent {
			said += " " + m.Content
		}
		for _, more := range []struct{ sign, what string }{{"~", m.Thoughts}, {"calls ", m.Calls}, {"more ", m.More}} {
			if more.what != "" {
				said += " {" + more.sign + more.what + "}"
			}
		}
		if m.Context {
			said += " {context}"
		}
		for _, a := range m.Asides {
			said += fmt.Sprintf(" {aside %q}", m.Content[a.Start:a.End])
		}
		turns = append(turns, said)
	}
	return strings.Join(turns, " | ")
}

func TestConversationForms(t *testing.T) {
	for _, c := range expect.Cases(t, "testdata/conversations.txt", "row", "columns", "format", "said", "error") {
		t.Run(c.Name, func(t *testing.T) {
			columns, err := ParseColumns(c.Get("columns"))
			expect.OK(t, err)
			said, format, err := conversations(expect.File(t, "rows.json", c.Get("row")), Options{Columns: columns})
			if d := cmp.Diff(c.All("said"), said); d != "" {
				t.Error(d)
			}
			if words := c.All("error"); words != nil {
				expect.Error(t, err, append(words, "dataset: rows.json")...)
			} else if err != nil || format != c.Get("format") {
				t.Errorf("format %q, want %q; %v", format, c.Get("format"), err)
			}
		})
	}
}

func TestConversationsErrorIsFinal(t *testing.T) {
	c, err := OpenConversations(context.Background(),
		expect.File(t, "x.jsonl", `{"messages":[]}`+"\n"+`{"messages":[{"role":"user","content":"a"}]}`), Options{})
	expect.OK(t, err)
	if c.Name != "x.jsonl" || c.Revision != c.source.Revision || len(c.Revision) != 64 || c.Files() != nil {
		t.Errorf("%+v", c)
	}
	_, first := c.Next()
	expect.Error(t, first, "row 0", "no messages")
	if _, again := c.Next(); again != first {
		t.Errorf("after %v came %v", first, again)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestParquetConversations reads lists of groups as different writers lay them out. testdata/make.py writes the files.
func TestParquetConversations(t *testing.T) {
	said := []string{
		"user: Hi? | assistant: Grüße 🙂",
		"system: Be brief. | user: 1+1? | assistant: 2 | user: 2+2? | assistant: 4",
		"user: Say nothing. | assistant: ",
	}
	for _, c := range []struct {
		name  string
		times int
		err   []string
	}{
		{"messages", 20, nil},
		{"messages_v2", 1, nil},
		{"messages_old_lists", 1, nil},
		{"messages_required", 1, nil},
		{"messages_more_fields", 1, nil},
		{"messages_text", 1, nil},
		{"conversations", 1, nil},
		{"messages_parts_null", 0, []string{"row 0", "message 1", `"content"`, "null"}},
		{"messages_parts_image", 0, []string{"row 0", "message 0", `part 1 is of type "image"`}},
		{"messages_parts_null_part", 0, []string{"row 0", "part 0 is null"}},
		{"messages_empty_list", 1, []string{"row 3", "no messages"}},
		{"messages_null_list", 1, []string{"row 3", "the conversation is null"}},
		{"messages_null_turn", 1, []string{"row 3", "message 0", "null"}},
		{"messages_null_content", 1, []string{"row 3", "message 0", `"content"`, "null"}},
		{"messages_nulls", 1, nil},
		{"messages_tool_calls", 1, []string{"row 3", `"tool_calls"`, "item 0: expected an object, found a string"}},
		{"messages_other_fields", 0, []string{`"messages"`, `the fields "who"`, "name other columns"}},
		{"messages_nested_lists", 0, []string{`"messages"`, "list of lists"}},
		{"messages_strings", 0, []string{`"messages"`, "the fields"}},
		{"messages_struct", 0, []string{`"messages"`, "is not a list"}},
		{"list", 0, []string{`"output"`, "nested"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := conversations("testdata/"+c.name+".parquet", Options{})
			var want []string
			for range c.times {
				want = append(want, said...)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if c.err != nil {
				expect.Error(t, err, append(c.err, c.name)...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// written writes a parquet file.
func written[T any](t *testing.T, rows ...T) string {
	t.Helper()
	var b bytes.Buffer
	expect.OK(t, parquet.Write(&b, rows))
	return b.String()
}

// TestParquet_TypedRows reads a system prompt next to a conversation, leaves a column of another type alone, reads text
// next to a list of messages, and refuses pictures of any type.
func TestParquet_TypedRows(t *testing.T) {
	type turn struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type row struct {
		Messages []turn  `parquet:"messages,list"`
		System   *string `parquet:"system,optional"`
	}
	type numbered struct {
		Messages []turn `parquet:"messages,list"`
		System   int    `parquet:"system"`
	}
	type half struct {
		Prompt     string `parquet:"prompt"`
		Completion []turn `parquet:"completion,list"`
	}
	type pixels struct {
		Prompt     string  `parquet:"prompt"`
		Completion string  `parquet:"completion"`
		Images     []int32 `parquet:"images,list"`
	}
	damage := func(m *format.FileMetaData) { m.RowGroups[0].Columns[2].MetaData.PathInSchema[3] = "x" }
	const said = "user: a | assistant: b"
	system, turns := "s", []turn{{"user", "a"}, {"assistant", "b"}}
	for _, c := range []struct {
		content, format string
		want            []string
		err             string
	}{
		{written(t, row{turns, &system}, row{turns, nil}), "chat messages (messages, system)",
			[]string{"system: s | " + said, said}, ""},
		{written(t, numbered{turns, 1}), "chat messages (messages)", []string{said}, ""},
		{written(t, half{"a", turns[1:]}), "chat messages (prompt, completion)", []string{"(user): a | assistant: b"}, ""},
		{string(withFooter(t, []byte(written(t, half{"a", turns[1:]})), damage)), "", nil,
			"row group 0 lacks the column completion.list.element.content"},
		{written(t, pixels{"a", "b", nil}, pixels{"a", "b", []int32{}}, pixels{"a", "b", []int32{0}}),
			"columns prompt, completion", []string{said, said}, `row 2: column "images" is part of the question`},
	} {
		got, format, err := conversations(expect.File(t, "x.parquet", c.content), Options{})
		if d := cmp.Diff(c.want, got); d != "" || format != c.format {
			t.Errorf("%q\n%s", format, d)
		}
		if c.err != "" {
			expect.Error(t, err, c.err)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestParquet_NamesOfGroups reads the groups by which writers mark the pairs of a map and the elements of a list.
func TestParquet_NamesOfGroups(t *testing.T) {
	const plain = "user: a | assistant: b"
	pairs, element := []string{"key", "value"}, []string{"name"}
	for _, c := range []struct {
		column, group string
		fields        []string
		want          string // with ! before an error
	}{
		{"chat_template_kwargs", "key_value", pairs, plain + ` variables {"0":"0","1":"1"};chat_template_kwargs;0 1`},
		{"chat_template_kwargs", "map", pairs, plain + ` variables {"0":"0","1":"1"};chat_template_kwargs;0 1`},
		{"chat_template_kwargs", "entries", pairs, plain + ` variables {"0":"0","1":"1"};chat_template_kwargs;0 1`},
		{"chat_template_kwargs", "pairs", pairs, "!expected an object"},
		{"chat_template_kwargs", "entries", []string{"key", "values"}, "!expected an object"},
		{"chat_template_kwargs", "entries", []string{"keys", "value"}, "!expected an object"},
		{"tools", "array", element, plain + ` tools [{"name":"0"},{"name":"1"}];tools`},
		{"tools", "tools_tuple", element, plain + ` tools [{"name":"0"},{"name":"1"}];tools`},
		{"tools", "list", element, "!item 0: expected an object, found a string"},
	} {
		inner := parquet.Group{}
		for _, field := range c.fields {
			inner[field] = parquet.String()
		}
		schema := parquet.NewSchema("row", parquet.Group{"instruction": parquet.String(), "output": parquet.String(),
			c.column: parquet.Group{c.group: parquet.Repeated(inner)}})
		var row parquet.Row
		for i, path := range schema.Columns() { // the values of each column one after the other
			switch path[0] {
			case "instruction":
				row = append(row, parquet.ValueOf("a").Level(0, 0, i))
			case "output":
				row = append(row, parquet.ValueOf("b").Level(0, 0, i))
			default:
				row = append(row, parquet.ValueOf("0").Level(0, 1, i), parquet.ValueOf("1").Level(1, 1, i))
			}
		}
		var b bytes.Buffer
		w := parquet.NewWriter(&b, schema)
		_, err := w.WriteRows([]parquet.Row{row})
		expect.OK(t, errors.Join(err, w.Close()))
		got, err := besideOnly(expect.File(t, "x.parquet", b.String()))
		if words, refused := strings.CutPrefix(c.want, "!"); refused {
			expect.Error(t, err, c.column, words)
		} else if err != nil || got != c.want {
			t.Errorf("%s, %s: %q, %v", c.column, c.group, got, err)
		}
	}
}

// TestParquetParts reads contents in parts, a prompt and a completion of messages, and plain text.
func TestParquetParts(t *testing.T) {
	parts := []string{
		"user: a\nb\nc | assistant: d\ne",
		"user: Hi? | assistant: Grüße 🙂",
		"system: Be brief. | user: 1+1? | assistant: 2 | user: 2+2? | assistant: 4",
		"user: Say nothing. | assistant: ",
	}
	for name, want := range map[string][]string{
		"messages_parts": parts, "messages_parts_required": parts,
		"prompt_completion": {
			"(user): Hi? | assistant: Grüße 🙂",
			"(system): Be brief. | (user): 1+1? | (assistant): 2 | (user): 2+2? | assistant: 4",
			"(user): Say nothing. | assistant: ",
		},
		"text": {"text: a\nb", "text: ", "text: <s>c"},
	} {
		got, _, err := conversations("testdata/"+name+".parquet", Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestRealConversations(t *testing.T) {
	for _, c := range []struct {
		name   string
		rows   int
		format string
	}{
		{"instruct/gpteacher_codegen-instruct.json", 4535, "columns instruction, input, response"},
		{"instruct/torchtune_alpaca_tiny.json", 100, "Alpaca columns instruction, input, output"},
		{"instruct/original_passive_aggressive_data.json", 576, "gen's rewritten answers (output_passive_aggressive)"},
		{"parquet/curator_camel_gt_dataset.parquet", 27, "columns question, answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said, format, err := conversations(expect.Reference(t, "data", c.name), Options{})
			if err != nil || len(said) != c.rows || format != c.format {
				t.Errorf("%d rows as %q, want %d as %q; %v", len(said), format, c.rows, c.format, err)
			}
		})
	}
}

// FuzzMessages checks that an accepted conversation is what encoding/json reads, and stays the same when written and
// read back.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`[{"role":"user","content":"a"},{"role":"assistant","content":"\ud83d\ude42"}]`,
		`[{"from":"human","value":"a","weight":1},{"from":"gpt","value":""}]`,
		`[{"role":"user","content":"a","tool_calls":null}]`, `[]`, `null`, `"[]"`, `[[]]`, `[{}]`,
		`[{"role":"user","role":"x","content":""}]`, `[{"role":"user","content":"\ud83d"}]`, `[{"role":"user","content":7}] `,
		` [`, "[\xff]", strings.Repeat("[", 1000), ``,
	} {
		f.Add([]byte(s))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		messages, err := hostile.Parse(t, raw, func(raw []byte) ([]chat.Message, error) {
			return parseMessages(raw, &names{})
		})
		if err != nil {
			expect.Error(t, err)
			return
		}
		if len(messages) == 0 {
			t.Fatal("no messages and no error")
		}
		for i, m := range messages {
			if m.Calls != "" {
				return // the content may be its own
			}
			messages[i].More, messages[i].Context = "", false // not written
		}
		var plain []map[string]any
		if err := json.Unmarshal(raw, &plain); err != nil || len(plain) != len(messages) {
			t.Fatalf("%d messages of %q, for encoding/json %d, %v", len(messages), raw, len(plain), err)
		}
		for i, m := range messages {
			content := plain[i]["content"]
			if plain[i]["role"] == nil {
				content = plain[i]["value"]
			}
			if list, is := content.([]any); m.Content != content && !is || roles[m.Role] != m.Role {
				_ = list
				t.Fatalf("message %d of %q is %+v", i, raw, m)
			}
		}
		written, err := json.Marshal(messages)
		expect.OK(t, err)
		again, err := parseMessages(written, &names{})
		if d := cmp.Diff(messages, again); err != nil || d != "" {
			t.Fatalf("read back as %v, %v", d, err)
		}
	})
}

// TestPrompts_AnswersAreNotLearned reads every form of a prompt and its completion with every form of a history and
// with a system prompt or without one: all messages before the completion are the prompt, whose answers are not
// learned.
func TestPrompts_AnswersAreNotLearned(t *testing.T) {
	type form struct{ value, said string } // JSON and what it says
	list := func(turns ...string) form {
		var values, said []string
		for i, content := range turns {
			role := []string{"user", "assistant"}[(len(turns)-1-i)%2]
			values = append(values, `{"role":"`+role+`","content":"`+content+`"}`)
			said = append(said, role+": "+content)
		}
		return form{"[" + strings.Join(values, ",") + "]", strings.Join(said, " | ")}
	}
	completions := []form{{`"y"`, "assistant: y"}, {`[{"role":"assistant","content":"y"}]`, "assistant: y"},
		{`[{"role":"assistant","content":"y"},{"role":"user","content":"z"},{"role":"assistant","content":"w"}]`,
			"assistant: y | user: z | assistant: w"}}
	histories := []form{{"", ""}, {`[]`, ""}, {`[["p","q"]]`, "user: p | assistant: q"},
		{`[["p","q"],["r","s"]]`, "user: p | assistant: q | user: r | assistant: s"},
		{`[{"role":"assistant","content":"p"}]`, "assistant: p"},
		{`[{"role":"user","content":"p"},{"role":"assistant","content":"q"}]`, "user: p | assistant: q"}}
	var rows, want []string
	for _, prompt := range []form{{`"a"`, "user: a"}, list("a"), list("a", "b"), list("a", "b", "c")} {
		for i, completion := range completions {
			for _, history := range histories {
				for _, system := range []form{{"", ""}, {`"s"`, "system: s"}} {
					row := `{"prompt":` + prompt.value + `,"completion":` + completion.value
					said := prompt.said
					if history.value != "" {
						row += `,"history":` + history.value
					}
					if history.said != "" {
						said = history.said + " | " + said
					}
					if system.value != "" {
						row += `,"system":` + system.value
						said = system.said + " | " + said
					}
					if prompt.value != `"a"` || i > 0 { // else it is a question and its answer, and all is learned
						said = "(" + strings.ReplaceAll(strings.ReplaceAll(said, ": ", "): "), " | ", " | (")
					}
					rows, want = append(rows, row+"}"), append(want, said+" | "+completion.said)
				}
			}
		}
	}
	for i, row := range rows {
		got, _, err := conversations(expect.File(t, "x.jsonl", row), Options{})
		if err != nil || len(got) != 1 || got[0] != want[i] {
			t.Errorf("%s:\n got %q, %v\nwant %q", row, got, err, want[i])
		}
	}
}

// TestCalls_InARowBecomeOneMessage reads all sequences of up to four messages of every kind: calls in messages of their
// own become one message if they follow each other and are all learned or all not.
func TestCalls_InARowBecomeOneMessage(t *testing.T) {
	kinds := map[byte]string{ // %d is the message's number
		'u': `{"role":"user","content":"%d"}`, 'a': `{"role":"assistant","content":"%d"}`,
		't': `{"role":"tool","content":"%d"}`,
		'c': `{"role":"function_call","content":"{\"name\":\"%d\"}"}`,
		'C': `{"role":"tool_call","content":"{\"name\":\"%d\"}","train":false}`,
		'f': `{"role":"assistant","function_call":{"name":"%d"}}`,
	}
	sequences := []string{""}
	for i := 0; i < len(sequences); i++ {
		if sequence := sequences[i]; len(sequence) < 4 {
			for _, k := range "uatcCf" {
				sequences = append(sequences, sequence+string(k))
			}
		}
	}
	sequences = sequences[1:]
	var rows, want []string
	for _, sequence := range sequences {
		var row, said []string
		for i := 0; i < len(sequence); i++ {
			k := sequence[i]
			row = append(row, fmt.Sprintf(kinds[k], i))
			call := fmt.Sprintf(`{"type":"function","function":{"name":"%d"}}`, i)
			switch {
			case (k == 'c' || k == 'C') && i > 0 && sequence[i-1] == k:
				last := &said[len(said)-1]
				*last = strings.Replace(*last, "]}", ","+call+"]}", 1)
			case k == 'c' || k == 'C' || k == 'f':
				said = append(said, "assistant: {calls ["+call+"]}"+map[byte]string{'C': " {context}"}[k])
			default:
				said = append(said, fmt.Sprintf("%s: %d", map[byte]string{'u': "user", 'a': "assistant", 't': "tool"}[k], i))
			}
		}
		rows = append(rows, `{"messages":[`+strings.Join(row, ",")+`]}`)
		want = append(want, strings.Join(said, " | "))
	}
	got, _, err := conversations(expect.File(t, "x.jsonl", strings.Join(rows, "\n")), Options{})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d of %d rows, %v", len(got), len(want), err)
	}
	for i, want := range want {
		if got[i] != want {
			t.Errorf("%s:\n got %q\nwant %q", sequences[i], got[i], want)
		}
	}
}
