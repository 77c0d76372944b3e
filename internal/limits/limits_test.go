//go:build linux && cgo

package limits

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLimits_EndInOneLine starts this program, which imports the package as the commands do, with each limit too low:
// it ends before Go's runtime starts, with one line. The limits are not so low that the shell or the loader fails.
func TestLimits_EndInOneLine(t *testing.T) {
	if os.Getenv("RESTYLE_LIMITED") != "" {
		return
	}
	for _, c := range []struct{ limit, says string }{
		{"-v 100000", ": the address space is limited to 97 MiB: it needs "},
		{"-v 800000", ": the address space is limited to 781 MiB: it needs "},
		{"-v 1250000", ": the address space is limited to 1220 MiB: it needs "},
		{"-d 100000", ": memory is limited to 97 MiB: it needs "},
		{"-n 16", ": the number of open files is limited to 16: it needs 32 "},
		{"-s 256", ": the stack is limited to 256 KiB: it needs 512 KiB "},
		{"-n 256", "PASS"},
	} {
		cmd := exec.Command("sh", "-c", `ulimit `+c.limit+` && exec "$0" -test.run TestLimits_EndInOneLine`, os.Args[0])
		cmd.Env = []string{"RESTYLE_LIMITED=1"}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); !strings.Contains(got, c.says) || strings.Contains(got, "\n") ||
			(err == nil) != (c.says == "PASS") {
			t.Errorf("ulimit %s: %v: %.500s", c.limit, err, got)
		}
	}
}
