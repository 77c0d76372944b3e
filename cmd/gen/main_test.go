package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/teacher"
	"restyle/voice"
)

// canary is the API key of every run in these tests. No output may contain it: see leak.
var canary = randomKey()

// scratch is a directory for all tests.
var scratch string

func TestMain(m *testing.M) {
	if dataset.IsChild() { // this process decodes a parquet file
		os.Exit(dataset.ChildMain())
	}
	if os.Getenv(asServe) != "" {
		os.Exit(serveAtHome(os.Args[1:]))
	}
	if os.Getenv(asGen) != "" {
		asCommand()
	}
	flag.Parse()
	flag.Set("test.parallel", "12") // most of these tests only wait
	plainLine = 50 * time.Millisecond
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "gen-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	for _, name := range []string{"OPENAI_BASE_URL", "TEACHER_MODEL", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY",
		"http_proxy", "https_proxy"} {
		os.Unsetenv(name)
	}
	os.Setenv("OPENAI_API_KEY", canary)
	return m.Run()
}

func randomKey() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	key := make([]byte, 41) // not a multiple of 3, for base64
	for i := range key {
		key[i] = letters[rand.IntN(len(letters))]
	}
	return string(key)
}

// An outcome is the output and the exit code of one run of the command.
type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d\n── stdout\n%s\n── stderr\n%s", o.code, o.stdout, o.stderr)
}

// A said is a buffer that goroutines may write to concurrently, as the standard logger does for all runs.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// invoke runs the command in this process, and searches its output for the key.
func invoke(t testing.TB, args ...string) outcome {
	t.Helper()
	return invokeWith(t, t.Context(), args...)
}

func invokeWith(t testing.TB, ctx context.Context, args ...string) outcome {
	t.Helper()
	return invokeInto(t, ctx, new(said), args...)
}

// invokeInto is like invoke, but others can read the output while the command runs.
func invokeInto(t testing.TB, ctx context.Context, stderr *said, args ...string) outcome {
	t.Helper()
	var stdout said
	o := outcome{code: run(ctx, args, &stdout, stderr)}
	o.stdout, o.stderr = stdout.String(), stderr.String()
	for _, text := range []string{o.stdout, o.stderr} {
		if found := leak(text); found != "" {
			t.Errorf("the key is in the output %s:\n%s", found, text)
		}
	}
	return o
}

// must runs the command and fails the test unless it exits with this code.
func must(t testing.TB, code int, args ...string) outcome {
	t.Helper()
	o := invoke(t, args...)
	if o.code != code {
		t.Fatalf("gen %s: want exit code %d, got %v", strings.Join(args, " "), code, o)
	}
	return o
}

// lastLine returns the JSON object at the end of a finished run's standard output.
func lastLine(t testing.TB, o outcome) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimRight(o.stdout, "\n"), "\n")
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatalf("the last line of stdout is not one JSON object: %v\n%s", err, o.stdout)
	}
	return v
}

// A folder is the directory in which one run writes. At the end of the test its files are searched for the key.
type folder struct {
	dir string
	out string
}

func newFolder(t testing.TB) folder {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			b, err := os.ReadFile(path)
			if err == nil {
				if found := leak(path + "\n" + string(b)); found != "" {
					t.Errorf("the key is in %s %s", path, found)
				}
			}
			return nil
		})
	})
	return folder{dir, filepath.Join(dir, "data.json")}
}

// finished are the files of a finished run that rejected a row.
var finished = []string{"data.certificates.jsonl", "data.json", "data.rejects.jsonl"}

// result returns the files of a finished run.
func (f folder) result(t testing.TB) string {
	t.Helper()
	rejects, err := os.ReadFile(dataset.RejectsPath(f.out))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return expect.Read(t, f.out) + "\n" + expect.Read(t, dataset.CertificatePath(f.out)) + "\n" + string(rejects)
}

// rejects returns the rejected rows of a finished run.
func (f folder) rejects(t testing.TB) (rows []dataset.Reject) {
	t.Helper()
	for line := range strings.Lines(expect.Read(t, dataset.RejectsPath(f.out))) {
		var r dataset.Reject
		expect.OK(t, json.Unmarshal([]byte(line), &r))
		rows = append(rows, r)
	}
	return rows
}

