package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/internal/measure"
)

var columns = []Column{
	{Name: "op", Type: Text, Role: Key}, {Name: "rows", Type: Integer, Role: Key},
	{Name: "ms", Type: Number, Role: Time, Unit: "ms", About: "the median"},
	{Name: "noise", Type: Number, Role: Noise, Unit: "%", About: "how far it may be off"},
	{Name: "speedup", Type: Number, Unit: "×", About: "times as fast"}, {Name: "speedup_noise", Type: Number, Unit: "%"},
	{Name: "memory", Type: Number, Unit: "MiB", About: "memory"},
	{Name: "raw", Type: Number},
	{Name: "why", Type: Text, Role: Why, About: "why it is missing"},
}

func table(rows ...Row) *Table {
	return &Table{Name: "kernels", Title: "Kernels", Command: "bench kernels", Settings: "100",
		Columns: slices.Clone(columns), Rows: rows}
}

func row(op string, ms, noise float64) Row {
	r := Row{"op": op, "rows": 2.0}
	r.Set("ms", ms)
	r.Set("noise", noise)
	return r
}

// TestOpen_KeepsSameMachineAndSettings checks that a book keeps what was measured for the same machine and settings,
// and only that.
func TestOpen_KeepsSameMachineAndSettings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	m := Machine{Device: "cpu", Version: "1"}
	b, kept, err := Open(dir, m)
	if err != nil || kept != "" {
		t.Fatal(kept, err)
	}
	tab, kept, err := b.Begin(*table())
	if kept != "" || err != nil {
		t.Error(kept, err)
	}
	for _, op := range []string{"add", "mul"} {
		expect.OK(t, b.Add(tab, row(op, 1, 0.1)))
	}
	if err := b.Add(tab, Row{"op": "add", "rows": 2.0, "why": "no room"}); err != nil || len(tab.Rows) != 2 ||
		tab.Done(tab.Rows[0]) || !tab.Done(tab.Rows[1]) {
		t.Errorf("%v, %v", err, tab.Rows)
	}
	expect.Error(t, b.Add(tab, Row{"op": "add", "rows": "2"}), "must be of type integer")
	tab.Rows = tab.Rows[:2]
	b, kept, err = Open(dir, m)
	if err != nil || kept != "" {
		t.Fatal(kept, err)
	}
	tab, kept, err = b.Begin(*table())
	if kept != "" || err != nil || len(tab.Rows) != 2 || !tab.Done(Row{"op": "mul", "rows": 2.0}) ||
		tab.Done(Row{"op": "mul", "rows": 3.0}) {
		t.Errorf("%q, %v, %+v", kept, err, tab)
	}
	more := *table()
	more.Command = "bench kernels --op add"
	for range 2 {
		if tab, _, _ = b.Begin(more); tab.Command != "bench kernels\nbench kernels --op add" {
			t.Errorf("%q", tab.Command)
		}
	}
	other := *table()
	other.Settings = "200"
	if tab, kept, err = b.Begin(other); err != nil || filepath.Base(kept) != "results.json.bak" || len(tab.Rows) != 0 ||
		tab.Settings != "200" || len(b.Tables) != 1 || tab.Command != other.Command {
		t.Errorf("%q, %v, %+v", kept, err, tab)
	}
	expect.OK(t, b.Add(tab, row("add", 1, 0.1)))
	if old, err := Load(kept); err != nil || len(old.Table("kernels").Rows) != 2 {
		t.Errorf("%+v, %v", old, err)
	}
	m.Version = "2"
	b, kept, err = Open(dir, m)
	if err != nil || filepath.Base(kept) != "results.json.bak.2" || len(b.Tables) != 0 {
		t.Errorf("%q, %v, %+v", kept, err, b)
	}
	if old, err := Load(kept); err != nil || len(old.Table("kernels").Rows) != 1 {
		t.Errorf("%+v, %v", old, err)
	}
	if b, _, err = Open("", m); err != nil || b.Add(table(), row("add", 1, 1)) != nil || b.Save() != nil {
		t.Error(err)
	}
	os.WriteFile(filepath.Join(dir, "results.json"), []byte("{"), 0o644)
	_, _, err = Open(dir, m)
	expect.Error(t, err, "results.json: not the results of a measurement", ": move it away, or name another directory")
}

