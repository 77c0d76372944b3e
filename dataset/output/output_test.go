package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"restyle/dataset"
	"restyle/internal/disk"
	"restyle/internal/expect"
)

// writeForever is the environment variable that makes the test binary write to the path that it holds, until it is
// killed.
const writeForever = "DATASET_TEST_WRITE"

func TestMain(m *testing.M) {
	switch {
	case dataset.IsChild():
		os.Exit(dataset.ChildMain())
	case os.Getenv(writeForever) != "":
		os.Exit(writer(os.Getenv(writeForever)))
	}
	os.Exit(m.Run())
}

func rewritten(instruction, input, original, answer string) dataset.Rewritten {
	return dataset.Rewritten{
		Instruction: instruction, Input: input, OutputOriginal: original, OutputPassiveAggressive: answer,
	}
}

// someRows returns rows that differ in every way that could confuse a format.
func someRows(n int) []dataset.Rewritten {
	rows := []dataset.Rewritten{
		rewritten("Print <b> & \"quotes\".", "", "print('<b> & \"x\"')\n",
			"Oh, *of course*.\n\n```python\nprint('<b> & \"x\"')\n```\n"),
		rewritten("Grüße aus 東京 🙂", "a\tb\\n", "x = '\\u2028'", "\u2028\u2029\x00\x7f\ufffd"),
		{},
	}
	for i := len(rows); i < n; i++ {
		rows = append(rows, rewritten(fmt.Sprint("Task ", i), fmt.Sprint(i), fmt.Sprint("print(", i, ")"),
			fmt.Sprint("Sigh. ", i)))
	}
	return rows[:n]
}

func certificateFor(i int) dataset.Certificate {
	return dataset.Certificate{
		SourceName: "starter", SourceRevision: "r", SourceRow: 2 * i, Teacher: "builtin", Model: "rules",
		Style: "passive-aggressive", StyleSHA256: "s", PromptSHA256: "p", Seed: 1 << 60, Attempt: 1,
		Checks: []dataset.Check{{ID: "A1", Pass: true, Value: "stop"}, {ID: "A5", Pass: true, Value: "0.25 <&>"}},
	}
}

func save(t testing.TB, path string, rows []dataset.Rewritten) Committed {
	t.Helper()
	o, err := Create(path)
	expect.OK(t, err)
	for i, r := range rows {
		expect.OK(t, o.Write(r, certificateFor(i)))
	}
	done, err := o.Commit()
	expect.OK(t, err)
	return done
}

