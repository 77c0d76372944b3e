package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// slice writes rows from to to of a source as a file of its own.
func slice(t testing.TB, rows []map[string]any, name string, from, to int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeRows(t, path, rows[from:to])
	return path
}

// TestSeveralSources makes the rows of two files as if they were one, and certifies each row of its own file.
func TestSeveralSources(t *testing.T) {
	rows := rowsOf(t, tasks(t, 60))
	a, b, both := slice(t, rows, "a.json", 0, 25), slice(t, rows, "b.json", 25, 60), slice(t, rows, "both.json", 0, 60)
	s := newServer(t, nil)
	run := func(sources ...string) folder {
		t.Helper()
		f := newFolder(t)
		args := []string{"--rows", "40", "--out", f.out, "--base-url", s.base(), "--model", "fake"}
		for _, source := range sources {
			args = append(args, "--source", source)
		}
		o := must(t, cli.Done, args...)
		if len(sources) > 1 && (!strings.Contains(o.stderr, "first: row 5 of a.json: ") ||
			!strings.Contains(o.stderr, "source      a.json") || !strings.Contains(o.stderr, "source      b.json") ||
			!strings.Contains(o.stderr, ", 35 rows), ")) {
			t.Error(o)
		}
		return f
	}
	two, one := run(a, b), run(both)
	if expect.Read(t, two.out) != expect.Read(t, one.out) {
		t.Error("two files give other rows than the same rows in one")
	}
	certs := func(f folder) []dataset.Certificate {
		certs, err := dataset.ReadCertificates(dataset.CertificatePath(f.out))
		expect.OK(t, err)
		return certs
	}
	place := func(name string, row int) (string, int) {
		if row < 25 {
			return "a.json", row
		}
		return "b.json", row - 25
	}
	revisions := map[string]bool{}
	names := map[string]bool{}
	whole := certs(one)
	for i, c := range certs(two) {
		name, row := place(whole[i].SourceName, whole[i].SourceRow)
		if c.SourceName != name || c.SourceRow != row {
			t.Errorf("row %d is certified as row %d of %s, want row %d of %s", i, c.SourceRow, c.SourceName, row, name)
		}
		revisions[c.SourceRevision], names[name] = true, true
	}
	if len(names) != 2 || len(revisions) != 2 {
		t.Errorf("%d revisions of %d sources", len(revisions), len(names))
	}
	all := one.rejects(t)
	for i, r := range two.rejects(t) {
		name, row := place(all[i].SourceName, all[i].SourceRow)
		if r.SourceName != name || r.SourceRow != row || r.Reason != all[i].Reason || r.Output != all[i].Output {
			t.Errorf("rejected %+v, want row %d of %s", r, row, name)
		}
	}
	must(t, cli.Usage, "--source", a, "--source", filepath.Dir(a)+"/./a.json", "--out", two.out)
	must(t, cli.Usage, "--source", a, "--source", b, "--out", b)
	o := must(t, cli.Failed, "--source", a, "--source", filepath.Join(t.TempDir(), "c.json"), "--out", newFolder(t).out)
	if !strings.Contains(o.stderr, "c.json") {
		t.Error(o)
	}
}

// TestOtherSources changes the list of sources, and how it is read, in an unfinished run.
func TestOtherSources(t *testing.T) {
	rows := rowsOf(t, tasks(t, 60))
	a, b, c := slice(t, rows, "a.json", 0, 20), slice(t, rows, "b.json", 20, 40), slice(t, rows, "c.json", 40, 60)
	s := newServer(t, func(c call) bool {
		if calls, _ := c.s.counts(); calls < 10 {
			return false
		}
		status(401, "no more")(c)
		return true
	})
	f := newFolder(t)
	run := func(code int, more ...string) outcome {
		t.Helper()
		return must(t, code, append([]string{"--rows", "40", "--out", f.out, "--base-url", s.base(), "--model", "fake"},
			more...)...)
	}
	run(cli.Failed, "--source", a, "--source", b)
	for _, other := range []struct {
		says string
		args []string
	}{
		{`source: it has "a.json; b.json", this run "a.json"`, []string{"--source", a}},
		{`source: it has "a.json; b.json", this run "b.json; a.json"`, []string{"--source", b, "--source", a}},
		{`this run "a.json; b.json; c.json"`, []string{"--source", a, "--source", b, "--source", c}},
		{`sample: it has "0", this run "30"`, []string{"--source", a, "--source", b, "--sample", "30"}},
	} {
		o := run(cli.Failed, other.args...)
		if !strings.Contains(o.stderr, other.says) || !strings.Contains(o.stderr, "--restart") {
			t.Errorf("want %q: %v", other.says, o)
		}
	}
	s.set(func() { s.fault = nil })
	o := run(cli.Done, "--source", a, "--source", b)
	if lastLine(t, o)["replays"].(float64) == 0 {
		t.Errorf("nothing was resumed: %v", o)
	}
}

