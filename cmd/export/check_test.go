package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestCheck gives each flag by itself and with the flags that it does not go with.
func TestCheck(t *testing.T) {
	paths := []string{"in", filepath.Join(t.TempDir(), "out")}
	for _, c := range []struct {
		weights, rounding string
		text, threads     int
		given             string
		paths             []string
		want              string
	}{
		{"int4", "gptq", 1, 0, "", paths, ""}, {"int8", "gptq", 9, 0, "weights", paths, ""},
		{"int8", "nearest", 9, 1024, "weights rounding", paths, ""}, {"int4", "gptq", 9, 0, "rounding text", paths, ""},
		{"int4", "nearest", 9, 0, "rounding", paths, ""}, {"int4", "nearest", 9, 0, "rounding text", paths,
			"--text is for"},
		{"int8", "gptq", 9, 0, "rounding", paths, "--rounding gptq is for int4"},
		{"int8", "gptq", 9, 0, "text", paths, "--text is for"}, {"int2", "gptq", 9, 0, "", paths, `--weights "int2"`},
		{"", "gptq", 9, 0, "", paths, "there is no --weights"},
		{"int4", "x", 9, 0, "", paths, `--rounding "x"`}, {"int4", "gptq", 0, 0, "", paths, "--text 0"},
		{"int4", "gptq", 9, 1025, "", paths, "--threads 1025"}, {"int4", "gptq", 9, -1, "", paths, "--threads -1"},
		{"int4", "gptq", 9, 0, "", paths[:1], "1 path: name two"}, {"int4", "gptq", 9, 0, "", nil, "0 paths: name two"},
		{"int4", "gptq", 9, 0, "", []string{"a", "b", "c"}, "3 paths: name two"},
	} {
		o := options{weights: c.weights, rounding: c.rounding, text: c.text, threads: c.threads}
		err := o.checkFirst(c.paths)
		if err == nil {
			err = o.check(c.paths, func(flag string) bool { return strings.Contains(" "+c.given+" ", " "+flag+" ") })
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMissing checks which directories have to be made, however the path is written.
func TestMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	expect.OK(t, os.Mkdir("there", 0o777))
	for path, want := range map[string]string{"there": "", "there/": "", ".": "", "/": "", "a": "a", "a/b": "a/b a",
		"a//b/": "a/b a", "there/../a": "a", "there/a/b": "there/a/b there/a"} {
		if got := strings.Join(missing(path), " "); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
