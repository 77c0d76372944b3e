package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// readSources reads sources to their end. A bad row becomes "bad" and its error.
func readSources(
	t testing.TB, o Options, sample int, seed uint64, specs ...string,
) (rows []string, s *Sources, err error) {
	t.Helper()
	if s, err = OpenAll(t.Context(), specs, o); err != nil {
		return nil, nil, err
	}
	defer s.Close()
	if sample > 0 {
		s.Sample(sample, 100, seed)
	}
	for {
		row, err := s.Next()
		bad, unreadable := errors.AsType[*BadRow](err)
		switch {
		case err == io.EOF:
			return rows, s, nil
		case unreadable && bad.Skipped:
			row.Index, row.Output = bad.Index, "bad: "+bad.Error()
		case err != nil:
			return rows, s, err
		}
		rows = append(rows, fmt.Sprintf("%d %s %s", row.Index, s.Place(row.Index), row.Output))
	}
}

func lines(from, to int) (text string) {
	for i := from; i < to; i++ {
		text += fmt.Sprintf(`{"instruction":"q","output":"a%d"}`+"\n", i)
	}
	return text
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	a, b := put("a.jsonl", lines(0, 2)), put("b.csv", "question,answer\nq,a2\nq,a3\n")
	c, d := put("c.json.gz", packed(t, `[{"query":"q","response":"a4"}]`)), "testdata/plain.parquet"
	rows, s, err := readSources(t, Options{}, 0, 0, a, b, c, d)
	if err != nil || len(rows) != 45 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	want := []string{"0 row 0 of a.jsonl a0", "1 row 1 of a.jsonl a1", "2 row 0 of b.csv a2", "3 row 1 of b.csv a3",
		"4 row 0 of c.json.gz a4", "5 row 0 of plain.parquet def add(n):\n    return n + 0\n"}
	if !slices.Equal(rows[:6], want) || !strings.HasPrefix(rows[44], "44 row 39 of plain.parquet ") {
		t.Errorf("%q", rows)
	}
	if n := s.Rows(); n != -1 {
		t.Errorf("%d rows are stated, though JSON states none", n)
	}
	if rows, s, err := readSources(t, Options{}, 0, 0, d, d); err != nil || s.Rows() != 80 || len(rows) != 80 {
		t.Errorf("%d rows of %d, %v", len(rows), s.Rows(), err)
	}
	if rows, _, err := readSources(t, Options{}, 0, 0, a); err != nil || rows[1] != "1 row 1 a1" {
		t.Errorf("%q, %v", rows, err)
	}
	_, _, err = readSources(t, Options{}, 0, 0, a, filepath.Join(dir, "no.json"))
	expect.Error(t, err, "no.json")
}

// TestSample_OfTwoFiles draws from 100 rows in two files.
func TestSample_OfTwoFiles(t *testing.T) {
	a, b := expect.File(t, "a.jsonl", lines(0, 40)), expect.File(t, "b.jsonl", lines(40, 100))
	everything, _, err := readSources(t, Options{}, 0, 0, a, b)
	if err != nil || len(everything) != 100 {
		t.Fatal(len(everything), err)
	}
	drawn := map[string]int{}
	var before []string
	const rounds = 400
	for seed := range uint64(rounds) {
		rows, _, err := readSources(t, Options{}, 20, seed, a, b)
		if err != nil || len(rows) != 20 {
			t.Fatalf("seed %d: %d rows, %v", seed, len(rows), err)
		}
		at := -1
		for _, row := range rows {
			next := slices.Index(everything, row)
			if next <= at {
				t.Fatalf("seed %d: %q is not a row of the sources, or out of order", seed, row)
			}
			at = next
			drawn[row]++
		}
		if slices.Equal(rows, before) {
			t.Errorf("seeds %d and %d draw the same rows", seed-1, seed)
		}
		before = rows
	}
	for _, row := range everything { // 80 expected, with a standard deviation of 8
		if n := drawn[row]; n < 48 || n > 112 {
			t.Errorf("%q was drawn %d times in %d rounds", row, n, rounds)
		}
	}
	again, _, err := readSources(t, Options{}, 20, rounds-1, a, b)
	if err != nil || !slices.Equal(again, before) {
		t.Errorf("the same seed draws other rows: %q, %q, %v", before, again, err)
	}
	for _, n := range []int{100, 1000} {
		if rows, _, err := readSources(t, Options{}, n, 1, a, b); err != nil || !slices.Equal(rows, everything) {
			t.Errorf("a sample of %d has %d rows, %v", n, len(rows), err)
		}
	}
}

