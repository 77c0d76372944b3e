package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// rowsOf reads a source that tasks wrote.
func rowsOf(t testing.TB, path string) (rows []map[string]any) {
	t.Helper()
	expect.OK(t, json.Unmarshal([]byte(expect.Read(t, path)), &rows))
	return rows
}

func writeRows(t testing.TB, path string, rows []map[string]any) {
	t.Helper()
	b, err := json.Marshal(rows)
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	expect.OK(t, err)
}

// TestSourceIsNotOverwritten names the source as an output, in several spellings.
func TestSourceIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "rows.json")
	b := expect.Read(t, tasks(t, 20))
	expect.OK(t, os.WriteFile(source, []byte(b), 0o644))
	soft, hard, other := filepath.Join(dir, "soft.json"), filepath.Join(dir, "hard.json"), filepath.Join(dir, "certs.json")
	expect.OK(t, os.Symlink("rows.json", soft))
	expect.OK(t, os.Link(source, hard))
	expect.OK(t, os.Symlink("rows.json", filepath.Join(dir, "certs.certificates.jsonl")))
	before := tree(t, dir)
	for _, out := range []string{source, dir + "/./rows.json", dir + "/../" + filepath.Base(dir) + "/rows.json", soft,
		hard, other} {
		o := must(t, cli.Usage, "--source", source, "--out", out)
		if !strings.Contains(o.stderr, "--out") || !strings.Contains(o.stderr, "--source") {
			t.Errorf("%s: %v", out, o)
		}
	}
	must(t, cli.Usage, "--source", soft, "--out", source)
	must(t, cli.Usage, "--source", source, "--out", filepath.Join(dir, "x.json"), "--card", hard)
	must(t, cli.Usage, "--source", source, "--out", filepath.Join(dir, "x.json"), "--model", "m", "--emit-batch", soft)
	// The second run would read what the first one wrote.
	for _, around := range [][]string{{dir}, {dir + ":default"}, {dir, "--split", "*.json"}} {
		o := must(t, cli.Failed, append([]string{"--out", filepath.Join(dir, "x.json"), "--source"}, around...)...)
		contains(t, o.stderr, "x.json would be read as its rows")
	}
	if after := tree(t, dir); after != before {
		t.Errorf("something was written:\n%s\n%s", before, after)
	}
	must(t, cli.Done, "--source", dir, "--split", "rows.json", "--out", filepath.Join(dir, "x.json"), "--rows", "3")
	must(t, cli.Done, "--source", dir, "--split", "rows.json", "--out", filepath.Join(dir, "x.parquet"), "--rows", "3")
}

// TestRowsWithoutAnswer uses rows that lack a part: gen must count and name them, and make the others.
func TestRowsWithoutAnswer(t *testing.T) {
	source := tasks(t, 60)
	rows := rowsOf(t, source)
	delete(rows[2], "output")
	rows[4]["output"] = nil
	rows[6]["instruction"], rows[6]["input"] = "", " \n"
	rows[8]["instruction"], rows[8]["input"] = "...?", "<noinput>"
	delete(rows[10], "instruction")
	rows[12]["output"] = strings.Repeat("x = [1, 2, 3]\n", 700_000) // 10 MB
	writeRows(t, source, rows)
	f := newFolder(t)
	s := newServer(t, nil)
	o := must(t, cli.Done, "--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake")
	unfit := lastLine(t, o)["unfit"].(map[string]any)
	if n := unfit["S1"].(float64) + unfit["S2"].(float64); n < 6 || !strings.Contains(o.stderr, "first: row 2: ") {
		t.Errorf("%v, %v", unfit, o)
	}
	made, err := dataset.ReadRewritten(t.Context(), f.out)
	if err != nil || len(made) != 20 {
		t.Fatalf("%d rows, %v", len(made), err)
	}
	for _, r := range made {
		if strings.Trim(r.Instruction, " .?") == "" || r.OutputOriginal == "" {
			t.Errorf("a row was made of %+v", r)
		}
	}
}

// TestDamagedSource_IsFoundBeforeRequests damages a source far after the rows that are needed.
func TestDamagedSource_IsFoundBeforeRequests(t *testing.T) {
	source := tasks(t, 200)
	whole := expect.Read(t, source)
	expect.OK(t, os.WriteFile(source, []byte(whole[:len(whole)-20]), 0o644))
	f := newFolder(t)
	s := newServer(t, nil)
	o := must(t, cli.Failed, "--source", source, "--rows", "0", "--out", f.out, "--base-url", s.base(), "--model", "fake")
	if calls, _ := s.counts(); calls != 0 || !strings.Contains(o.stderr, "truncated") {
		t.Errorf("%d calls, %v", calls, o)
	}
}

// TestCertificatesOfTwoOutputs writes two formats next to each other: both must keep their certificates.
func TestCertificatesOfTwoOutputs(t *testing.T) {
	source, dir := tasks(t, 60), t.TempDir()
	for i, name := range []string{"a.json", "a.jsonl", "a.parquet"} {
		must(t, cli.Done, "--source", source, "--rows", []string{"10", "20", "30"}[i], "--teacher", "builtin", "--out",
			filepath.Join(dir, name))
	}
	for i, name := range []string{"a.json", "a.jsonl", "a.parquet"} {
		if o := must(t, cli.Done, "--report", "--out", filepath.Join(dir, name)); lastLine(t,
			o)["certified"].(float64) != float64(10*i+10) {
			t.Errorf("%s: %v", name, o)
		}
	}
}

