package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

func packed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, w.Close())
	return b.String()
}

// readNamed reads a file of this name as train does, and returns its rows and the error that ends them.
func readNamed(t testing.TB, name, content string) (rows string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, []byte(content), 0o644))
	c, err := OpenConversations(t.Context(), path, Options{})
	if err != nil {
		return "", err
	}
	defer c.Close()
	for {
		row, err := c.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		for _, m := range row.Messages {
			rows += m.Content + "|"
		}
	}
}

func TestCSVAndGzip(t *testing.T) {
	const lines = `{"instruction":"a","output":"b"}` + "\n" + `{"instruction":"c","output":"d"}`
	big := strings.Repeat(lines+"\n", 5000)
	long := strings.Repeat("b", 1<<20)
	for _, c := range []struct{ name, content, rows, says string }{
		{"a.csv", "instruction,output\na,b\nc,d\n", "a|b|c|d|", ""},
		{"a.CSV", "instruction,output\na,b", "a|b|", ""},
		{"a.csv", "\ufefforder,output,instruction\r\n1,\"b\n\"\"x\"\"\",\" a,a\"\r\n", "a,a|b\n\"x\"|", ""},
		{"a.tsv", "question\tanswer\na, or\tb\n", "a, or|b|", ""},
		{"a.csv", "messages\n\"[{\"\"role\"\":\"\"user\"\",\"\"content\"\":\"\"a\"\"}]\"\n", "a|", ""},
		{"a.csv", "instruction,output\n" + strings.Repeat("a,"+long+"\n", 18), strings.Repeat("a|"+long+"|", 18), ""},
		{"a.csv", "instruction,output\n" + strings.Repeat("a,b\n", maxItems+1), strings.Repeat("a|b|", maxItems+1), ""},
		{"a.csv", "instruction,output\na,\"" + strings.Repeat(",", maxItems+1) + "\"",
			"a|" + strings.Repeat(",", maxItems+1) + "|", ""},
		{"a.csv", "instruction,output,,\na,b,,\n", "a|b|", ""},
		{"a.csv", "\ufeffsep=;\r\ninstruction;output\r\n\"a;\";b,\r\n", "a;|b,|", ""},
		{"a.csv", "SEP=,\ninstruction,output\na,b\n", "a|b|", ""},
		{"a.csv", "sep=,output\na,b\n", "", "no known pair"},
		{"a.csv", "sep=;\ninstruction;output\na;b\nc;d;e\n", "a|b|", "line 4 has a wrong number of values, 3, and line 2"},
		{"a.csv.gz", packed(t, "instruction,output\na,b\n"), "a|b|", ""},
		{"a.jsonl.gz", packed(t, big), strings.Repeat("a|b|c|d|", 5000), ""},
		{"a.gz", packed(t, "["+strings.ReplaceAll(lines, "\n", ",")+"]"), "a|b|c|d|", ""},
		{"any", packed(t, lines), "a|b|c|d|", ""},
		// These are errors.
		{"a.csv", "instruction,output\na\n", "", "line 2 has a wrong number of values, 1, and line 1 names 2 columns"},
		{"a.csv", "instruction,output\na,b\n\"c\n\",d,e\n", "a|b|", "line 3 has a wrong number of values, 3"},
		{"a.csv", "instruction,output\na,b\n\"c,d\n", "a|b|", "line 3"},
		{"a.tsv", "question\tanswer\na\tb \"c\"\n", "", "line 2: bare \" in non-quoted-field: a value with a quote must be"},
		{"a.csv", "instruction,output\na,b\nc,\"d\"e\n", "a|b|", "line 3"},
		{"a.csv", "instruction,output\na,b\nc,\"d\ne,f\n", "a|b|", "in the values from line 3 on: a value with a quote"},
		{"a.csv", "instruction,output,id\ra,b,c\r", "", "its lines end with carriage returns alone"},
		{"a.csv", "instruction,output\na,b\nc,\xff\n", "a|b|", "line 3: not valid UTF-8"},
		{"a.csv", "instruction,\xff\na,b\n", "", "line 1: not valid UTF-8"},
		{"a.csv", "instruction,output,output\na,b,c\n", "", `two columns are named "output"`},
		{"a.csv", "a,b\nc,d\n", "", "no known pair"},
		{"a.csv", "instruction;output\na;b\n", "", `one column, "instruction;output": commas must separate`},
		{"a.csv", "instruction\toutput\na\tb\n", "", `and tabs those of a .tsv file`},
		{"a.csv", "instruction|output\na|b\n", "", `one column, "instruction|output": commas must`},
		{"a.tsv", "instruction,output\na,b\n", "", `one column, "instruction,output": commas must`},
		{"a.csv", "instruction,output\n", "", "no rows"},
		{"a.csv", "instruction,output\na,\"" + strings.Repeat("b", 17<<20), "", "longer than 16 MiB"},
		{"a.csv", "\xff\xfei\x00", "", "UTF-16"},
		{"a.csv", "\xff\xfe\x00\x00i\x00\x00\x00", "", "UTF-32"},
		{"a.txt", "instruction,output\na,b\n", "", "must be named .csv"},
		{"a.jsonl.gz", packed(t, big)[:200], "", "unexpected EOF: the file is damaged or cut short"},
		{"a.jsonl.gz", packed(t, lines)[:2], "", "unexpected EOF: the file is damaged or cut short"},
		{"a.jsonl.gz", packed(t, lines)[:12], "", "unexpected EOF: the file is damaged or cut short"},
		{"a.jsonl.gz", packed(t, lines)[:40] + "\x00\x00" + packed(t, lines)[42:], "", "corrupt input"},
		{"a.jsonl.gz", packed(t, lines)[:len(packed(t, lines))-5] + "\x00\x00\x00\x00\x00", "", "invalid checksum"},
		{"a.gz", packed(t, "PAR1"), "", "a parquet file in a gzip file"},
		{"a.gz", packed(t, ""), "", "white space"},
		{"a.gz", packed(t, "PK\x03\x04"), "", "zip archive"},
	} {
		rows, err := readNamed(t, c.name, c.content)
		switch {
		case c.says == "" && (err != nil || rows != c.rows):
			t.Errorf("%s %.40q: %.100q, %v, want %.100q", c.name, c.content, rows, err, c.rows)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s %.40q: %.100q, %v, want the error %q", c.name, c.content, rows, err, c.says)
		case c.says != "" && c.rows != "" && rows != c.rows:
			t.Errorf("%s %.40q: %.100q before the error, want %q", c.name, c.content, rows, c.rows)
		}
	}
}