// TestBadRows_CanBeSkipped has rows that cannot be read. The ones after which it is clear where the next row starts can
// be skipped.
func TestBadRows_CanBeSkipped(t *testing.T) {
	const (
		good = `{"instruction":"q","output":"a"}`
		talk = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}` + "\n"
	)
	for _, c := range []struct {
		name, content string
		rows          int    // that can be read before and after
		bad           string // what is said about the one that cannot be; "" if reading cannot go on
	}{
		{"a.jsonl", good + "\n{\"instruction\":\n" + good, 2, "line 2: the object is incomplete"},
		{"b.jsonl", good + "\nplain text\n" + good, 2, "line 2: "},
		{"c.jsonl", good + "\n" + `{"instruction":"q","output":7}` + "\n" + good, 2, `key "output": expected a string`},
		{"d.jsonl", good + "\n" + `{"name":"x"}` + "\n" + good, 2, "no known pair"},
		{"e.jsonl", good + "\n\"\xff\"\n" + good, 2, "UTF-8"},
		{"f.jsonl", `{"instruction":"q","output":[]}` + "\n" + good, 1, "expected a string"},
		{"g.json", "[" + good + ", 7, " + good + "]", 2, "row 1 "},
		{"h.json", "[" + good + `, {"instruction":{},"output":"a"}, ` + good + "]", 2, "row 1 "},
		{"i.csv", "instruction,output\nq,a\nq\nq,a\n", 2, "line 3 has a wrong number of values"},
		{"j.csv", "instruction,output\nq,a\nq,\xff\nq,a\n", 2, "line 3: not valid UTF-8"},
		{"k.jsonl.gz", packed(t, good+"\n{\n"+good), 2, "line 2: "},
		{"l.jsonl", talk + talk + `{"messages":[{"role":"user","content":"q"}]}`, 2, "ends with its first question"},
		{"m.json", "[" + good + ", {]", 1, ""},
		{"n.json", "[" + good + ",", 1, ""},
		{"o.csv", "instruction,output\nq,a\nq,\"a\"x\nq,a\n", 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.name)
			expect.OK(t, os.WriteFile(path, []byte(c.content), 0o644))
			_, _, strict := readSources(t, Options{}, 0, 0, path)
			bad, ok := errors.AsType[*BadRow](strict)
			if strict == nil || ok != (c.bad != "") || ok && bad.Skipped {
				t.Errorf("without SkipBad: %#v", strict)
			}
			if src, err := Open(t.Context(), path, Options{SkipBad: true}); err == nil && c.bad != "" {
				if says := src.Describe(); strings.Contains(says, "not known") != (bad.Index == 0) {
					t.Errorf("described as %q", says)
				}
				for i := range c.rows + 1 {
					row, err := src.Next()
					if bad, ok := errors.AsType[*BadRow](err); ok {
						row.Index = bad.Index
					}
					if row.Index != i {
						t.Errorf("row %d has the index %d", i, row.Index)
					}
				}
				src.Close()
			}
			if both, _, err := readSources(t, Options{SkipBad: true}, 0, 0, path, path); err == nil {
				for i, row := range both {
					if !strings.HasPrefix(row, fmt.Sprintf("%d row %d of %s ", i, i%(c.rows+1), c.name)) {
						t.Errorf("row %d of the file twice: %q", i, row)
					}
				}
			}
			rows, _, err := readSources(t, Options{SkipBad: true}, 0, 0, path)
			if c.bad == "" {
				if err == nil || len(rows) != c.rows {
					t.Errorf("%q, %v", rows, err)
				}
				return
			}
			if err != nil || len(rows) != c.rows+1 {
				t.Fatalf("%q, %v", rows, err)
			}
			for i, row := range rows {
				said := strings.Contains(row, " bad: ")
				if said && (i != bad.Index || !strings.Contains(row, c.bad) || !strings.Contains(row, c.name)) {
					t.Errorf("row %d, want %d: %q", i, bad.Index, row)
				}
				if !said && !strings.HasSuffix(row, " a") || !strings.HasPrefix(row, fmt.Sprint(i, " ")) {
					t.Errorf("row %d: %q", i, row)
				}
			}
		})
	}
}

// TestBadRowIsFinal continues after a bad row although it was not to be skipped.
func TestBadRowIsFinal(t *testing.T) {
	for _, rest := range []string{"{\n", `{"messages":[]}` + "\n"} {
		talk := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}` + "\n"
		s, err := Open(t.Context(), expect.File(t, "a.jsonl", talk+rest+talk), Options{})
		expect.OK(t, err)
		defer s.Close()
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		_, first := s.Next()
		_, second := s.Next()
		if first == nil || first != second {
			t.Errorf("%v, then %v", first, second)
		}
	}
}

