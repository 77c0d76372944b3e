package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"restyle/internal/cli"
)

// rankVariable makes the test binary run the command, also as the ranks that it starts.
const rankVariable = "RESTYLE_TEST_RANK"

// TestStep_Ranks times steps of two processes: the tokens and the loss are of both together, and each has the memory
// that was planned.
func TestStep_Ranks(t *testing.T) {
	for _, shard := range []string{"optimizer", "weights"} {
		c := exec.Command(os.Args[0], "step", "--config", tinyModel(t), "--shapes", "2x16", "--device", "cpu", "--steps", "2",
			"--warmup", "1", "--ranks", "2", "--shard", shard, "--check")
		c.Env = append(os.Environ(), rankVariable+"=1")
		out, err := c.CombinedOutput()
		rows := cells(string(out))
		if err != nil || len(rows) != 1 || rows[0][0] != "2x16x1 on 2 ranks" || !strings.HasPrefix(rows[0][10], "4.") {
			t.Errorf("%s: %v: %s", shard, err, out) // the loss of a guess among 64 tokens is 4.2
		}
	}
	for flags, want := range map[string]string{"--device cuda:0,0": "--device \"cuda:0,0\": must list different GPUs",
		"--ranks 2 --seconds 1": "--seconds and beside are for one rank"} {
		if code, _, errs := bench(t, append([]string{"step"}, strings.Fields(flags)...)...); code != cli.Usage ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", flags, code, errs)
		}
	}
}
