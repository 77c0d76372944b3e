package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/cli/clitest"
	"restyle/internal/expect"
)

// TestNumberFlags_AtZero checks every flag that takes a number at 0, also where generation_config.json says something
// else, and what it refuses. Effects are counted in answers.
func TestNumberFlags_AtZero(t *testing.T) {
	model := t.TempDir()
	expect.OK(t, os.CopyFS(model, os.DirFS(tinyBase)))
	// answers returns how many different answers four seeds give, for a model whose generation_config.json has more
	// settings.
	answers := func(t *testing.T, config string, flags ...string) int {
		t.Helper()
		expect.OK(t, os.WriteFile(filepath.Join(model, "generation_config.json"),
			[]byte(`{"eos_token_id": 2, "do_sample": true, "temperature": 5, "top_k": 0`+config+"}"), 0o644))
		different := map[string]bool{}
		for _, seed := range []string{"0", "1", "2", "3"} {
			o := invoke(t, "", append([]string{"--base", model, "--only", "base", "--log", "", "--prompt", "Count to ten.",
				"--max-tokens", "8", "--seed", seed}, flags...)...)
			if o.code != cli.Done {
				t.Fatal(o)
			}
			different[o.stdout] = true
		}
		return len(different)
	}
	// overrules checks that a flag at 0 makes answers vary although the model's own setting does not let them.
	overrules := func(flag, config string) func(*testing.T) {
		return func(t *testing.T) {
			if n, all := answers(t, config), answers(t, config, flag, "0"); n != 1 || all == 1 {
				t.Errorf("%s: %d different answers, and %d with %s 0", config, n, all, flag)
			}
		}
	}
	clitest.Numbers(t, defaults().flags(io.Discard, io.Discard), map[string]clitest.Number{
		"max-tokens": {}, "top-p": {}, "repetition-penalty": {}, "context": {},
		"temperature": {Zero: func(t *testing.T) {
			if n, warm := answers(t, "", "--temperature", "0"), answers(t, ""); n != 1 || warm == 1 {
				t.Errorf("%d different answers, and %d at temperature 5", n, warm)
			}
		}},
		"top-k": {Zero: overrules("--top-k", `, "top_k": 1`)},
		"min-p": {Zero: overrules("--min-p", `, "min_p": 1`)},
		"seed": {Negative: true, Zero: func(t *testing.T) {
			args := []string{"--base", tinyBase, "--only", "base", "--log", "", "--prompt", "Count to ten.", "--max-tokens",
				"8", "--temperature", "5"}
			without, zero := invoke(t, "", args...), invoke(t, "", append(args, "--seed", "0")...)
			other := invoke(t, "", append(args, "--seed", "-1")...)
			if without.stdout != zero.stdout || zero.stdout == other.stdout {
				t.Errorf("without it %q, with 0 %q, with -1 %q", without.stdout, zero.stdout, other.stdout)
			}
		}},
		"threads": {Zero: func(t *testing.T) {
			var said []string
			for _, n := range []string{"0", "1"} {
				o := invoke(t, "", "--base", tinyBase, "--only", "base", "--log", "", "--prompt", "x", "--threads", n)
				said = append(said, o.stdout)
			}
			if said[0] == "" || said[0] != said[1] {
				t.Errorf("%q", said)
			}
		}},
	}, func(args ...string) (int, string) {
		o := invoke(t, "", append([]string{"--base", tinyBase, "--only", "base", "--log", "", "--prompt", "x"}, args...)...)
		return o.code, o.stderr
	})
}
