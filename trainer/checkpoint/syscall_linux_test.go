package checkpoint

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
)

// strace can kill at moments that a timer cannot hit.

func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v %s", err, out)
	}
}

// TestKillAtEverySyscall kills the process at the k-th call of each kind that changes the disk, for every k.
func TestKillAtEverySyscall(t *testing.T) {
	needStrace(t)
	if testing.Short() {
		t.Skip("takes a process a system call")
	}
	points := 0
	for _, call := range []string{"/^mkdir", "write", "fsync", "/^rename", "/^unlink"} {
		for k := 1; ; k++ {
			root := t.TempDir()
			write(t, root, 1)
			write(t, root, 2)
			cmd, in, out := child(t, "once", root, "strace", "-f", "-o", os.DevNull, "-e",
				fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, k))
			in.Close()
			said, err := io.ReadAll(out)
			expect.OK(t, err)
			cmd.Wait()
			found, err := Latest(root)
			if err != nil || found.Skipped != nil || found.Step < 2 {
				t.Fatalf("%s %d: found %+v, %v", call, k, found, err)
			}
			for _, name := range names(t, root) {
				if err := Open(filepath.Join(root, name)); err != nil {
					t.Fatalf("%s %d: %v", call, k, err)
				}
			}
			if string(said) == "done <nil>\n" {
				break
			}
			points++
		}
	}
	t.Logf("%d kills", points)
	if points < 20 {
		t.Errorf("only %d kills", points)
	}
}