// TestOpenUnwritable checks that a directory that cannot be written is an error at once.
func TestOpenUnwritable(t *testing.T) {
	dir := t.TempDir()
	defer disk.Watch(func(op string, _ ...string) error {
		if op == "create" {
			return fs.ErrPermission
		}
		return nil
	})()
	_, _, err := Open(dir, Machine{})
	expect.Error(t, err, dir, "permission denied")
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		spoil func(f *File)
		want  string
	}{
		{func(f *File) {}, ""},
		{func(f *File) { f.Format = 2 }, "format 2: must be 1"},
		{func(f *File) { f.Tables[0].Name = "az-09" }, ""},
		{func(f *File) { f.Tables[0].Name = "../x" }, "unsafe"},
		{func(f *File) { f.Tables[0].Name = "a:" }, "unsafe"},
		{func(f *File) { f.Tables[0].Name = "a`" }, "unsafe"},
		{func(f *File) { f.Tables[0].Name = "a{" }, "unsafe"},
		{func(f *File) { f.Tables[0].Name = "" }, "has no name"},
		{func(f *File) { f.Tables[0].Columns[1].Name = "" }, `column "": is empty`},
		{func(f *File) { f.Tables = append(f.Tables, f.Tables[0]) }, "the name of another table"},
		{func(f *File) { f.Tables = append(f.Tables, nil) }, "has no name"},
		{func(f *File) { f.Tables[0].Columns[1].Name = "op" }, `column "op": is empty or occurs twice`},
		{func(f *File) { f.Tables[0].Columns[1].Type = "date" }, `type "date": must be text`},
		{func(f *File) { f.Tables[0].Rows[0]["ms"] = "1" }, `cell "ms": 1: must be of type number`},
		{func(f *File) { f.Tables[0].Rows[0]["op"] = 1.0 }, `cell "op": 1: must be of type text`},
		{func(f *File) { f.Tables[0].Rows[0]["ms"] = true }, "must be of type number"},
		{func(f *File) { f.Tables[0].Rows[0]["rows"] = 1.5 }, `cell "rows": 1.5: must be of type integer`},
		{func(f *File) { f.Tables[0].Rows[0]["new"] = 1.0 }, `cell "new" has no column`},
		{func(f *File) { f.Tables[0].Rows = append(f.Tables[0].Rows, f.Tables[0].Rows[0]) }, `two rows "add 2"`},
	} {
		tab := table(row("add", 1, 0.1))
		f := &File{Format: Format, Tables: []*Table{tab}}
		c.spoil(f)
		data, err := json.Marshal(f)
		expect.OK(t, err)
		if got, err := Parse(data); c.want != "" {
			expect.Error(t, err, c.want)
		} else if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := Parse([]byte("[]")); err == nil {
		t.Error("a list is no file")
	}
}

func TestCompare(t *testing.T) {
	a := &File{Tables: []*Table{table(row("add", 1.43, 0.01), row("mul", 1, 0.02), row("top", 2, 0.03), row("old", 1, 0),
		row("gone", 1, 0), row("never", math.NaN(), 0), row("alone", 1, math.NaN()), row("loud", 1, 0.4))}}
	b := &File{Tables: []*Table{table(row("add", 1, 0.01), row("mul", 1.06, 0.01), row("top", 2.2, 0.2), row("new", 1, 0),
		row("gone", math.NaN(), 0), row("alone", 1.2, 0.1), row("loud", 9, 0.1))}}
	c := Compare(a, b)
	var out strings.Builder
	expect.OK(t, c.Print(&out))
	got := strings.Join(strings.Fields(out.String()), " ")
	want := "kernels add 2 1.43 times as fast, ±1% mul 2 0.943 times as fast, ±2% top 2 the same within ±20% " +
		"alone 2 0.833 times as fast, noise unknown loud 2 too noisy to compare, ±41% " +
		"only in the first: kernels: old 2 only in the first: kernels: gone 2 only in the second: kernels: new 2"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// A table that only one of them has.
	other := *b.Tables[0]
	other.Name = "layer"
	b.Tables = append(b.Tables, &other)
	lost, added := Compare(b, &File{}), Compare(&File{}, b)
	if times := 2 * 6; len(lost.Lost) != times || len(lost.New) > 0 || len(added.New) != times || len(added.Lost) > 0 {
		t.Errorf("against nothing: %+v, %+v", lost, added)
	}
	for most, want := range map[float64]string{0.05: "mul 2, alone 2", 0.07: "alone 2", 0.3: "", 0: "mul 2, alone 2"} {
		var failed []string
		for _, x := range c.Failed(most) {
			failed = append(failed, x.ID)
		}
		if got := strings.Join(failed, ", "); got != want {
			t.Errorf("%v: %s, want %s", most, got, want)
		}
	}
}