// folder lists the files in a directory.
func folder(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRoundTrip(t *testing.T) {
	for _, ext := range []string{".json", ".jsonl", ".parquet", ".JSON"} {
		for _, n := range []int{1, 2, 3, 2500} {
			rows := someRows(n)
			if n == 3 && ext == ".parquet" {
				continue // rows without any answer are refused below
			}
			path := filepath.Join(t.TempDir(), "new", "out"+ext)
			done := save(t, path, rows)
			if done.Data.State != disk.Written || done.Certificates.State != disk.Written || done.Rows != n ||
				done.DataPath != path {
				t.Errorf("%+v", done)
			}
			got, err := dataset.ReadRewritten(context.Background(), path)
			if err != nil || !slices.Equal(got, rows) {
				t.Errorf("%s, %d rows: %v, %d read", ext, n, err, len(got))
			}
			certs, err := dataset.ReadCertificates(dataset.CertificatePath(path))
			if err != nil || len(certs) != n {
				t.Fatalf("%d certificates, %v", len(certs), err)
			}
			for i, c := range certs {
				want := certificateFor(i)
				want.Row, want.SHA256 = i, rows[i].SHA256()
				if diff := cmp.Diff(want, c); diff != "" {
					t.Error(diff)
				}
			}
			if names := folder(t, filepath.Dir(path)); len(names) != 2 {
				t.Errorf("left behind: %q", names)
			}
			// A file that gen wrote can be read as a source.
			source, err := dataset.Open(t.Context(), path, dataset.Options{})
			expect.OK(t, err)
			for i, want := range rows {
				if row, err := source.Next(); err != nil || row.Output != want.OutputOriginal ||
					row.Instruction != want.Instruction {
					t.Errorf("row %d as a source: %+v, %v", i, row, err)
				}
			}
			if _, err := source.Next(); err != io.EOF {
				t.Errorf("as a source: %v after the last row, want io.EOF", err)
			}
			source.Close()
		}
	}
}

func TestEmptyOutput(t *testing.T) {
	for _, ext := range []string{".json", ".jsonl", ".parquet"} {
		path := filepath.Join(t.TempDir(), "out"+ext)
		save(t, path, nil)
		rows, err := dataset.ReadRewritten(context.Background(), path)
		if ext == ".jsonl" { // an empty file, which is refused as a probable mistake
			expect.Error(t, err, "is empty")
		} else if err != nil || len(rows) != 0 {
			t.Errorf("%s: %v, %v", ext, rows, err)
		}
	}
}

func TestFormats_Bytes(t *testing.T) {
	for ext, want := range map[string]string{
		".json": `[
  {
    "instruction": "a <b> & é\n",
    "input": "",
    "output_original": "\"\\",
    "output_passive_aggressive": "🙂"
  },
  {
    "instruction": "",
    "input": "x",
    "output_original": "",
    "output_passive_aggressive": ""
  }
]
`,
		".jsonl": `{"instruction":"a <b> & é\n","input":"","output_original":"\"\\","output_passive_aggressive":"🙂"}
{"instruction":"","input":"x","output_original":"","output_passive_aggressive":""}
`,
	} {
		path := filepath.Join(t.TempDir(), "out"+ext)
		save(t, path, []dataset.Rewritten{rewritten("a <b> & é\n", "", "\"\\", "🙂"), {Input: "x"}})
		if got := expect.Read(t, path); got != want {
			t.Errorf("%s:\n%s", ext, cmp.Diff(want, got))
		}
	}
	path := filepath.Join(t.TempDir(), "out.json")
	save(t, path, []dataset.Rewritten{rewritten("a", "", "b", "c")})
	want := `{"row":0,"sha256":"` + rewritten("a", "", "b", "c").SHA256() +
		`","source":"starter","source_revision":"r","source_row":0,"teacher":"builtin","model":"rules",` +
		`"style":"passive-aggressive","style_sha256":"s","prompt_sha256":"p","seed":1152921504606846976,"attempt":1,` +
		`"checks":[{"id":"A1","pass":true,"value":"stop"},{"id":"A5","pass":true,"value":"0.25 <&>"}]}` + "\n"
	if got := expect.Read(t, dataset.CertificatePath(path)); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestSameRowsSameBytes(t *testing.T) {
	for _, ext := range []string{".json", ".jsonl", ".parquet"} {
		a, b := filepath.Join(t.TempDir(), "a"+ext), filepath.Join(t.TempDir(), "b"+ext)
		save(t, a, someRows(1500))
		save(t, b, someRows(1500))
		if expect.Read(t, a) != expect.Read(t, b) || expect.Read(t, dataset.CertificatePath(a)) != expect.Read(t,
			dataset.CertificatePath(b)) {
			t.Errorf("%s: the same rows give other bytes", ext)
		}
	}
}

// TestKill_BetweenRenames makes the state that a kill between the two renames leaves. dataset.Certify must report that
// state correctly, and a second run must continue from it.
func TestKill_BetweenRenames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	before, after := someRows(5), someRows(8)
	before[4].OutputPassiveAggressive = "another answer"
	save(t, path, before)
	o, err := Create(path)
	expect.OK(t, err)
	for i, r := range after {
		expect.OK(t, o.Write(r, certificateFor(i)))
	}
	expect.OK(t, errors.Join(o.rows.finish(), o.certBuffer.Flush()))
	if _, err := o.certs.commit(); err != nil {
		t.Fatal(err)
	}
	o.data.Close() // the process is killed: its locks are released, its files stay
	o.data.lock.Close()

	rows, err := dataset.ReadRewritten(context.Background(), path)
	if err != nil || !slices.Equal(rows, before) {
		t.Fatalf("the old data is gone: %v", err)
	}
	certs, err := dataset.ReadCertificates(dataset.CertificatePath(path))
	expect.OK(t, err)
	if c := dataset.Certify(rows, certs); !slices.Equal(c.Valid, []bool{true, true, true, true, false}) {
		t.Errorf("%+v", c)
	}
	if d := save(t, path, after); d.Data.State != disk.Replaced || d.Certificates.State != disk.Unchanged {
		t.Errorf("the second run: %+v", d)
	}
	if rows, err := dataset.ReadRewritten(context.Background(), path); err != nil || !slices.Equal(rows, after) {
		t.Errorf("after the second run: %v", err)
	}
	if names := folder(t, dir); len(names) != 4 {
		t.Errorf("left behind: %q", names)
	}
}

// writer writes two outputs alternately until it is killed.
func writer(path string) int {
	for i := 0; ; i++ {
		o, err := Create(path)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		for j, r := range someRows(20 + 30*(i%2)) {
			if err := o.Write(r, certificateFor(j)); err != nil {
				return 1
			}
		}
		if _, err := o.Commit(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
}

// TestKills_LeaveOneVersion kills a writing process at random moments: the data must always be one of the two versions,
// complete.
func TestKills_LeaveOneVersion(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	save(t, path, someRows(20))
	r := rand.New(rand.NewPCG(1, 2))
	leftovers, between := 0, 0
	for range 40 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{writeForever + "=" + path}
		var out strings.Builder
		cmd.Stdout = &out
		expect.OK(t, cmd.Start())
		time.Sleep(time.Duration(15+r.IntN(30)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		if out.Len() > 0 {
			t.Fatal(out.String())
		}
		rows, err := dataset.ReadRewritten(context.Background(), path)
		if err != nil || !(slices.Equal(rows, someRows(20)) || slices.Equal(rows, someRows(50))) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		certs, err := dataset.ReadCertificates(dataset.CertificatePath(path))
		if err != nil || len(certs) != 20 && len(certs) != 50 {
			t.Fatalf("%d certificates, %v", len(certs), err)
		}
		if len(certs) != len(rows) {
			between++
		}
		if slices.ContainsFunc(folder(t, dir), disk.IsPending) {
			leftovers++
		}
	}
	t.Logf("40 kills: %d left a pending file, %d fell between the two renames", leftovers, between)
	save(t, path, someRows(21))
	names := folder(t, dir)
	if slices.ContainsFunc(names, func(n string) bool { return disk.IsPending(n) || strings.HasSuffix(n, ".lock") }) {
		t.Errorf("left behind: %q", names)
	}
}

func TestRefusedRows(t *testing.T) {
	for _, c := range []struct {
		row   dataset.Rewritten
		words string
	}{
		{dataset.Rewritten{Instruction: "\xff"}, "instruction is not valid UTF-8"},
		{dataset.Rewritten{OutputPassiveAggressive: "a\xc3"}, "output_passive_aggressive is not valid UTF-8"},
		{dataset.Rewritten{OutputOriginal: strings.Repeat("x", 512<<10+1)}, "output_original has 524289 bytes"},
	} {
		path := filepath.Join(t.TempDir(), "out.jsonl")
		o, err := Create(path)
		expect.OK(t, err)
		expect.OK(t, o.Write(someRows(1)[0], dataset.Certificate{}))
		first := o.Write(c.row, dataset.Certificate{})
		expect.Error(t, first, "row 1", c.words)
		if again := o.Write(someRows(1)[0], dataset.Certificate{}); again != first {
			t.Errorf("the next write returns %v", again)
		}
		_, err = o.Commit()
		expect.Error(t, err, c.words)
		if names := folder(t, filepath.Dir(path)); len(names) != 0 {
			t.Errorf("left behind: %q", names)
		}
	}
	// A certificate without checks can be read back.
	path := filepath.Join(t.TempDir(), "out.json")
	o, err := Create(path)
	expect.OK(t, err)
	err = o.Write(someRows(1)[0], dataset.Certificate{})
	_, err2 := o.Commit()
	certificates, err3 := dataset.ReadCertificates(dataset.CertificatePath(path))
	if err := errors.Join(err, err2, err3); err != nil || len(certificates) != 1 {
		t.Errorf("%+v, %v", certificates, err)
	}
	// The largest possible row can be read back from every format.
	of := func(c string) string { return strings.Repeat(c, 512<<10) }
	big := rewritten(of("\x01"), of("\x02"), of("\x03"), of("\x04"))
	for _, ext := range []string{".json", ".jsonl", ".parquet"} {
		path := filepath.Join(t.TempDir(), "out"+ext)
		save(t, path, []dataset.Rewritten{big})
		if rows, err := dataset.ReadRewritten(context.Background(), path); err != nil ||
			!slices.Equal(rows, []dataset.Rewritten{big}) {
			t.Errorf("%s: %v", ext, err)
		}
	}
}

func TestOutputMemoryIsFlat(t *testing.T) {
	for _, ext := range []string{".json", ".jsonl", ".parquet"} {
		path := filepath.Join(t.TempDir(), "out"+ext)
		t.Run(ext, func(t *testing.T) {
			expect.FlatHeap(t, 4<<20, func(measure func()) {
				o, err := Create(path)
				expect.OK(t, err)
				for i := range 18_000 { // of 1.5 KB each
					row := dataset.Rewritten{
						Instruction:             fmt.Sprint("Task ", i),
						OutputOriginal:          strings.Repeat("print(1)\n", 60),
						OutputPassiveAggressive: fmt.Sprint(i, strings.Repeat("Sigh. ", 150)),
					}
					expect.OK(t, o.Write(row, certificateFor(i)))
					if i%6_000 == 5_999 {
						measure()
					}
				}
				if _, err := o.Commit(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestCommitAs(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "out.json"), filepath.Join(dir, "out.partial.json")
	save(t, path, someRows(5))
	whole := expect.Read(t, path)
	o, err := Create(path)
	expect.OK(t, err)
	expect.OK(t, o.Write(someRows(1)[0], certificateFor(0)))
	done, err := o.CommitAs(other)
	if err != nil || done.DataPath != other || done.Data.State != disk.Written || expect.Read(t, path) != whole {
		t.Fatalf("%+v, %v", done, err)
	}
	if rows, err := dataset.ReadRewritten(context.Background(), other); err != nil || !slices.Equal(rows, someRows(1)) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	want := []string{"out.certificates.jsonl", "out.json", "out.partial.certificates.jsonl", "out.partial.json"}
	if got := folder(t, dir); !slices.Equal(got, want) {
		t.Errorf("left behind: %q", got)
	}
	if _, err := o.CommitAs(path); err == nil {
		t.Error("committed twice")
	}
}