// files returns the names of all files in the directory, except the files of the work directory.
func (f folder) files(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(f.dir)
	expect.OK(t, err)
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// sound checks every row of a finished run again: whatever went wrong on the way, every row must pass the checks, and
// no row may occur twice.
func (f folder) sound(t testing.TB, rows int) {
	t.Helper()
	made, err := dataset.ReadRewritten(t.Context(), f.out)
	expect.OK(t, err)
	if len(made) != rows {
		t.Errorf("%d rows, want %d", len(made), rows)
	}
	certs, err := dataset.ReadCertificates(dataset.CertificatePath(f.out))
	expect.OK(t, err)
	for i, valid := range dataset.Certify(made, certs).Valid {
		if !valid {
			t.Errorf("row %d has no certificate", i)
		}
	}
	style, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	seen := map[string]bool{}
	for i, r := range made {
		for _, c := range teacher.Audit(style, teacher.Python, r) {
			if !c.Pass {
				t.Errorf("row %d fails %s: %s", i, c.ID, c.Value)
			}
		}
		if seen[r.Instruction] {
			t.Errorf("row %d is there twice: %s", i, r.Instruction)
		}
		seen[r.Instruction] = true
	}
	for i := range certs[1:] {
		if certs[i].SourceRow >= certs[i+1].SourceRow {
			t.Errorf("row %d is out of the source's order", i+1)
		}
	}
}

// tasks writes a source of n different small tasks as JSON, some of them unfit, and returns its path.
func tasks(t testing.TB, n int) string {
	t.Helper()
	return writeTasks(t, n, func(i int, row map[string]string) {
		switch {
		case i%17 == 5:
			row["output"] = "def broken(:\n    return"
		case i%19 == 7:
			row["output"] = "x = 1"
		}
	})
}

// fitTasks is like tasks, but none is unfit.
func fitTasks(t testing.TB, n int) string {
	t.Helper()
	return writeTasks(t, n, func(int, map[string]string) {})
}

func writeTasks(t testing.TB, n int, spoil func(i int, row map[string]string)) string {
	t.Helper()
	nouns := []string{"prices", "scores", "lengths", "ages", "weights", "votes", "orders", "points", "marks", "speeds"}
	rows := make([]map[string]string, n)
	for i := range rows {
		noun := nouns[i%len(nouns)]
		row := map[string]string{
			"instruction": fmt.Sprintf("Write a Python function that keeps the %s above %d and doubles them.", noun, i),
			"input":       "",
			"output": fmt.Sprintf("def keep_%[1]s_%[2]d(%[1]s):\n    kept = []\n    for value in %[1]s:\n        if value > "+
				"%[2]d:\n"+
				"            kept.append(value * 2)\n    return kept", noun, i),
		}
		switch {
		case i%23 == 3:
			row["output"] = "First the function.\n\n```python\n" + row["output"] + "\n```\n\nThen the call.\n\n```python\n" +
				fmt.Sprintf("keep_%s_%d([])", noun, i) + "\n```\n"
		case i%3 == 1:
			row["input"] = fmt.Sprintf("[%d, %d, %d]", i, i+1, i+2)
		}
		spoil(i, row)
		rows[i] = row
	}
	b, err := json.Marshal(rows)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "tasks.json")
	expect.OK(t, os.WriteFile(path, b, 0o644))
	return path
}

// asGen is set in the environment of a process of this program that is to run gen; growth is the size that a file of
// such a process may reach before the process dies.
const asGen, growth = "RESTYLE_TEST_AS_GEN", "RESTYLE_TEST_GROWTH"

// asCommand runs gen in such a process, instead of the tests.
func asCommand() {
	if s := os.Getenv(growth); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err == nil {
			err = dieAt(n)
		}
		if err != nil {
			panic(err)
		}
	}
	main()
}

// process returns the command as a process, ready to start, with the key in its environment. A test can kill it and
// read its exit code.
func process(t testing.TB, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	path, err := os.Executable()
	expect.OK(t, err)
	cmd = exec.Command(path, args...)
	cmd.Env = append(os.Environ(), asGen+"=1")
	cmd.Dir = scratch
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd, stdout, stderr
}

// quiet is the servers' logger in these tests.
var quiet = log.New(io.Discard, "", 0)
