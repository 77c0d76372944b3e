package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// resultsFile writes a results.json with a table of these rows, and returns its directory.
func resultsFile(t *testing.T, rows ...string) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`{"format":1,"machine":{},"tables":[{"name":"kernels","columns":[
{"name":"op","type":"text","role":"key"},{"name":"ms","type":"number","role":"time"},
{"name":"noise","type":"number","role":"noise"}],"rows":[%s]}]}`, strings.Join(rows, ","))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "results.json"), []byte(text), 0o644))
	return dir
}

func TestCompare(t *testing.T) {
	const add, mul = `{"op":"add","ms":1,"noise":0.01}`, `{"op":"mul","ms":2,"noise":0.01}`
	a := resultsFile(t, add, mul)
	slow := resultsFile(t, `{"op":"add","ms":1.06,"noise":0.01}`, `{"op":"mul","ms":1,"noise":0.01}`)
	noisy := resultsFile(t, `{"op":"add","ms":1.06,"noise":0.1}`, mul)
	for _, c := range []struct {
		args string
		code int
		want string // on either output
	}{
		{a + " " + a + " --max-slowdown 0", cli.Done, "the same within ±1%"},
		{a + " " + slow, cli.Done, "2 times as fast, ±1%"},
		{a + " " + slow + " --max-slowdown 5%", cli.Failed, "too slow: kernels: add: 6.0% slower"},
		{"--max-slowdown=0.07 " + a + " " + slow, cli.Done, "0.943 times as fast, ±1%"},
		{slow + " " + a + " --max-slowdown 5%", cli.Failed, "too slow: kernels: mul: 100.0% slower"},
		{a + " " + filepath.Join(noisy, "results.json") + " --max-slowdown 5%", cli.Done, "the same within ±10%"},
		{a + " " + resultsFile(t, add) + " --max-slowdown 5%", cli.Failed, "of 2 rows, 0 slower by more than 5%, 1 lost"},
		{a + " " + resultsFile(t, add), cli.Done, "only in the first: kernels: mul"},
		{a + " " + resultsFile(t), cli.Failed, "no row in common"},
		{a + " " + filepath.Join(a, "none"), cli.Failed, "no such file"},
		{a + " " + resultsFile(t, add, add), cli.Failed, `two rows "add"`},
		{a, cli.Usage, "1 file: name two"},
		{a + " " + a + " --max-slowdown fast", cli.Usage, `--max-slowdown "fast": must be`},
		{a + " " + a + " --max-slowdown -5%", cli.Usage, `--max-slowdown "-5%": must be`},
		{a + " " + a + " --max-slowdown NaN", cli.Usage, "must be a share"},
	} {
		code, stdout, stderr := bench(t, append([]string{"compare"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit %d\n%s%s\nwant %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}