// TestSample_OfTwoFiles draws rows of two files.
func TestSample_OfTwoFiles(t *testing.T) {
	rows := rowsOf(t, fitTasks(t, 90))
	a, b := slice(t, rows, "a.json", 0, 40), slice(t, rows, "b.json", 40, 90)
	s := newServer(t, nil)
	s.good = true
	made := func(more ...string) (instructions []string, o outcome) {
		t.Helper()
		f := newFolder(t)
		o = must(t, cli.Done, append([]string{"--source", a, "--source", b, "--out", f.out, "--base-url", s.base(), "--model",
			"fake"}, more...)...)
		got, err := dataset.ReadRewritten(t.Context(), f.out)
		expect.OK(t, err)
		for _, row := range got {
			instructions = append(instructions, row.Instruction)
		}
		return instructions, o
	}
	drawn, o := made("--sample", "30", "--seed", "5")
	if n := lastLine(t, o)["source_rows"].(float64); n != 30 || len(drawn) != 30 ||
		!strings.Contains(o.stderr, "of 30 rows drawn") {
		t.Errorf("%v rows read, %d made: %v", n, len(drawn), o)
	}
	at := -1
	for _, instruction := range drawn {
		next := slices.IndexFunc(rows, func(row map[string]any) bool { return row["instruction"] == instruction })
		if next <= at {
			t.Errorf("row %d after row %d", next, at)
		}
		at = next
	}
	if at < 40 || slices.IndexFunc(rows, func(row map[string]any) bool { return row["instruction"] == drawn[29] }) == 29 {
		t.Errorf("the last is row %d", at)
	}
	if again, _ := made("--sample", "30", "--seed", "5", "--concurrency", "1"); !slices.Equal(again, drawn) {
		t.Error("one request at a time draws other rows")
	}
	if first, _ := made("--sample", "30", "--seed", "5", "--rows", "10"); !slices.Equal(first, drawn[:10]) {
		t.Errorf("--rows 10 makes other rows than the first 10 of the sample: %q", first)
	}
	if other, _ := made("--sample", "30", "--seed", "6"); slices.Equal(other, drawn) {
		t.Error("another seed draws the same rows")
	}
	if whole, o := made("--sample", "1000"); len(whole) != 90 || !strings.Contains(o.stderr, "there are only 90 rows") {
		t.Errorf("%d rows: %v", len(whole), o)
	}
	must(t, cli.Usage, "--source", a, "--sample", "-1", "--out", newFolder(t).out)
}

// TestRejectedRows compares the rejects with the counts and the source.
func TestRejectedRows(t *testing.T) {
	source := tasks(t, 60)
	rows := rowsOf(t, source)
	rows[30] = rows[29]
	writeRows(t, source, rows)
	f := newFolder(t)
	s := newServer(t, nil)
	o := must(t, cli.Done, "--source", source, "--rows", "0", "--out", f.out, "--base-url", s.base(), "--model", "fake")
	rejects := f.rejects(t)
	counts := map[string]int{}
	for i, r := range rejects {
		row := rows[r.SourceRow]
		if i > 0 && rejects[i-1].SourceRow >= r.SourceRow || r.SourceName != "tasks.json" || len(r.SourceRevision) != 64 ||
			r.Instruction != row["instruction"] || r.Input != row["input"] || r.Output != row["output"] || r.Reason == "" {
			t.Errorf("%+v is not row %d", r, r.SourceRow)
		}
		if unfit := r.Check[0] == 'S'; unfit != (r.Attempts == 0) || unfit && r.Answer != "" || r.Attempts > 2 {
			t.Errorf("%+v: %d attempts", r, r.Attempts)
		}
		counts[r.Check]++
	}
	end := lastLine(t, o)
	for _, list := range []string{"unfit", "given_up"} {
		for check, n := range end[list].(map[string]any) {
			if counts[check] != int(n.(float64)) {
				t.Errorf("%s: %d in the file, %v counted", check, counts[check], n)
			}
			delete(counts, check)
			if !strings.Contains(o.stderr, fmt.Sprintf("%s %v", check, n)) {
				t.Errorf("%s is not in %v", check, o)
			}
		}
	}
	if len(counts) > 0 || int(end["accepted"].(float64))+len(rejects) != 60 {
		t.Errorf("%v are left over, %v made, %d rejected", counts, end["accepted"], len(rejects))
	}
	if at := slices.IndexFunc(rejects, func(r dataset.Reject) bool { return r.SourceRow == 30 }); at < 0 ||
		rejects[at].Check != "S4" {
		t.Errorf("row 30 is a copy: %+v", rejects)
	}

	none := newFolder(t)
	must(t, cli.Done, "--source", fitTasks(t, 20), "--rows", "5", "--out", none.out, "--teacher", "builtin")
	if _, err := os.Stat(dataset.RejectsPath(none.out)); !os.IsNotExist(err) {
		t.Errorf("nothing was rejected, and the rejects are there: %v", err)
	}
	// A run that makes no row says why in the file.
	o = must(t, cli.Failed, "--source", slice(t, rows, "bad.json", 5, 6), "--out", none.out, "--teacher", "builtin")
	if got := none.rejects(t); len(got) != 1 || got[0].Check != "S1" {
		t.Errorf("%+v, %v", got, o)
	}
}

