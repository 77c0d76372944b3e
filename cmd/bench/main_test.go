package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

func init() { settling = 0 } // the GPUs of tests have no clocks

func bench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// lastLine returns the JSON object at the end of a finished run's output.
func lastLine(t *testing.T, stdout string) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatalf("the last line is no JSON object: %v\n%s", err, lines[len(lines)-1])
	}
	return v
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string // on stderr
	}{
		{"", cli.Usage, "name one"},
		{"-h", cli.Done, "bench parity PATH"},
		{"--nothing", cli.Usage, "see bench -h"},
		{"help", cli.Done, "bench parity PATH"},
		{"-h ops", cli.Done, "bench ops "},
		{"help ops", cli.Done, "bench ops "},
		{"--device cpu step", cli.Usage, "--device comes before the measurement: flags follow it: bench step --device"},
		{"paritty x", cli.Usage, `unknown measurement "paritty": did you mean parity?`},
		{"parity -h", cli.Done, "--quick"},
		{"parity", cli.Usage, "name the directory"},
		{"parity x --fused warp", cli.Usage, `unknown name "warp"`},
		{"parity x --threads -1", cli.Usage, "--threads -1: must be"},
		{"parity x --threads many", cli.Usage, "must be a whole number"},
		{"parity x --only [", cli.Usage, "syntax error in pattern"},
		{"parity x --nothing", cli.Usage, "there is no flag --nothing"},
		{"parity no/such/folder", cli.Failed, "no such file"},
		{"parity ../../parity/testdata --device tpu", cli.Usage, `--device "tpu"`},
		{"-h", cli.Done, "bench ops "},
		{"ops -h", cli.Done, "embedding, add, rmsnorm"},
		{"ops add", cli.Usage, "unexpected argument"},
		{"ops --op add,warp", cli.Usage, `"warp": must be one of embedding, add,`},
		{"ops --op", cli.Usage, "--op needs a value"},
		{"ops --threads -1", cli.Usage, "--threads -1: must be"},
		{"ops --threads 5000", cli.Usage, "threads 5000: must be from 1 to 1024"},
		{"parity x --threads 1025", cli.Usage, "threads 1025: must be from 1 to 1024"},
		{"step --threads 1025", cli.Usage, "threads 1025: must be from 1 to 1024"},
		{"ops --device tpu", cli.Usage, `--device "tpu"`},
	} {
		code, stdout, stderr := bench(t, strings.Fields(c.args)...)
		said, other := stderr, stdout
		if c.code == cli.Done { // the help
			said, other = other, said
		}
		if code != c.code || !strings.Contains(said, c.want) || other != "" {
			t.Errorf("bench %s: exit %d, stderr %q, stdout %q; want %d and %q", c.args, code, stderr, stdout, c.code, c.want)
		}
	}
}

// refuses checks that a command with each of the arguments ends with a code, and says on stderr what is wrong.
func refuses(t *testing.T, command string, code int, wrong map[string]string) {
	t.Helper()
	for args, want := range wrong {
		got, _, stderr := bench(t, append([]string{command}, strings.Fields(args)...)...)
		if got != code || !strings.Contains(stderr, want) {
			t.Errorf("bench %s %s: exit %d, want %d; %q is not in %s", command, args, got, code, want, stderr)
		}
	}
}

// TestParity checks the command on the repository's own recordings, with paths and flags in any order.
func TestParity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parity.json")
	code, stdout, stderr := bench(t, "parity", "--only", "qwen2", "../../parity/testdata", "--json="+file, "--fused=all")
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{"testdata/qwen2  bf16, fused  gradient", " ok ", "recorded values: ", "only a part"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	last := lastLine(t, stdout)
	if last["command"] != "parity" || last["ok"] != true || last["partial"] != true || last["rows"] != nil {
		t.Errorf("the last line is %v", last)
	}
	data, err := os.ReadFile(file)
	expect.OK(t, err)
	var full struct {
		OK   bool
		Rows []struct {
			Folder, Figure string
			Count          int
			Error, Limit   float64
			OK             bool
		}
	}
	if err := json.Unmarshal(data, &full); err != nil || !full.OK || len(full.Rows) < 10 || !full.Rows[0].OK ||
		full.Rows[0].Count == 0 {
		t.Errorf("%s: %v, %+v", file, err, full)
	}
}

// TestParity_BeyondLimitFails checks that an error beyond its limit gives exit code 1, and that the table and the last
// line are printed nevertheless.
func TestParity_BeyondLimitFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "qwen2")
	expect.OK(t, os.CopyFS(dir, os.DirFS("../../parity/testdata/qwen2")))
	path := filepath.Join(dir, "golden.json")
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	changed := bytes.Replace(data, []byte(`"loss": `), []byte(`"loss": 1`), 1)
	expect.OK(t, os.WriteFile(path, changed, 0o644))
	code, stdout, stderr := bench(t, "parity", dir, "--each")
	if code != cli.Failed || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if !strings.Contains(stdout, "BEYOND") || !strings.Contains(stdout, "golden.json forward.loss") {
		t.Errorf("it does not say what is beyond its limit:\n%s", stdout)
	}
	// once with nothing fused, and once with everything fused
	if last := lastLine(t, stdout); last["ok"] != false || last["failed"] != 2.0 {
		t.Errorf("the last line is %v", last)
	}
	if code, _, stderr := bench(t, "parity", dir, "--json", filepath.Join(dir, "no", "folder.json")); code != cli.Failed ||
		!strings.Contains(stderr, "--json") {
		t.Errorf("a file that cannot be written: exit %d, %q", code, stderr)
	}
}

func TestParity_Stopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"parity", "../../parity/testdata"}, &out, &errs); code != cli.Failed ||
		!strings.Contains(errs.String(), "stopped") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// TestWriteFile checks that results never replace a user's file without a backup, and that links are followed.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link.json")
	expect.OK(t, os.Symlink("a.json", link))
	for _, text := range []string{"one", "one", "two", "three"} {
		expect.OK(t, writeFile(link, []byte(text)))
	}
	for name, want := range map[string]string{"a.json": "three", "link.json": "three", "a.json.bak": "one",
		"a.json.bak.2": "two"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if err := writeFile(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := writeFile(dir, nil); err == nil {
		t.Error("a directory was written to")
	}
}

// fake returns a measurement that only calls f.
func fake(f func(args []string) int) func(context.Context, []string, io.Writer, io.Writer) int {
	return func(_ context.Context, args []string, _, _ io.Writer) int { return f(args) }
}
