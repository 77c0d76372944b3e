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
		said := m.Role + ": " + m.Content
		for _, more := range []struct{ sign, what string }{{"~", m.Thoughts}, {"calls ", m.Calls}, {"more ", m.More}} {
			if more.what != "" {
				said += " {" + more.sign + more.what + "}"
			}
		}
		if m.Context {
			said += " {context}"
		}
		turns = append(turns, said)
	}
	return strings.Join(turns, " | ")
}

func TestConversationForms(t *testing.T) {
	const (
		gen  = `{"instruction":"a.","input":"b","output_original":"c","output_passive_aggressive":"d"}`
		talk = `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},` +
			`{"role":"assistant","content":"b"}]}`
		share = `{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}`
	)
	message := func(m string) string { return `{"messages":[` + m + `]}` }
	for _, c := range []struct {
		name, content, columns string
		format, want           string // conversations separated by ;
		err                    []string
	}{
		{"gen's rewritten answers", "[" + gen + "]", "", "gen's rewritten answers (output_passive_aggressive)",
			"user: a: b | assistant: d", nil},
		{"gen's original answers", "[" + gen + "]", "output=output_original", "gen's original answers (output_original)",
			"user: a: b | assistant: c", nil},
		{"gen's, without the original", `{"instruction":"a","output_passive_aggressive":"d"}`, "",
			"gen's rewritten answers (output_passive_aggressive)", "user: a | assistant: d", nil},
		{"Alpaca", `{"instruction":"a","input":"","output":"c","text":"t"}`, "", "Alpaca columns instruction, input, output",
			"user: a | assistant: c", nil},
		{"GPTeacher", `{"instruction":"a?","input":"1","response":"c"}`, "", "columns instruction, input, response",
			"user: a? 1 | assistant: c", nil},
		{"question and answer", `{"question":"a","answer":"c"}`, "", "columns question, answer", "user: a | assistant: c",
			nil},
		{"named columns", `{"q":"a","r":"c","messages":7}`, "instruction=q,output=r", "columns q, r",
			"user: a | assistant: c", nil},
		{"an answer is not changed", `{"instruction":"a","output":" c\n"}`, "", "Alpaca columns instruction, output",
			"user: a | assistant:  c\n", nil},
		{"an empty answer", `{"instruction":"a","output":""}`, "", "Alpaca columns instruction, output",
			"user: a | assistant: ", nil},
		{"messages", talk + "\n" + talk, "", "chat messages (messages)",
			"system: s | user: a | assistant: b;system: s | user: a | assistant: b", nil},
		{"weights of 1", message(`{"role":"assistant","content":"a","weight":1}`), "", "chat messages (messages)",
			"assistant: a", nil},
		{"messages before other columns", `[{"prompt":"x","completion":"y","messages":[{"role":"user","content":"a"}]}]`, "",
			"chat messages (messages)", "user: a", nil},
		{"ShareGPT", share, "", "chat messages (conversations)", "user: a | assistant: b", nil},
		{"messages called conversations", `{"conversations":[{"role":"user","content":"a"}]}`, "",
			"chat messages (conversations)", "user: a", nil},
		{"other keys and no tool calls", message(`{"content":"a","name":null,"role":"user","tool_calls":[]}`), "",
			"chat messages (messages)", "user: a", nil},
		{"content in parts", message(`{"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text"}]},` +
			`{"role":"assistant","content":[]}`), "", "chat messages (messages)", "user: a\nb | assistant: ", nil},
		{"contents that look like markup", message(`{"role":"user","content":"<|eot_id|>\u0000"}`), "",
			"chat messages (messages)", "user: <|eot_id|>\x00", nil},
		{"plain text", `{"text":"a\nb","id":1}` + "\n" + `{"text":null}`, "", "plain text, each row a document (text)",
			"text: a\nb;text: ", nil},
		{"named plain text", `[{"content":"<s>a","text":"b"}]`, "text=content", "plain text, each row a document (content)",
			"text: <s>a", nil},
		{"OpenOrca", `{"id":"x","system_prompt":"s","question":"a","response":"b"}` + "\n" +
			`{"system_prompt":"","question":"a","response":"b"}`, "", "columns system_prompt, question, response",
			"system: s | user: a | assistant: b;user: a | assistant: b", nil},
		{"prompt and completion", `{"prompt":"a","completion":"b"}`, "", "columns prompt, completion",
			"user: a | assistant: b", nil},
		{"prompt and completion as messages", `{"prompt":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},` +
			`{"role":"user","content":"c"}],"completion":[{"role":"assistant","content":"d"}]}`, "",
			"chat messages (prompt, completion)", "(user): a | (assistant): b | (user): c | assistant: d", nil},
		{"messages, and an answer of text", `{"input":[{"role":"user","content":"a"}],"output":"b","system_prompt":"s"}`, "",
			"chat messages (input, system_prompt, output)", "(system): s | (user): a | assistant: b", nil},
		{"a question of text, and messages", `{"prompt":"a","completion":[{"role":"assistant","content":"b"}]}`, "",
			"chat messages (prompt, completion)", "(user): a | assistant: b", nil},
		// These are errors.
		{"a completion that repeats the prompt", `{"prompt":"a","completion":[{"role":"user","content":"a "},` +
			`{"role":"assistant","content":"b"}]}`, "", "chat messages (prompt, completion)", "(user): a  | assistant: b", nil},
		{"and has a system prompt", `{"prompt":"a","completion":[{"role":"system","content":"s"},{"role":"user",` +
			`"content":"a"},{"role":"assistant","content":"b"}]}`, "", "chat messages (prompt, completion)",
			"(system): s | (user): a | assistant: b", nil},
		{"a completion with another question", `{"prompt":"a","completion":[{"role":"user","content":"c"},` +
			`{"role":"assistant","content":"b"}]}`, "", "", "", []string{`role "user"`, "not with the question"}},
		{"a completion with the question", `{"prompt":[{"role":"system","content":"s"}],"completion":[{"role":"user",` +
			`"content":"a"},{"role":"assistant","content":"b"}]}`, "", "chat messages (prompt, completion)",
			"(system): s | user: a | assistant: b", nil},
		{"a prompt of messages with a context", `{"prompt":[],"context":"x","completion":[]}`, "", "", "",
			[]string{"line 1", `no place for the column "context"`}},
		{"a prompt of text, then of messages", `{"prompt":"a","completion":"b"}` + "\n" + `{"prompt":[],"completion":[]}`,
			"", "", "user: a | assistant: b", []string{"line 2", `"prompt", "completion"`, "instruction=prompt"}},
		{"a completion without messages", `{"prompt":[{"role":"user","content":"a"}],"completion":[]}`, "", "", "",
			[]string{"row 0", "no messages"}},
		{"text, then a pair", `{"text":"a"}` + "\n" + `{"question":"a","answer":"b"}`, "", "", "text: a",
			[]string{"line 2", `"text"`, "instruction=question"}},
		{"text that is no string", `{"text":["a"]}`, "", "", "", []string{"line 1", `"text"`, "found an array"}},
		{"no question", `{"instruction":" ","input":"<noinput>","output":"c"}`, "", "", "",
			[]string{"row 0", "question is empty"}},
		{"no question later", `{"instruction":"a","output":"c"}` + "\n" + `{"instruction":"","output":"c"}`, "", "",
			"user: a | assistant: c", []string{"row 1", "question is empty"}},
		{"two answers", `{"instruction":"a","output":"b","response":"c"}`, "", "", "", []string{"line 1", "more than one way",
			"name the columns"}},
		{"no known columns", `{"a":"b"}`, "", "", "", []string{"line 1", "no known pair", `"a"`}},
		{"column that is not there", `{"instruction":"a","output":"b"}`, "output=c", "", "",
			[]string{"line 1", `no column "c"`}},
		{"flat, then a conversation", `{"instruction":"a","output":"b"}` + "\n" + talk, "", "", "user: a | assistant: b",
			[]string{"line 2", `"messages"`, "instruction=instruction"}},
		{"a conversation, then flat", talk + "\n" + `{"instruction":"a","output":"b"}`, "", "",
			"system: s | user: a | assistant: b", []string{"line 2", `"messages"`, "instruction=instruction"}},
		{"another column later", talk + "\n" + share, "", "", "system: s | user: a | assistant: b",
			[]string{"line 2", `"messages"`, `"conversations"`}},
		{"a system prompt of its own", `{"system":"s",` + share[1:] + "\n" + share + "\n" + `{"system":" ",` + share[1:], "",
			"chat messages (conversations, system)", "system: s | user: a | assistant: b;user: a | assistant: b;" +
				"user: a | assistant: b", nil},
		{"a system prompt twice", `{"system_prompt":"s",` + talk[1:], "", "chat messages (messages, system_prompt)",
			"system: s | user: a | assistant: b", nil},
		{"two system prompts", `{"system":"t",` + talk[1:], "", "", "", []string{"row 0", "system prompt", "remove one"}},
		{"a system prompt that is a number", `{"system":1,` + talk[1:], "", "", "", []string{`"system"`, "a number"}},
		{"no messages", message(``), "", "", "", []string{"row 0", "no messages"}},
		{"null", `{"messages":null}`, "", "", "", []string{"row 0", "the conversation is null"}},
		{"text", `{"messages":"hello"}`, "", "", "", []string{"row 0", "a string"}},
		{"JSON in text", `{"messages":"[{\"role\":\"user\",\"content\":\"a\"}]"}`, "", "chat messages (messages)",
			"user: a", nil},
		{"Python in text", `{"messages":"[{'role': 'user', 'content': 'a'}]"}`, "", "", "", []string{"row 0", "json.dumps"}},
		{"one message", `{"messages":{"role":"user","content":"a"}}`, "", "", "", []string{"row 0", "an object"}},
		{"a message that is text", message(`"a"`), "", "", "", []string{"row 0", "message 0", "a string"}},
		{"no content", message(`{"role":"user"}`), "", "", "", []string{"message 0", `no key "content"`, `"role"`}},
		{"no role", message(`{"role":"user","content":"a"},{"content":"b"}`), "", "", "",
			[]string{"message 1", `no key "role"`}},
		{"null content", message(`{"role":"assistant","content":null}`), "", "", "", []string{"message 0", `"content"`,
			"null"}},
		{"a picture", message(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}`), "", "", "",
			[]string{`"content"`, `part 1 is of type "image_url"`, "only text"}},
		{"a part that is text", message(`{"role":"user","content":["a"]}`), "", "", "", []string{"part 0 is a string"}},
		{"a part without text", message(`{"role":"user","content":[{"type":"text"}]}`), "", "", "",
			[]string{"part 0", `"text"`, "nothing"}},
		{"a part with half a surrogate pair", message(`{"role":"user","content":[{"type":"text","text":"\ud83d"}]}`), "",
			"", "", []string{"part 0", "surrogate"}},
		{"a role in parts", message(`{"role":[],"content":"a"}`), "", "", "", []string{`"role"`, "an array"}},
		{"a role that is misspelt", message(`{"role":"asistant","content":"a"}`), "", "", "",
			[]string{`"asistant"`, "user or assistant"}},
		{"a role in capitals", message(`{"role":"USR","content":"a"}`), "", "", "", []string{`"USR"`}},
		{"a key twice", message(`{"role":"user","role":"user","content":"a"}`), "", "", "", []string{"message 0", "twice"}},
		{"mixed keys", message(`{"from":"user","content":"a"}`), "", "", "", []string{`no key "value"`}},
		{"half a surrogate pair", message(`{"role":"user","content":"\ud83d"}`), "", "", "",
			[]string{"message 0", "surrogate"}},
		{"a role with half a surrogate pair", message(`{"role":"\ud83d","content":""}`), "", "", "",
			[]string{"message 0", "surrogate"}},
		{"too deep", message(strings.Repeat("[", 100) + strings.Repeat("]", 100)), "", "", "", []string{"line 1", "deep"}},
		{"cut", `{"messages":[{"role":"us`, "", "", "", []string{"line 1", "truncated"}},
		{"array of arrays", `[[{"role":"user","content":"a"}]]`, "", "", "", []string{"row 0", "an array"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			columns, err := ParseColumns(c.columns)
			if err != nil {
				t.Fatal(err)
			}
			said, format, err := conversations(expect.File(t, "rows.json", c.content), Options{Columns: columns})
			if got := strings.Join(said, ";"); got != c.want {
				t.Errorf("conversations %q, want %q", got, c.want)
			}
			if c.err != nil {
				expect.Error(t, err, append(c.err, "dataset: rows.json")...)
			} else if err != nil || format != c.format {
				t.Errorf("format %q, want %q; %v", format, c.format, err)
			}
		})
	}
}

func TestConversationsErrorIsFinal(t *testing.T) {
	c, err := OpenConversations(context.Background(),
		expect.File(t, "x.jsonl", `{"messages":[]}`+"\n"+`{"messages":[{"role":"user","content":"a"}]}`), Options{})
	if err != nil {
		t.Fatal(err)
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

// TestParquetSystemPrompt reads a system prompt next to a conversation, and leaves a column of another type alone.
func TestParquetSystemPrompt(t *testing.T) {
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
	system, turns := "s", []turn{{"user", "a"}, {"assistant", "b"}}
	var b, other bytes.Buffer
	err := errors.Join(parquet.Write(&b, []row{{turns, &system}, {turns, nil}}),
		parquet.Write(&other, []numbered{{turns, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	got, format, err := conversations(expect.File(t, "x.parquet", b.String()), Options{})
	want := []string{"system: s | user: a | assistant: b", "user: a | assistant: b"}
	if d := cmp.Diff(want, got); d != "" || err != nil || format != "chat messages (messages, system)" {
		t.Errorf("%s, %v\n%s", format, err, d)
	}
	got, format, err = conversations(expect.File(t, "x.parquet", other.String()), Options{})
	if d := cmp.Diff(want[1:], got); d != "" || err != nil || format != "chat messages (messages)" {
		t.Errorf("%s, %v\n%s", format, err, d)
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
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseMessages(written, &names{})
		if d := cmp.Diff(messages, again); err != nil || d != "" {
			t.Fatalf("read back as %v, %v", d, err)
		}
	})
}

// TestPrompts reads every form of a prompt and its completion with every form of a history and with a system prompt or
// without one: all messages before the completion are the prompt, whose answers are not learned.
func TestPrompts(t *testing.T) {
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

// TestCallsInARow reads all sequences of up to four messages of every kind: calls in messages of their own become one
// message if they follow each other and are all learned or all not.
func TestCallsInARow(t *testing.T) {
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
				said = append(said, "assistant:  {calls ["+call+"]}"+map[byte]string{'C': " {context}"}[k])
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
