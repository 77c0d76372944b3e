package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

func TestJSONForms(t *testing.T) {
	const row = `{"instruction":"a","input":"b","output":"c"}`
	deep := func(n int) string {
		return `[{"instruction":"a","output":"c","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}]`
	}
	for _, c := range []struct {
		name, content string
		want          string // the rows, with | between the parts of a row and ; between rows
		err           []string
	}{
		// These are good.
		{"array", "[" + row + "," + row + "]", "a|b|c;a|b|c", nil},
		{"array over lines", "[\n  " + row + "\n,\n" + row + "\n]\n", "a|b|c;a|b|c", nil},
		{"lines", row + "\n" + row + "\n", "a|b|c;a|b|c", nil},
		{"lines without a last line end", row + "\n" + row, "a|b|c;a|b|c", nil},
		{"CRLF and blank lines", "\r\n" + row + "\r\n\r\n  \r\n" + row + "\r\n", "a|b|c;a|b|c", nil},
		{"byte-order mark, array", "\ufeff[" + row + "]", "a|b|c", nil},
		{"byte-order mark, lines", "\ufeff" + row, "a|b|c", nil},
		{"CRLF array", "[\r\n" + row + "\r\n]\r\n", "a|b|c", nil},
		{"extra keys", `[{"id":7,"instruction":"a","tags":["x",{"y":null}],"input":"b","output":"c","f":-1.5e3}]`, "a|b|c",
			nil},
		{"null and missing input", `[{"instruction":"a","input":null,"output":"c"},{"instruction":"d","output":"e"}]`,
			"a||c;d||e", nil},
		{"input from the second row on", `[{"instruction":"a","output":"c"},{"instruction":"d","input":"x","output":"e"}]`,
			"a||c;d|x|e", nil},
		{"keys in another order", `{"output":"c","instruction":"a"}` + "\n" + row, "a||c;a|b|c", nil},
		{"escapes", `[{"instruction":"\u0041\n\"\\ufffd","output":"\ud83d\ude42 \ufffd"}]`, "A\n\"\\ufffd||🙂 \ufffd", nil},
		{"deep but bearable", deep(maxDepth - 1), "a||c", nil},
		{"gen's own", `[{"instruction":"a","input":"b","output_original":"c","output_passive_aggressive":"d"}]`, "a|b|c",
			nil},
		{"question and answer", `{"question":"a","answer":"c"}`, "a||c", nil},
		// These are wrong in the first row: Open fails.
		{"empty array", "[]", "", []string{"no rows"}},
		{"white space", " \n", "", []string{"nothing but white space"}},
		{"a number", "17", "", []string{"neither parquet nor", `"17"`}},
		{"text", "instruction,input,output\n", "", []string{"neither parquet nor"}},
		{"array of strings", `["a"]`, "", []string{"row 0", "expected an object", "a string"}},
		{"array of arrays", `[["a"]]`, "", []string{"row 0", "an array"}},
		{"wrapped list", `{"data":[` + row + `]}`, "", []string{"line 1", "no known pair", `"data"`}},
		{"object over lines", "{\n \"instruction\": \"a\"\n}", "", []string{"line 1", "incomplete"}},
		{"number for a string", `[{"instruction":"a","output":7}]`, "", []string{"row 0", `"output"`,
			"expected a string, found a number"}},
		{"list for a string", `[{"instruction":["a"],"output":"c"}]`, "", []string{"row 0", `"instruction"`, "an array"}},
		{"object for a string", `[{"instruction":"a","input":{},"output":"c"}]`, "",
			[]string{"row 0", `"input"`, "an object"}},
		{"bool for a string", `[{"instruction":"a","output":true}]`, "", []string{"true or false"}},
		{"missing answer", `[{"instruction":"a"}]`, "", []string{"row 0", "no known pair", `"instruction"`}},
		{"a key twice", `[{"instruction":"a","output":"c","output":"d"}]`, "", []string{"row 0", `"output" occurs twice`}},
		{"a key twice, escaped", `[{"instruction":"a","output":"c","\u006futput":"d"}]`, "",
			[]string{`"output" occurs twice`}},
		{"another key twice", `[{"instruction":"a","output":"c","x":1,"x":2}]`, "", []string{`"x" occurs twice`}},
		{"NaN", `[{"instruction":"a","output":"c","x":NaN}]`, "", []string{"row 0", "invalid character 'N'", "write null"}},
		{"-Infinity", `{"instruction":"a","output":"c","x":-Infinity}`, "", []string{"line 1", "Infinity", "write null"}},
		{"Python's quotes", `{'instruction':'a','output':'c'}`, "", []string{"line 1", "Python's repr, not JSON"}},
		{"too deep", deep(maxDepth), "", []string{"row 0", "nested deeper than 64"}},
		{"far too deep", deep(100_000), "", []string{"row 0", "depth"}},
		{"invalid UTF-8", "[{\"instruction\":\"a\xff\",\"output\":\"c\"}]", "", []string{"row 0", "UTF-8"}},
		{"Latin-1 in another key", "[{\"instruction\":\"a\",\"output\":\"c\",\"x\":\"\xe9\"}]", "", []string{"UTF-8"}},
		{"half a surrogate pair", `[{"instruction":"a","output":"\ud83d"}]`, "", []string{"surrogate"}},
		{"half a surrogate pair after an escape", `[{"instruction":"a","output":"\n\ud83d"}]`, "", []string{"surrogate"}},
		{"surrogates in the wrong order", `[{"instruction":"a","output":"\ude42\ud83d"}]`, "", []string{"surrogate"}},
		{"raw line end in a string", "[{\"instruction\":\"a\nb\",\"output\":\"c\"}]", "",
			[]string{"row 0", "invalid character"}},
		{"single quotes", `[{'instruction':'a','output':'c'}]`, "", []string{"row 0", "invalid character"}},
		{"cut in the first row", `[{"instruction":"a","outp`, "", []string{"row 0", "truncated"}},
		{"cut line", `{"instruction":"a","outp`, "", []string{"line 1", "truncated"}},
		{"only a bracket", "[", "", []string{"truncated"}},
		{"gzip, cut", "\x1f\x8b\x08rest", "", []string{"EOF"}},
		{"zip", "PK\x03\x04rest", "", []string{"zip archive"}},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "", []string{"git lfs pull"}},
		{"UTF-16", "\xff\xfe[\x00", "", []string{"UTF-16"}},
		{"UTF-16, little-endian, unmarked", "[\x00{\x00", "", []string{"UTF-16", "convert it to UTF-8"}},
		{"UTF-16, big-endian, unmarked", "\x00{\x00\"", "", []string{"UTF-16"}},
		{"web page", "<!doctype html><title>404</title>", "", []string{"web page"}},
		{"arrow", "ARROW1\x00\x00", "", []string{"Arrow"}},
		// These are wrong later: first come the rows before, then one error that names the row.
		{"cut between rows", "[" + row + ",", "a|b|c", []string{"row 1", "truncated"}},
		{"cut after a row", "[" + row, "a|b|c", []string{"row 1", "truncated"}},
		{"missing comma", "[" + row + row + "]", "a|b|c", []string{"row 1", "expected comma"}},
		{"trailing comma", "[" + row + ",]", "a|b|c", []string{"row 1", "invalid character"}},
		{"garbage after the array", "[" + row + "] x", "a|b|c", []string{"after the end of the array"}},
		{"second array", "[" + row + "][]", "a|b|c", []string{"after the end of the array"}},
		{"zeros after the array", "[" + row + "]\x00", "a|b|c", []string{"after the end of the array"}},
		{"two objects in a line", row + " " + row, "", []string{"line 1", "something after the object"}},
		{"bad second line", row + "\n\n" + `{"instruction":"a","output":nul}`, "a|b|c",
			[]string{"line 3", "invalid character"}},
		{"array in lines", row + "\n[]", "a|b|c", []string{"line 2", "an array"}},
		{"other keys later", row + "\n" + `{"question":"a","answer":"b"}`, "a|b|c", []string{"line 2", `"instruction"`,
			`"question"`}},
		{"no answer later", "[" + row + `,{"instruction":"d"},{"instruction":"e","output":null},` + row + "]",
			"a|b|c;d||;e||;a|b|c", nil},
		{"no question later", row + "\n" + `{"output":"e"}`, "a|b|c;||e", nil},
		{"no question later, as another form", row + "\n" + `{"input":"d","output":"e"}`, "a|b|c;|d|e", nil},
		{"neither later", "[" + row + `,{"title":"a"}]`, "a|b|c", []string{"row 1", "no known pair"}},
		{"another answer later", "[" + row + `,{"instruction":"a","response":"b"}]`, "a|b|c",
			[]string{"row 1", "the rows before have"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, s, err := all(expect.File(t, "rows.json", c.content), Options{})
			if opened := err == nil || c.want != ""; (s != nil) != opened {
				t.Errorf("opened %v, want %v: %v", s != nil, opened, err)
			}
			var got []string
			for i, r := range rows {
				if r.Index != i {
					t.Errorf("row %d has the index %d", i, r.Index)
				}
				got = append(got, r.Instruction+"|"+r.Input+"|"+r.Output)
			}
			if s := strings.Join(got, ";"); s != c.want {
				t.Errorf("rows %q, want %q", s, c.want)
			}
			if c.err != nil {
				expect.Error(t, err, append(c.err, "dataset: rows.json")...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrorIsFinal(t *testing.T) {
	s, err := Open(context.Background(), expect.File(t, "x.jsonl",
		"{\"instruction\":\"a\",\"output\":\"b\"}\nx\n{\"instruction\":\"a\",\"output\":\"b\"}\n"), Options{})
	expect.OK(t, err)
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	_, first := s.Next()
	expect.Error(t, first, "line 2")
	if _, again := s.Next(); again != first {
		t.Errorf("after %v came %v", first, again)
	}
	s.Close()
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestLongRecords(t *testing.T) {
	row := func(n int) string {
		return `{"instruction":"a","output":"` + strings.Repeat("x", n) + `"}`
	}
	for _, c := range []struct {
		name, content string
		bad           bool
	}{
		{"line below the limit", row(maxRecord - 100), false},
		{"line above", row(maxRecord), true},
		{"array element above", "[" + row(maxRecord+(1<<20)) + "]", true},
		{"no line end at all", "{" + strings.Repeat(" ", maxRecord+10), true},
		{"space in an array", "[" + strings.Repeat(" ", maxRecord+(1<<20)), true},
	} {
		rows, _, err := all(expect.File(t, "x.json", c.content), Options{})
		if c.bad {
			if err == nil {
				t.Errorf("%s: accepted", c.name)
				continue
			}
			expect.Error(t, err, "longer than 16 MiB")
		} else if err != nil || len(rows) != 1 {
			t.Errorf("%s: %d rows, %v", c.name, len(rows), err)
		}
	}
}

// FuzzJSON checks that what is accepted is what encoding/json reads, that nothing panics, and that an array gives the
// same rows as its elements on separate lines.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`[{"instruction":"a","input":"b","output":"c"}]`,
		"{\"instruction\":\"a\",\"output\":\"c\"}\n{\"instruction\":\"a\",\"output\":null}",
		`[{"instruction":"\ud83d\ude42","output":"\\ud83d"},{"instruction":"","output":"","x":[[{}]]}]`, "\ufeff[ ]", "[{},]",
		"[1,2", `{"a":{"a":"\"}"}}`,
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "x")
		expect.OK(t, os.WriteFile(path, data, 0o666))
		var rows []Row
		var s *Source
		var err error
		hostile.Within(t, hostile.Linear(len(data)), func() { rows, s, err = all(path, Options{}) })
		if err != nil {
			if len(err.Error()) > 3000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		var want []map[string]any
		if json.Unmarshal(data, &want) != nil {
			want = nil
			dec := json.NewDecoder(bytes.NewReader(data))
			for dec.More() {
				var one map[string]any
				if err := dec.Decode(&one); err != nil {
					t.Fatalf("accepted, but encoding/json says %v", err)
				}
				want = append(want, one)
			}
		}
		if len(want) != len(rows) {
			t.Fatalf("%d rows, encoding/json has %d", len(rows), len(want))
		}
		for i, r := range rows {
			for column, got := range map[string]string{s.Columns.Instruction: r.Instruction, s.Columns.Input: r.Input,
				s.Columns.Output: r.Output} {
				if text, _ := want[i][column].(string); column != "" && text != got {
					t.Errorf("row %d: %q is %q, encoding/json has %q", i, column, got, text)
				}
			}
		}
	})
}

// FuzzJSONL reads the lines of an accepted file one by one: line numbers and rows must be the same.
func FuzzJSONL(f *testing.F) {
	f.Add([]byte("{\"instruction\":\"a\",\"output\":\"c\"}\r\n\n {\"instruction\":\"a\",\"output\":null}"))
	f.Add([]byte("{\"q\":1}\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := lineReader{r: bufio.NewReader(bytes.NewReader(data))}
		count := 0
		for {
			line, err := lines.next()
			if err != nil {
				break
			}
			count++
			if len(bytes.TrimSpace(line)) == 0 || bytes.ContainsRune(line, '\n') {
				t.Errorf("line %d is %q", lines.line, line)
			}
			var keys []string
			var values map[string]json.RawMessage
			hostile.Within(t, hostile.Linear(len(line)), func() { keys, values, err = object(line) })
			if err != nil {
				continue
			}
			if !json.Valid(line) || len(keys) != len(values) {
				t.Errorf("accepted %q", line)
			}
			for _, v := range values {
				if s, err := text(v); err == nil && string(v) != "null" {
					if again, _ := json.Marshal(s); !json.Valid(again) {
						t.Errorf("%q from %q", s, v)
					}
				}
			}
		}
		if most := bytes.Count(data, []byte("\n")) + 1; count > most {
			t.Errorf("%d lines out of %d", count, most)
		}
	})
}

func TestJSONMemoryIsFlat(t *testing.T) {
	for _, form := range []struct{ name, start, between, end string }{{"x.json", "[", ",\n", "]"},
		{"x.jsonl", "", "\n", "\n"}} {
		path := filepath.Join(t.TempDir(), form.name)
		f, err := os.Create(path)
		expect.OK(t, err)
		const rows = 10_000
		fmt.Fprint(f, form.start)
		for i := range rows {
			if i > 0 {
				fmt.Fprint(f, form.between)
			}
			fmt.Fprintf(f, `{"instruction":"number %d","input":"","output":"%s"}`, i, strings.Repeat("print(1) ", 450))
		}
		fmt.Fprint(f, form.end)
		expect.OK(t, f.Close())
		t.Run(form.name, func(t *testing.T) {
			expect.FlatHeap(t, 4<<20, func(measure func()) { countRows(t, path, rows, measure) })
		})
	}
}

// countRows reads a file without keeping its rows, and calls measure every 2,500 rows.
func countRows(t *testing.T, path string, want int, measure func()) {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	expect.OK(t, err)
	defer s.Close()
	n := 0
	for {
		if _, err = s.Next(); err != nil {
			break
		}
		if n++; n%2_500 == 0 {
			measure()
		}
	}
	if n != want {
		t.Errorf("%d rows, want %d (%v)", n, want, err)
	}
}