// TestSkipBadFlag has lines that cannot be read.
func TestSkipBadFlag(t *testing.T) {
	rows := rowsOf(t, fitTasks(t, 20))
	var text strings.Builder
	for i, row := range rows {
		line, err := json.Marshal(row)
		expect.OK(t, err)
		switch i {
		case 3:
			line = line[:20]
		case 7:
			line = []byte(`{"instruction": "x", "output": 7}`)
		case 11:
			line = []byte(`{"name": "x"}`)
		}
		text.Write(append(line, '\n'))
	}
	source := expect.File(t, "rows.jsonl", text.String())
	s := newServer(t, nil)
	s.good = true
	for _, preview := range []bool{false, true} {
		f := newFolder(t)
		args := []string{"--source", source, "--rows", "0", "--out", f.out, "--base-url", s.base(), "--model", "fake"}
		if preview {
			args = append(args, "--preview", "20")
		}
		calls, _ := s.counts()
		o := must(t, cli.Failed, args...)
		if !strings.Contains(o.stderr, "rows.jsonl: line 4: ") || !strings.Contains(o.stderr, "--skip-bad") {
			t.Error(o)
		}
		if now, _ := s.counts(); now != calls {
			t.Errorf("%d requests before the row was found", now-calls)
		}
		o = must(t, cli.Done, append(args, "--skip-bad")...)
		const first = "dataset: rows.jsonl: line 4: "
		if !strings.Contains(o.stderr, "  S0          3        0        0  the source row can be read; first: "+first) ||
			preview && !strings.Contains(o.stdout, "\nrefused by S0: "+first) {
			t.Error(o)
		}
		if preview {
			continue
		}
		var bad []int
		for _, r := range f.rejects(t) {
			if r.Check == "S0" {
				bad = append(bad, r.SourceRow)
				if !strings.Contains(r.Reason, fmt.Sprintf("line %d: ", r.SourceRow+1)) || r.Instruction != "" {
					t.Errorf("%+v", r)
				}
			}
		}
		if made := lastLine(t, o)["accepted"].(float64); !slices.Equal(bad, []int{3, 7, 11}) || made != 17 {
			t.Errorf("rows %v cannot be read, %v were made", bad, made)
		}
		f.sound(t, 17)
		o = must(t, cli.Done, append(args, "--skip-bad", "--dry-run")...)
		if !strings.Contains(o.stderr, "S0: 3 unfit") {
			t.Error(o)
		}
	}
	f := newFolder(t) // a run that finds the row only when it has made others continues with the flag
	args := []string{"--source", source, "--rows", "10", "--out", f.out, "--teacher", "builtin"}
	o := must(t, cli.Failed, args...)
	if !strings.Contains(o.stderr, "3 rows so far") {
		t.Error(o)
	}
	must(t, cli.Done, append(args, "--skip-bad")...)
	f.sound(t, 10)
}