func TestPages(t *testing.T) {
	dir := t.TempDir()
	b, _, err := Open(dir, Machine{Device: "H200", CPU: "EPYC", OS: "linux", Version: "1", Memory: 8 << 30,
		Note: "busy <b>"})
	expect.OK(t, err)
	tab, _, err := b.Begin(*table())
	expect.OK(t, err)
	add := row("a|<dd>", 1234.5678, 0.0123)
	add["raw"] = 1.0 / 3
	loud := row("loud", 765, 0.4)
	loud["speedup"], loud["memory"] = 3.21, 8.0
	faster := row("fast", 55, 0.3)
	faster["speedup"], faster["speedup_noise"], faster["memory"] = 4.56, 0.35, 9.0
	for _, r := range []Row{add, loud, faster, {"op": "int8", "rows": 2.0, "why": "not yet"}} {
		expect.OK(t, b.Add(tab, r))
	}
	section := Section{Headline: "twice as <fast>", Words: []string{"It is <fast>."},
		Pictures: []Picture{{"bars", "speed \"up\"", []byte("<svg/>")}}}
	expect.OK(t, b.Pages("Title & more", func(q *Table) Section {
		loud, fast := q.Rows[1], q.Rows[2]
		if loud["ms"] != nil || loud["speedup"] != nil || loud["memory"] != 8.0 || fast["speedup"] != nil {
			t.Errorf("a section sees %v", q.Rows)
		}
		return section
	}))
	for name, want := range map[string][]string{
		"README.md": {"# Title & more", "Device: H200 with 8 GiB", "| op | rows | ms, ms | noise, % | memory, MiB |\n" +
			"|---|---:|---:|---:|---:|\n",
			`| a\|&lt;dd> | 2 | 1235 | 1.2 |`, "| fast | 2 | 55 | 30 | 9 |", "Not measured: 1 row<", "- int8 2: not yet",
			"| loud | 2 | too noisy | 40 | 8 |",
			"more\n\n- [Kernels](#kernels): twice as &lt;fast>\n", "](bars.svg)", "It is &lt;fast>.",
			"`kernels.csv`", "What the columns are</summary>\n\n- ms, ms: the median\n- noise, %: how far it may be off\n" +
				"- speedup, ×: times as fast\n- memory, MiB: memory\n\n</details>"},
		"kernels.csv": {"op,rows,ms,noise,speedup,speedup_noise,memory,raw,why\n",
			"a|<dd>,2,1234.5678,0.0123,,,,0.3333333333333333,\n", "loud,2,765,0.4,3.21,,8,,\n", "int8,2,,,,,,,not yet\n"},
		"bars.svg": {"<svg/>"},
	} {
		text := expect.Read(t, filepath.Join(dir, name))
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %q:\n%s", name, w, text)
			}
		}
		if strings.Contains(text, "<dd>") && name != "kernels.csv" || strings.Contains(text, "%!") ||
			strings.Contains(text, "765") && name != "kernels.csv" {
			t.Errorf("%s: %s", name, text)
		}
	}
	if n := expect.Paths(t, dir, []string{"README.md"}); n < 1 {
		t.Errorf("%d links hold", n)
	}
}