// TestReportFails reports on a dataset with some bad rows.
func TestReportFails(t *testing.T) {
	f := newFolder(t)
	must(t, cli.Done, "--source", tasks(t, 60), "--rows", "20", "--teacher", "builtin", "--out", f.out)
	rows, err := dataset.ReadRewritten(t.Context(), f.out)
	expect.OK(t, err)
	rows[3].OutputPassiveAggressive += "\n\nAs an AI language model I cannot say more."
	rows[19] = rows[10]
	b, err := json.Marshal(rows)
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(f.out, b, 0o644))
	o := must(t, cli.Failed, "--report", "--out", f.out)
	for _, want := range []string{"row 3, A6: it refuses", "row 3, certificate: it was changed", "row 19, A10: "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("missing %q in %v", want, o)
		}
	}
	// No other row says what row 10 says. It is said twice now, which is allowed with this few rows: only the copy fails.
	if v := lastLine(t, o); v["clean"].(float64) != 18 || v["certified"].(float64) != 19 ||
		!strings.Contains(o.stderr, "2 of 20 rows fail") {
		t.Error(o)
	}
}

// TestReportOnJoinedDatasets reports on rows with code and rows without, each with the certificate of its run: once in
// the order of the certificates, and once some of them in another order.
func TestReportOnJoinedDatasets(t *testing.T) {
	const joined = "../../data/teacher.jsonl"
	out := filepath.Join(t.TempDir(), "data.jsonl")
	for copied, name := range map[string]string{
		out: joined, dataset.CertificatePath(out): dataset.CertificatePath(joined),
	} {
		expect.OK(t, os.WriteFile(copied, []byte(expect.Read(t, name)), 0o644))
	}
	for _, least := range []float64{800, 300} {
		o := must(t, cli.Done, "--report", "--out", out)
		if v := lastLine(t, o); v["rows"].(float64) < least || v["clean"] != v["rows"] || v["certified"] != v["rows"] {
			t.Error(o)
		}
		rows := strings.Split(strings.TrimSpace(expect.Read(t, out)), "\n")
		slices.Reverse(rows)
		rows = rows[:300]
		expect.OK(t, os.WriteFile(out, []byte(strings.Join(rows, "\n")), 0o644))
	}
	for _, language := range []string{"python", "none"} { // a language that is given holds for every row
		must(t, cli.Failed, "--report", "--language", language, "--out", out)
	}
}

// TestBatchWithoutOne omits one answer of a batch: all other rows are usable, and the answer completes the dataset.
func TestBatchWithoutOne(t *testing.T) {
	source := tasks(t, 60)
	f, whole := newFolder(t), newFolder(t)
	args := func(f folder) []string {
		return []string{"--source", source, "--rows", "0", "--out", f.out, "--model", "fake"}
	}
	file := filepath.Join(f.dir, "batch.jsonl")
	o := must(t, cli.Done, append(args(f), "--emit-batch", file)...)
	results, requests := answerBatch(t, file, false)
	lines := strings.Split(expect.Read(t, results), "\n")
	// The first line of the batch belongs to the first row.
	first, _, _ := strings.Cut(expect.Read(t, file), "\n")
	var id struct {
		CustomID string `json:"custom_id"`
	}
	expect.OK(t, json.Unmarshal([]byte(first), &id))
	var one string
	var others []string
	for _, line := range lines {
		if strings.Contains(line, id.CustomID) {
			one = line
		} else {
			others = append(others, line)
		}
	}
	torn := strings.Join(others, "\n") + "\n" + one[:len(one)/2] // the last answer is incomplete
	expect.OK(t, os.WriteFile(results, []byte(torn), 0o644))
	o = must(t, cli.Stopped, append(args(f), "--ingest-batch", results)...)
	if !strings.Contains(o.stderr, "1 unreadable line") {
		t.Errorf("the torn line is not counted: %v", o)
	}
	partial, err := dataset.ReadRewritten(t.Context(), filepath.Join(f.dir, "data.partial.json"))
	if err != nil || len(partial) < requests*3/4 {
		t.Fatalf("%d rows of %d answers, %v, %v", len(partial), requests-1, err, o)
	}

	// Every answer in one file, without a newline after the last, and then the batch in two parts, must make the same
	// bytes.
	finish := func(f folder, results string) string {
		for round := 0; ; round++ {
			o := invoke(t, append(args(f), "--ingest-batch", results)...)
			if o.code == cli.Done {
				return expect.Read(t, f.out)
			}
			if round > 4 {
				t.Fatal(o)
			}
			file := filepath.Join(f.dir, "more.jsonl")
			if o := must(t, cli.Done, append(args(f), "--emit-batch", file)...); lastLine(t, o)["rows"] != nil {
				return expect.Read(t, f.out)
			}
			results, _ = answerBatch(t, file, false)
		}
	}
	expect.OK(t, os.WriteFile(results, []byte(strings.Join(append(others, one), "\n")), 0o644))
	must(t, cli.Done, append(args(whole), "--emit-batch", filepath.Join(whole.dir, "batch.jsonl"))...)
	if finish(whole, results) != finish(f, results) {
		t.Error("the answer that came later made another dataset")
	}
}