// TestFileForms_SameRows reads the same rows from every form of file, and must make the same of them.
func TestFileForms_SameRows(t *testing.T) {
	rows := rowsOf(t, fitTasks(t, 12))
	for _, row := range rows { // a conversation has no input
		row["input"] = ""
	}
	lines := func(form func(question, answer any) any) (text string) {
		for _, row := range rows {
			line, err := json.Marshal(form(row["instruction"], row["output"]))
			expect.OK(t, err)
			text += string(line) + "\n"
		}
		return text
	}
	pairs := lines(func(q, a any) any { return map[string]any{"question": q, "answer": a} })
	array := "[" + strings.ReplaceAll(strings.TrimSpace(pairs), "\n", ",") + "]"
	talks := lines(func(q, a any) any {
		return map[string]any{"id": 7, "messages": []map[string]any{{"role": "system", "content": "Be kind."},
			{"role": "user", "content": q}, {"role": "assistant", "content": a}, {"role": "user", "content": "Thanks."}}}
	})
	share := lines(func(q, a any) any {
		return map[string]any{"conversations": []map[string]any{{"from": "human", "value": q}, {"from": "gpt", "value": a}}}
	})
	values := func(separator rune) string {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Comma = separator
		w.Write([]string{"question", "n", "answer"})
		for _, row := range rows {
			w.Write([]string{row["instruction"].(string), "1", row["output"].(string)})
		}
		w.Flush()
		return b.String()
	}
	pack := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		return b.String()
	}
	s := newServer(t, nil)
	want := ""
	for _, c := range []struct{ name, content, says string }{
		{"a.jsonl", pairs, "instruction=question,output=answer"},
		{"a.json", array, "instruction=question,output=answer"},
		{"a.csv", values(','), "instruction=question,output=answer"},
		{"a.tsv", values('\t'), "instruction=question,output=answer"},
		{"a.jsonl.gz", pack(pairs), "instruction=question,output=answer"},
		{"a.json.gz", pack(array), "instruction=question,output=answer"},
		{"a.csv.gz", pack(values(',')), "instruction=question,output=answer"},
		{"talks.jsonl", talks, "chat messages (messages)"},
		{"share.jsonl.gz", pack(share), "chat messages (conversations)"},
	} {
		f := newFolder(t)
		o := must(t, cli.Done, "--source", expect.File(t, c.name, c.content), "--rows", "0", "--out", f.out, "--base-url",
			s.base(), "--model", "fake")
		got := expect.Read(t, f.out)
		if want == "" {
			want = got
		}
		if got != want || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: the rows differ, or its form is not named: %v", c.name, o)
		}
	}
}

// TestConversations_WithoutAnswer has conversations that have no first answer, and ones with more turns.
func TestConversations_WithoutAnswer(t *testing.T) {
	code := rowsOf(t, fitTasks(t, 3))
	say := func(turns ...any) string {
		var messages []map[string]any
		for i := 0; i < len(turns); i += 2 {
			messages = append(messages, map[string]any{"from": turns[i], "value": turns[i+1]})
		}
		line, err := json.Marshal(map[string]any{"conversations": messages})
		expect.OK(t, err)
		return string(line) + "\n"
	}
	q, a := func(i int) any { return code[i]["instruction"] }, func(i int) any { return code[i]["output"] }
	source := expect.File(t, "share.jsonl", say("human", q(0), "gpt", a(0), "human", q(1), "gpt", a(1))+
		say("human", q(1))+say("gpt", "Hello.")+say("human", q(1), "robot", a(1))+
		say("gpt", "Hi.", "human", q(2), "gpt", a(2)))
	f := newFolder(t)
	args := []string{"--source", source, "--rows", "0", "--out", f.out, "--teacher", "builtin"}
	o := must(t, cli.Failed, args...)
	if !strings.Contains(o.stderr, "share.jsonl: row 1: the conversation ends with its first question") ||
		!strings.Contains(o.stderr, "--skip-bad") {
		t.Error(o)
	}
	must(t, cli.Done, append(args, "--skip-bad")...)
	made, err := dataset.ReadRewritten(t.Context(), f.out)
	if err != nil || len(made) != 2 || made[0].Instruction != q(0) || made[1].OutputOriginal != a(2) {
		t.Errorf("%+v, %v", made, err)
	}
	var reasons []string
	for _, r := range f.rejects(t) {
		reasons = append(reasons, r.Reason)
	}
	if all := strings.Join(reasons, "\n"); len(reasons) != 3 || !strings.Contains(all, "no question") ||
		!strings.Contains(all, "robot") {
		t.Errorf("%q", reasons)
	}
}
