package data_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"restyle/data"
)

func TestStarterIsAlpacaShaped(t *testing.T) {
	file, err := parquet.OpenFile(bytes.NewReader(data.Starter), int64(len(data.Starter)))
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range file.Root().Columns() {
		columns = append(columns, column.Name()+" "+column.Type().String())
	}
	if diff := cmp.Diff([]string{"instruction STRING", "input STRING", "output STRING", "prompt STRING"}, columns); diff != "" {
		t.Error(diff)
	}
	type row struct {
		Instruction string `parquet:"instruction"`
		Input       string `parquet:"input"`
		Output      string `parquet:"output"`
		Prompt      string `parquet:"prompt"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(data.Starter), int64(len(data.Starter)))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 5000 {
		t.Errorf("%d rows, want 5000 or more", len(rows))
	}
	for i, row := range rows {
		if row.Instruction == "" || len(row.Output) < 40 || len(row.Output) > 600 {
			t.Errorf("row %d: instruction %q, an answer of %d characters", i, row.Instruction, len(row.Output))
		}
		if !strings.Contains(row.Prompt, "\n"+row.Instruction+"\n") || !strings.Contains(row.Prompt, row.Input) || !strings.HasSuffix(row.Prompt, "### Response:\n"+row.Output) {
			t.Errorf("row %d: the prompt is not made of the row:\n%s", i, row.Prompt)
		}
	}
}

func TestQuestions(t *testing.T) {
	questions, err := data.Questions()
	if err != nil {
		t.Fatal(err)
	}
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
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) || len(questions) != test.count {
				t.Errorf("got %d questions and %v, want %d and an error with %q", len(questions), err, test.count, test.want)
			}
		})
	}
}

func FuzzParseQuestions(f *testing.F) {
	f.Add([]byte(`{"instruction":"a","input":"","output":"b","check":"c","kind":"d","seen":true}`))
	f.Add([]byte("{}\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		questions, err := data.ParseQuestions(bytes.NewReader(text))
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

// TestCheckPy holds check.py to the contract in README.md.
func TestCheckPy(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	type verdict struct {
		Parses, Right bool
		Error         string
		Printed       string
	}
	tests := []struct {
		name, code, check string
		want              verdict
	}{
		{"right", "print(2 + 2)", "assert int(printed) == 4", verdict{true, true, "", "4\n"}},
		{"wrong", "print(5)", "assert int(printed) == 4", verdict{true, false, "check: AssertionError", "5\n"}},
		{"does not parse", "print(", "", verdict{false, false, "*", ""}},
		{"null byte", "a\x00b", "", verdict{false, false, "*", ""}},
		{"raises", "print(1)\n1 / 0", "", verdict{true, false, "ZeroDivisionError: division by zero", "1\n"}},
		{"check does not parse", "", "assert (", verdict{true, false, "*", ""}},
		{"is main", "if __name__ == '__main__':\n    print('main')", "assert printed == 'main\\n'", verdict{true, true, "", "main\n"}},
		{"the code's names", "x = 3", "assert x == 3", verdict{true, true, "", ""}},
		{"functions in order", "def b(): pass\nclass C: pass\na = lambda: 1\nc = b", "assert [f.__name__ for f in functions] == ['b', 'C', '<lambda>']", verdict{true, true, "", ""}},
		{"imports are not the code's functions", "from math import sqrt\nfrom collections import Counter\nimport re", "assert functions == []", verdict{true, true, "", ""}},
		{"decorated functions are", "from functools import lru_cache\n@lru_cache\ndef f(): return 1", "assert functions[-1]() == 1", verdict{true, true, "", ""}},
		{"hidden builtin", "sum = 3\ndef f(): return sum", "assert sum([1, 2]) == 3 and f() == 3", verdict{true, true, "", ""}},
		{"prints of the check are not the code's", "def f(): print(1)", "f()\nassert printed == ''", verdict{true, true, "", ""}},
		{"exits", "print(1)\nimport sys\nsys.exit()", "assert printed == '1\\n'", verdict{true, true, "", "1\n"}},
		{"exits with a failure", "import sys\nsys.exit('no')", "", verdict{true, false, "SystemExit: no", ""}},
		{"ends the process", "import os\nos._exit(0)", "", verdict{true, false, "ended without a result", ""}},
		{"kills itself", "import os\nos.kill(os.getpid(), 9)", "", verdict{true, false, "ended without a result", ""}},
		{"reads input", "input()", "", verdict{true, false, "EOFError: EOF when reading a line", ""}},
		{"endless", "while True: pass", "", verdict{true, false, "ran longer than 2 s", ""}},
		{"endless and deaf", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", "", verdict{true, false, "ran longer than 2 s", ""}},
		{"endless check", "", "while True: pass", verdict{true, false, "ran longer than 2 s", ""}},
		{"memory", "x = bytearray(1 << 40)", "", verdict{true, false, "MemoryError", ""}},
		{"deep recursion", "def f(): f()\nf()", "", verdict{true, false, "*", ""}},
		{"writes to the descriptor", "import os\nos.write(1, b'{}\\n')\nprint('ok')", "assert printed == 'ok\\n'", verdict{true, true, "", "ok\n"}},
		{"a child holds on", "import os, time\nif os.fork() == 0:\n    time.sleep(60)\nprint(1)", "", verdict{true, false, "*", "1\n"}},
		{"unicode", "print('é\\ud800')", "assert printed[0] == 'é'", verdict{true, true, "", "é\ufffd\n"}},
		{"main is fresh", "try:\n    x\nexcept NameError:\n    print('fresh')", "assert printed == 'fresh\\n'", verdict{true, true, "", "fresh\n"}},
	}
	var cases bytes.Buffer
	for _, test := range tests {
		if err := json.NewEncoder(&cases).Encode(map[string]string{"code": test.code, "check": test.check}); err != nil {
			t.Fatal(err)
		}
	}
	output, err := runCheckPy(&cases)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for _, test := range tests {
		var got verdict
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if test.want.Error == "*" && got.Error != "" {
			got.Error = "*"
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
	if decoder.More() {
		t.Error("more verdicts than cases")
	}
}

func TestCheckPyNamesABadLine(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	for _, line := range []string{"nonsense", "[]", `{"code": "1"}`, `{"code": 1, "check": ""}`} {
		_, err := runCheckPy(strings.NewReader(`{"code": "", "check": ""}` + "\n" + line + "\n"))
		exit, ok := err.(*exec.ExitError)
		if !ok || !strings.Contains(string(exit.Stderr), "line 2 is not a case") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

func runCheckPy(cases io.Reader) ([]byte, error) {
	command := exec.Command("python3", "-I", "-c", string(data.CheckPy))
	command.Stdin = cases
	return command.Output()
}
