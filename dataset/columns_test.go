package dataset

import (
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"strings"
	"testing"
)

func TestParseColumns(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Columns
		err  string
	}{
		{"", Columns{}, ""},
		{"  ", Columns{}, ""},
		{"instruction=question,output=answer", Columns{Instruction: "question", Output: "answer"}, ""},
		{" input = ctx , output = a b ", Columns{Input: "ctx", Output: "a b"}, ""},
		{"output=a=b", Columns{Output: "a=b"}, ""},
		{"question", Columns{}, `"question" names no column`},
		{"instruction=", Columns{}, "names no column"},
		{"instruction=a,", Columns{}, "names no column"},
		{"answer=a", Columns{}, `"answer" is not a part of a row`},
		{"=a", Columns{}, `"" is not a part of a row`},
		{"output=a,output=b", Columns{}, "output is given twice"},
		{"instruction=a,output=a", Columns{}, "given for both instruction and output"},
		{"system=s,output=a", Columns{System: "s", Output: "a"}, ""},
		{"text=body", Columns{Text: "body"}, ""},
		{"text=body,output=a", Columns{}, "text=body is plain text"},
	} {
		got, err := ParseColumns(c.in)
		if c.err != "" {
			expect.Error(t, err, c.err)
		} else if err != nil {
			t.Errorf("%q: %v", c.in, err)
		}
		if got != c.want {
			t.Errorf("%q gives %+v, want %+v", c.in, got, c.want)
		}
	}
}

func FuzzColumns(f *testing.F) {
	f.Add("instruction=question,output=answer")
	f.Add("input==,")
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := hostile.Parse(t, s, ParseColumns)
		if err != nil {
			return
		}
		if again, err := ParseColumns(c.String()); err != nil || again != c {
			t.Errorf("%q gives %+v, its String %+v, %v", s, c, again, err)
		}
	})
}

// TestPickForTraining chooses what only training reads: conversations, plain text and system prompts.
func TestPickForTraining(t *testing.T) {
	for _, c := range []struct {
		columns, there, want string
	}{
		{"", "id system_prompt question response", "question  response system_prompt"}, // as OpenOrca
		{"", "instruction input output system", "instruction input output system"},
		{"", "system system_prompt question answer", "error: more than one way"},
		{"instruction=question,output=response", "system_prompt question response", "question  response "},
		{"system=s,instruction=q,output=a", "s q a", "q  a s"},
		{"system=s,instruction=q,output=a", "q a", `error: no column "s"`},
		{"", "prompt messages", "messages "},
		{"", "messages conversations question answer", "messages "},
		{"", "conversations System tools", "conversations System"},
		{"", "system messages system_prompt", `error: "system", "system_prompt" may both be`},
		{"", "conversation model", "conversation "},
		{"", "conversation question answer", "question  answer "},
		{"", "text", "text"},
		{"", "id url title Text", "Text"},
		{"", "text label", "text"},
		{"", "instruction output text", "instruction  output "},
		{"", "prompt text", "error: no known pair"}, // the text may be a template around the prompt
		{"", "instruction output response text", "error: more than one way"},
		{"", "body", "error: or plain text as text=NAME"},
		{"text=body", "body messages question answer", "body"},
		{"text=body", "text", `error: no column "body"`},
	} {
		columns, err := ParseColumns(c.columns)
		expect.OK(t, err)
		got, err := wanted{Columns: columns, Training: true}.pick(strings.Fields(c.there))
		if words, isError := strings.CutPrefix(c.want, "error: "); isError {
			expect.Error(t, err, words)
		} else if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q among %q: %q, %v; want %q", c.columns, c.there, got, err, c.want)
		}
	}
}

func TestPickListsFewOfManyColumns(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = strings.Repeat("é", 1000)
	}
	_, err := wanted{}.pick(many)
	if err == nil || len(err.Error()) > 5000 || !strings.Contains(err.Error(), "4980 more") {
		t.Errorf("%.200v …", err)
	}
}
