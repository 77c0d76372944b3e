package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestPaths_HoldFromAnyDirectory runs train with relative paths, and reads what it wrote from another directory: every
// path in every file still leads somewhere, the run resumes, and the model names its base. After the directory has
// moved, the model still does, and the links of its card still work.
func TestPaths_HoldFromAnyDirectory(t *testing.T) {
	tiny, err := filepath.Abs(tinyBase)
	expect.OK(t, err)
	from := filepath.Join(t.TempDir(), "here")
	rows := strings.Repeat(`{"instruction": "Count to three.", "output": "1, 2, 3"}`+"\n", 8)
	expect.OK(t, os.MkdirAll(filepath.Join(from, "models"), 0o777))
	expect.OK(t, os.CopyFS(filepath.Join(from, "models", "base-model"), os.DirFS(tiny)))
	expect.OK(t, os.WriteFile(filepath.Join(from, "models", "rows.jsonl"), []byte(rows), 0o666))
	t.Chdir(from)
	flags := func(up string) []string {
		return []string{"--model", up + "models/base-model", "--data", up + "models/rows.jsonl", "--out", up + "runs/mine",
			"--log-csv", up + "log.csv", "--benchmark-log", up + "all.csv", "--seq", "64", "--batch", "2", "--val", "0.25",
			"--samples", "1", "--save-every", "1"}
	}
	must(t, cli.Done, append(flags(""), "--max-steps", "2")...)
	if n := expect.Paths(t, from, []string{"runs"}, "settings"); n < 2 {
		t.Errorf("only %d paths were found", n)
	}
	check := func(out string) {
		t.Helper()
		base, err := infer.BaseOf(t.Context(), nil, out)
		if a, err1 := os.Stat(base); err != nil || err1 != nil || !a.IsDir() {
			t.Errorf("%s was made from %q: %v, %v", out, base, err, err1)
		}
	}
	check("runs/mine")
	elsewhere := filepath.Join(from, "..", "else", "where")
	expect.OK(t, os.MkdirAll(elsewhere, 0o777))
	t.Chdir(elsewhere)
	check("../../here/runs/mine")
	o := must(t, cli.Done, append(flags("../../here/"), "--max-steps", "4", "--resume")...)
	if !strings.Contains(o.stderr, "continuing after step 2 of") {
		t.Errorf("%v", o)
	}
	o = must(t, cli.Done, append(flags("../../here/"), "--max-steps", "4", "--resume")...) // it is finished
	if got := summaryOf(t, o); got.Out != "../../here/runs/mine" || got.Steps != 3 {
		t.Errorf("%v", o)
	}
	expect.OK(t, os.Rename(filepath.Join(from, "runs"), "moved"))
	check("moved/mine")
	expect.Paths(t, elsewhere, []string{"moved"}, "settings")
}

// TestCheckPaths_Inside checks that a result's directory may have nothing in it that the run reads or writes elsewhere.
func TestCheckPaths_Inside(t *testing.T) {
	dir := realDir(t)
	out, in := filepath.Join(dir, "out"), filepath.Join(dir, "out", "x.json")
	writeFile(t, filepath.Join(dir, "beside"), "")
	expect.OK(t, os.Mkdir(out, 0o777))
	writeFile(t, in, "")
	for flag, set := range map[string]func(o *options, path string){
		"model":        func(o *options, path string) { o.model = path },
		"from-scratch": func(o *options, path string) { o.fromScratch = path },
		"tokenizer":    func(o *options, path string) { o.tokenizer = path },
		"text":         func(o *options, path string) { o.text = []string{filepath.Join(dir, "beside"), path} },
		"vocab-data":   func(o *options, path string) { o.vocabData = path },
		"data": func(o *options, path string) {
			o.data.Files, o.data.columns = []string{"a/b", path}, make([]string, 2)
		},
		"write-batches": func(o *options, path string) { o.batchesFile, o.resume = path, true },
	} {
		o := &options{out: "OUT"}
		set(o, in)
		expect.Error(t, o.checkPaths(out), "--out OUT: contains --"+flag+" "+in+", and a later run would rename it")
		o = &options{out: "OUT"}
		set(o, filepath.Join(dir, "beside"))
		if err := o.checkPaths(out); err != nil {
			t.Errorf("--%s beside it: %v", flag, err)
		}
	}
	expect.Error(t, (&options{out: "OUT"}).checkPaths("/"), "--out OUT: is or contains the working directory")
}