func TestMachine_Lines(t *testing.T) {
	m := Machine{Device: "cpu", CPU: "EPYC", OS: "linux/amd64", Level: "avx2", Threads: 3, Memory: 8 << 30, Version: "v1",
		Note: "busy"}
	want := []string{"Device: cpu with 8 GiB, avx2, 3 threads", "Processor: EPYC, linux/amd64", "Version: v1", "busy"}
	if got := m.lines(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	m.Level, m.Memory, m.Note = "", 0, ""
	if got := m.lines(); len(got) != 3 || got[0] != "Device: cpu" {
		t.Errorf("%q", got)
	}
}

// TestPagesAreInert writes the pages of a results.json in which every text is an attack: on terminals, on viewers of
// HTML and Markdown, or on spreadsheets.
func TestPagesAreInert(t *testing.T) {
	attacks := maps.Clone(hostile.Texts)
	for _, text := range []string{"<script>alert(1)</script>", "<img src=x onerror=y>", "[x](javascript:1)",
		"![x](//evil/p)",
		"![x]", "[x]: //evil/p", "[x][y]", `[x\](javascript:1)`, "```\n<script>", "=1+1", "\t@x", "a\n\n<b>", "a\n# b"} {
		attacks[text] = text
	}
	for name, text := range attacks {
		dir := t.TempDir()
		tab := table()
		tab.Title, tab.Command = text, text
		for i := range tab.Columns {
			if tab.Columns[i].About != "" {
				tab.Columns[i].About, tab.Columns[i].Unit = text, text
			}
		}
		tab.Columns = append(tab.Columns, Column{Name: text, Type: Text, About: text})
		measured, missing := row(text, 1, 0.01), Row{"op": text, "rows": 3.0, "why": text}
		measured[text] = text
		tab.Rows = []Row{measured, missing}
		machine := Machine{text, text, text, 2, 1 << 30, text, text, text}
		b := Book{File{Format: Format, Machine: machine, Tables: []*Table{tab}}, dir}
		expect.OK(t, b.Pages(text, func(q *Table) Section {
			return Section{Headline: q.Title, Words: []string{q.Title}, Pictures: []Picture{{"bars", q.Title, []byte("<svg/>")}}}
		}))
		if tab.Title != text || tab.Command != text || tab.Columns[2].About != text || tab.Rows[0]["op"] != text ||
			b.Machine.Note != text {
			t.Errorf("%s: the book itself was changed", name)
		}
		var all []string
		for _, file := range []string{"README.md", "kernels.csv"} {
			all = append(all, expect.Read(t, filepath.Join(dir, file)))
			if found := hostile.Found(all[len(all)-1], false); found != "" {
				t.Errorf("%s: %s: %s", name, file, found)
			}
		}
		// Outside of the fence with the command, which shows everything as it is.
		fence := regexp.MustCompile("(?s)\n(`{3,})\n.*\n(`{3,})\n")
		md := fence.ReplaceAllString(all[0], "")
		for _, tag := range []string{"<script", "<img", "<b>", "](javascript", "](//", "]: //", "[x][", "\n# b"} {
			if strings.Contains(md, tag) {
				t.Errorf("%s: %s in %s", name, tag, md)
			}
		}
		if runs := fence.FindStringSubmatch(all[0]); runs == nil || runs[1] != runs[2] ||
			strings.Contains(cli.Clean(text), runs[1]) {
			t.Errorf("%s: the command's fence is %q", name, runs)
		}
		rows, err := csv.NewReader(strings.NewReader(all[1])).ReadAll()
		expect.OK(t, err)
		for _, cell := range slices.Concat(rows...) {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r") {
				t.Errorf("%s: a spreadsheet runs %q", name, cell)
			}
		}
	}
}

