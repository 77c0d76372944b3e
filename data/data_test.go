package data_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"restyle/data"
	"restyle/internal/expect"
	"restyle/internal/hostile"
)

func TestStarterIsAlpacaShaped(t *testing.T) {
	file, err := parquet.OpenFile(bytes.NewReader(data.Starter), int64(len(data.Starter)))
	expect.OK(t, err)
	var columns []string
	for _, column := range file.Root().Columns() {
		columns = append(columns, column.Name()+" "+column.Type().String())
	}
	if diff := cmp.Diff([]string{"instruction STRING", "input STRING", "output STRING", "prompt STRING"},
		columns); diff != "" {
		t.Error(diff)
	}
	type row struct {
		Instruction string `parquet:"instruction"`
		Input       string `parquet:"input"`
		Output      string `parquet:"output"`
		Prompt      string `parquet:"prompt"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(data.Starter), int64(len(data.Starter)))
	expect.OK(t, err)
	if len(rows) < 5000 {
		t.Errorf("%d rows, want 5000 or more", len(rows))
	}
	for i, row := range rows {
		if row.Instruction == "" || len(row.Output) < 10 || len(row.Output) > 700 {
			t.Errorf("row %d: instruction %q, an answer of %d characters", i, row.Instruction, len(row.Output))
		}
		if !strings.Contains(row.Prompt, "\n"+row.Instruction+"\n") || !strings.Contains(row.Prompt, row.Input) ||
			!strings.HasSuffix(row.Prompt, "### Response:\n"+row.Output) {
			t.Errorf("row %d: the prompt is not made of the row:\n%s", i, row.Prompt)
		}
	}
}

func TestQuestions(t *testing.T) {
	questions, err := data.Questions()
	expect.OK(t, err)
	seen, unseen := 0, 0
	for i, q := range questions {
		if q.Kind == "" {
			t.Errorf("question %d has no kind", i+1)
		}
		if q.Seen {
			seen++
			if unseen > 0 {
				t.Errorf("question %d of a trained kind comes after one of another kind", i+1)
			}
		} else {
			unseen++
		}
	}
	if seen < 100 || unseen < 24 {
		t.Errorf("%d questions of trained kinds and %d of others, want 100 and 24", seen, unseen)
	}
}

func TestParseQuestions(t *testing.T) {
	good := `{"instruction":"a","input":"","output":"b","check":"c","kind":"d","seen":true}`
	tests := []struct {
		name, text, want string
		count            int
	}{
		{"empty", "", "", 0},
		{"one", good, "", 1},
		{"two", good + "\n" + good + "\n", "", 2},
		{"a byte order mark", "\ufeff" + good, "", 1},
		{"unknown key", `{"instruction":"a","output":"b","check":"c","more":1}`, "", 1},
		{"no check", good + "\n" + `{"instruction":"a","output":"b"}`, "question 2: check", 0},
		{"no output", `{"instruction":"a","check":"c"}`, "question 1: output", 0},
		{"no instruction", `{"output":"b","check":"c"}`, "question 1: instruction", 0},
		{"an array", "[" + good + "]", "question 1", 0},
		{"cut off", good[:40], "question 1", 0},
		{"wrong type", `{"instruction":1}`, "question 1", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			questions, err := data.ParseQuestions(strings.NewReader(test.text))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) ||
				len(questions) != test.count {
				t.Errorf("got %d questions and %v, want %d and an error with %q", len(questions), err, test.count, test.want)
			}
		})
	}
}

func FuzzParseQuestions(f *testing.F) {
	f.Add([]byte(`{"instruction":"a","input":"","output":"b","check":"c","kind":"d","seen":true}`))
	f.Add([]byte("{}\n[]"))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		questions, err := hostile.Parse(t, text, func(text []byte) ([]data.Question, error) {
			return data.ParseQuestions(bytes.NewReader(text))
		})
		if err != nil && questions != nil {
			t.Error("questions beside an error")
		}
		for _, q := range questions {
			if q.Instruction == "" || q.Output == "" || q.Check == "" {
				t.Errorf("let through %+v", q)
			}
		}
	})
}