// TestExchanges_AsGenReads reads conversations as gen does.
func TestExchanges_AsGenReads(t *testing.T) {
	say := func(key, what string, turns ...string) string {
		var messages []string
		for i := 0; i < len(turns); i += 2 {
			messages = append(messages, fmt.Sprintf(`{%q:%q,%q:%q}`, key, turns[i], what, turns[i+1]))
		}
		return "[" + strings.Join(messages, ",") + "]"
	}
	messages := func(turns ...string) string { return `{"messages":` + say("role", "content", turns...) + "}" }
	share := func(turns ...string) string { return `{"conversations":` + say("from", "value", turns...) + "}" }
	for _, c := range []struct{ content, question, answer, err string }{
		{messages("user", "q", "assistant", "a"), "q", "a", ""},
		{messages("system", "s", "user", "q", "assistant", "a"), "q", "a", ""},
		{messages("user", "q", "assistant", "a", "user", "q2", "assistant", "a2"), "q", "a", ""},
		{share("human", "q", "gpt", "a"), "q", "a", ""},
		{share("gpt", "hello", "human", "q", "gpt", "a", "human", "q2"), "q", "a", ""},
		{`{"conversations":` + say("from", "value", "human", "q", "gpt", "a") + `,"text":"t","id":5}`, "q", "a", ""},
		{`{"prompt":"p","messages":` + say("role", "content", "user", "q", "assistant", "a") + `}`, "q", "a", ""},
		{`{"instruction":"i","output":"o","messages":7}`, "i", "o", ""},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":"a"}]}`, "q", "a",
			""},
		{messages("user", "q"), "", "", "ends with its first question"},
		{messages("assistant", "a"), "", "", "no question"},
		{messages("user", "q", "user", "q2", "assistant", "a"), "", "", `role "user"`},
		{messages("user", "q", "tool", "t", "assistant", "a"), "", "", `role "tool"`},
		{messages("user", "q", "robot", "a"), "", "", "robot"},
		{`{"messages":"hello"}`, "", "", "expected an array"},
		{`{"messages":null}`, "", "", "expected an array"},
		{`{"messages":[]}`, "", "", "no messages"},
	} {
		rows, s, err := all(expect.File(t, "a.jsonl", c.content), Options{})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "a.jsonl: row 0: ") {
				t.Errorf("%s: %v", c.content, err)
			}
			continue
		}
		if err != nil || len(rows) != 1 || rows[0] != (Row{Instruction: c.question, Output: c.answer}) {
			t.Errorf("%s: %v, %v", c.content, rows, err)
		}
		if says := s.Describe(); (c.question == "q") != strings.HasPrefix(says, "chat messages (") {
			t.Errorf("%s: described as %q", c.content, says)
		}
	}
	for _, name := range []string{"messages", "conversations", "messages_text"} {
		talks, _, err := conversations("testdata/"+name+".parquet", Options{})
		expect.OK(t, err)
		rows, _, err := all("testdata/"+name+".parquet", Options{SkipBad: true})
		if len(rows) == 0 || !strings.Contains(talks[0], "user: "+rows[0].Instruction+" | assistant: "+rows[0].Output) {
			t.Errorf("%s: %v, %v; the conversations are %q", name, rows, err, talks)
		}
	}
}