// TestQuiet checks that Quiet leaves out what follows from a time that is too noisy to mean anything, and each ratio
// that is.
func TestQuiet(t *testing.T) {
	for _, c := range []struct {
		column Column
		timed  bool
	}{
		{Column{Unit: "s"}, true}, {Column{Unit: "ms"}, true}, {Column{Unit: "×"}, true}, {Column{Unit: "GB/s"}, true},
		{Column{Unit: "TFLOP/s"}, true}, {Column{Unit: "tokens/s"}, true}, {Column{Unit: "targets/s"}, true},
		{Column{Role: Time}, true}, {Column{Name: "of_copy", Unit: "%"}, true}, {Column{Name: "copy", Unit: "%"}, false},
		{Column{Unit: "MiB"}, false}, {Column{Role: Noise, Unit: "%"}, false}, {Column{}, false},
	} {
		if c.column.timed() != c.timed {
			t.Errorf("%+v: %v", c.column, !c.timed)
		}
	}
	for noise, want := range map[float64]int{measure.MaxNoise: 7, measure.MaxNoise + 0.001: 5} {
		r := row("add", 1, noise)
		r["speedup"], r["memory"] = 2.0, 3.0
		r["speedup_noise"] = 0.01
		if q := table(r).Quiet().Rows[0]; len(q) != want || q["memory"] != 3.0 {
			t.Errorf("noise %v: %v", noise, q)
		}
		r["noise"], r["speedup_noise"] = 0.01, noise
		if q := table(r).Quiet().Rows[0]; (q["speedup"] != nil) != (noise == measure.MaxNoise) || q["ms"] == nil {
			t.Errorf("noise %v of the speedup: %v", noise, q)
		}
	}
	for share, want := range map[float64]string{0.0949: "9.5", 0.095: "10", -0.05: "-5.0", -0.2: "-20", 0: "0.0"} {
		if got := (Column{Name: "x", Unit: "%"}).cell(Row{"x": share}); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

// TestPagesFold checks that long tables are folded, and that README.md leaves the longest to the other files.
func TestPagesFold(t *testing.T) {
	dir := t.TempDir()
	b, _, err := Open(dir, Machine{Device: "cpu"})
	expect.OK(t, err)
	tab, _, err := b.Begin(*table())
	expect.OK(t, err)
	for _, rows := range []int{foldRows, foldRows + 1, mostRows, mostRows + 1} {
		for len(tab.Rows) < rows {
			tab.Rows = append(tab.Rows, row(fmt.Sprintf("op %d", len(tab.Rows)), 1, 0.1))
		}
		expect.OK(t, b.Pages("Title", func(*Table) Section { return Section{} }))
		fold := fmt.Sprintf("<summary>%d rows</summary>", rows)
		md := expect.Read(t, filepath.Join(dir, "README.md"))
		if strings.Contains(md, "| op 7 |") != (rows <= mostRows) ||
			strings.Contains(md, fold) != (rows > foldRows && rows <= mostRows) {
			t.Errorf("%d rows: README.md does not have them as it should:\n%s", rows, md)
		}
		if left := fmt.Sprintf("\nIts %d rows are in `kernels.csv`, ", rows); strings.Contains(md,
			left) != (rows > mostRows) {
			t.Errorf("%d rows: README.md does not say where they are", rows)
		}
		if csv := expect.Read(t, filepath.Join(dir, "kernels.csv")); strings.Count(csv, "\nop ") != rows {
			t.Errorf("%d rows: kernels.csv has %d", rows, strings.Count(csv, "\nop "))
		}
	}
}

func FuzzParse(f *testing.F) {
	data, _ := json.Marshal(&File{Format: Format, Tables: []*Table{table(row("add", 1, 0.1))}})
	f.Add(data)
	f.Add([]byte(`{"format":1,"tables":[{"name":"a","columns":[{"name":"x","type":"text","role":"time"}],` +
		`"rows":[{"x":"1"},null]}]}`))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := hostile.Parse(t, data, Parse)
		if err != nil {
			return
		}
		var out bytes.Buffer
		c := Compare(file, file)
		if c.Print(&out) != nil || len(c.Lost) > 0 || len(c.New) > 0 || len(c.Failed(0)) > 0 {
			t.Errorf("a file differs from itself: %+v", c)
		}
		for _, tab := range file.Tables {
			tab.CSV()
			tab.Markdown()
		}
	})
}
