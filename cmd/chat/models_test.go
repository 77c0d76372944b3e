package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"restyle/data"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestEmbeddedModel_ByNameAndAsBase uses the embedded model by its name, and as the base that a tuned model names.
func TestEmbeddedModel_ByNameAndAsBase(t *testing.T) {
	tuned := filepath.Join(t.TempDir(), "tuned")
	expect.OK(t, os.CopyFS(tuned, os.DirFS(tinyTuned)))
	expect.OK(t, os.WriteFile(filepath.Join(tuned, "README.md"), []byte("---\nbase_model: starter\n---\n"),
		0o644))
	_, absent := data.StarterModel()
	for _, args := range [][]string{{"--base", "starter", "--only", "base"}, {"--tuned", "starter", "--only", "tuned"},
		{"--tuned", tuned}} {
		o := invoke(t, "", append(args, "--prompt", "Count to ten.", "--max-tokens", "3", "--log", "")...)
		switch {
		case absent == nil && (o.code != cli.Done || !strings.Contains(o.stderr, " starter, ")):
			t.Errorf("%q: %v", args, o)
		case absent != nil && (o.code != cli.Failed || !strings.Contains(o.stderr, absent.Error()) ||
			strings.Count(o.stderr, "\n") != 1):
			t.Errorf("%q: %v", args, o)
		}
	}
}

// TestUnfinishedModel_IsNamed checks that chat says in one line that a model is not the final one of its training run.
func TestUnfinishedModel_IsNamed(t *testing.T) {
	dir := t.TempDir()
	checkpoint := filepath.Join(dir, "checkpoints", "best-000010")
	for _, to := range []string{dir, checkpoint} {
		expect.OK(t, os.CopyFS(to, os.DirFS(tinyTuned)))
	}
	const note = " has not finished: this is not its final model\n"
	for _, test := range []struct {
		run  string
		want int
	}{{`{"finished":false}`, 1}, {`{"finished":true}`, 0}, {`{}`, 0}, {"", 0}} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, "run.json"), []byte(test.run), 0o644))
		for _, tuned := range []string{dir, checkpoint} {
			for _, only := range []string{"tuned", "base"} {
				o := invoke(t, "", "--base", tinyBase, "--tuned", tuned, "--only", only, "--prompt", "x", "--max-tokens", "1",
					"--log", "")
				if want := test.want; o.code != cli.Done || strings.Count(o.stderr, note) != want && only == "tuned" ||
					only == "base" && strings.Contains(o.stderr, note) {
					t.Errorf("run.json %s, --only %s --tuned %s: %v", test.run, only, tuned, o)
				}
			}
		}
	}
}

// TestQuantizedModel checks that chat says which type quantized weights have.
func TestQuantizedModel(t *testing.T) {
	for flag, want := range map[string]string{"int8": "BF16 with INT8 weights, template ", "int4": "BF16 with INT4"} {
		o := invoke(t, "", "--base", "starter", "--only", "base", "--quantize", flag, "--prompt", "x", "--max-tokens", "1",
			"--log", "")
		if _, absent := data.StarterModel(); absent == nil && (o.code != cli.Done || !strings.Contains(o.stderr, want)) {
			t.Errorf("--quantize %s: %v", flag, o)
		}
	}
}

// TestLoadError_NamesModelOnce checks that the error about a model that cannot be loaded names it once.
func TestLoadError_NamesModelOnce(t *testing.T) {
	dir := t.TempDir()
	o := invoke(t, "", "--tuned", dir, "--only", "tuned", "--device", "cpu", "--prompt", "x", "--log", "")
	if o.code != cli.Failed || strings.Count(o.stderr, dir) != 1 || !strings.Contains(o.stderr, "--tuned: model: ") {
		t.Errorf("%v", o)
	}
}

// TestNoDriver checks that chat says in one line that there is no GPU.
func TestNoDriver(t *testing.T) {
	o := invoke(t, "", "--base", tinyBase, "--only", "base", "--device", "cuda", "--prompt", "x", "--log", "")
	if o.code == cli.Done || !strings.Contains(o.stderr, "no NVIDIA driver") {
		t.Skip("this machine has a GPU's driver")
	}
	if o.code != cli.Failed || strings.Count(o.stderr, "\n") != 1 ||
		!strings.Contains(o.stderr, "libcuda.so.1 (not there)") {
		t.Errorf("%v", o)
	}
}

// TestLoadingIsShown checks that progress is shown from the first second on, and not for every chunk.
func TestLoadingIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes strings.Builder
		c := &chatter{status: &cli.StatusLine{W: &notes, Width: func() int { return 80 }}}
		show := c.showLoading("x")
		for done := int64(0); done <= 3e6; done += 1e5 { // 1 MB takes a second
			show(done, 3e6)
			time.Sleep(time.Second / 10)
		}
		lines := strings.Split(notes.String(), "\r")
		if !strings.Contains(lines[0], "loading x: 1.0 of 3.0 MB") ||
			!strings.Contains(lines[len(lines)-2], "loading x: 3.0 of 3.0 MB") {
			t.Errorf("%q", lines)
		}
		notes.Reset()
		for range 1000 {
			show(3e6, 3e6)
		}
		if n := strings.Count(notes.String(), "\r"); n != 1 {
			t.Errorf("drawn %d times at once", n)
		}
	})
}