// TestCSV_OtherColumns has values besides the columns in some of its rows.
func TestCSV_OtherColumns(t *testing.T) {
	c, err := OpenConversations(t.Context(), expect.File(t, "a.csv",
		"instruction,train,output,reasoning\na,0,b,\nc,,d,t\ne,,f,\ng,1,h,\"a \"\"b\"\"\"\n"), Options{})
	expect.OK(t, err)
	defer c.Close()
	for i, want := range []string{"user: a {context} | assistant: b {context}", "user: c | assistant: d {~t}",
		"user: e | assistant: f", `user: g | assistant: h {~a "b"}`} {
		if row, err := c.Next(); err != nil || wordings(row.Messages) != want {
			t.Errorf("row %d: %q, %v, want %q", i, wordings(row.Messages), err, want)
		}
	}
	if got := strings.Join(c.Used(), " "); got != "train reasoning" {
		t.Errorf("used: %s", got)
	}
}

// FuzzCSV writes two rows as CSV and reads them again.
func FuzzCSV(f *testing.F) {
	f.Add("a", "b\n", " c,", "\"", false)
	f.Add("\t", "é", "#", "\u2028", true)
	f.Fuzz(func(t *testing.T, a, b, c, d string, tabs bool) {
		var err error
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		name := "a.csv"
		if tabs {
			w.Comma, name = '\t', "a.tsv"
		}
		if w.WriteAll([][]string{{"instruction", "output"}, {"x" + a, b}, {"x" + c, d}}) != nil {
			return
		}
		fields := strings.Join([]string{a, b, c, d}, "|")                    // two halves of a character do not become one
		clean := utf8.ValidString(fields) && !strings.Contains(fields, "\r") // CSV changes \r\n
		var rows string
		hostile.Within(t, hostile.Linear(text.Len()), func() { rows, err = readNamed(t, name, text.String()) })
		want := Question("x"+a, "") + "|" + b + "|" + Question("x"+c, "") + "|" + d + "|"
		if clean && (err != nil || rows != want) {
			t.Errorf("%q is read as %q, %v, want %q", text.String(), rows, err, want)
		}
	})
}
