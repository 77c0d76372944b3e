package checkpoint

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// These tests look at and interfere with system calls through strace, which kills at moments that no clock can hit.

func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v %s", err, out)
	}
}

// TestSyncOrder holds the order of fsync and rename against the protocol. SIGKILL cannot show a missing fsync: what was
// written stays in the page cache. A power cut would.
func TestSyncOrder(t *testing.T) {
	needStrace(t)
	root := t.TempDir()
	for step := 1; step <= 2; step++ {
		write(t, root, step)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	_, in, out := child(t, "once", root, "strace", "-f", "-y", "-s", "4096", "-o", trace, "-e", "trace=fsync,fdatasync,/^rename,/^unlink")
	in.Close()
	if said, err := io.ReadAll(out); err != nil || string(said) != "done <nil>\n" {
		t.Fatal(string(said), err)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	// The trace as short lines: "sync NAME", "rename FROM TO", "unlink NAME", names relative to root.
	var events []string
	call := regexp.MustCompile(`(fsync|fdatasync|rename\w*|unlink\w*)\((.*)`)
	quoted := regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|<([^>]*)>`)
	for line := range strings.Lines(string(data)) {
		m := call.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		event := map[byte]string{'f': "sync", 'r': "rename", 'u': "unlink"}[m[1][0]]
		for _, arg := range quoted.FindAllStringSubmatch(m[2], -1) {
			if rel, err := filepath.Rel(root, arg[1]+arg[2]); err == nil && !strings.HasPrefix(rel, "..") {
				event += " " + rel
			}
		}
		events = append(events, event)
	}
	index := func(event string, from int) int {
		if i := slices.Index(events[from:], event); i >= 0 {
			return from + i
		}
		t.Fatalf("no %q behind event %d in\n%s", event, from, strings.Join(events, "\n"))
		return 0
	}
	temp := beingWritten + "step-000003"
	at := 0
	for round := range 2 {
		rename := index("rename "+temp+" step-000003", at)
		last := 0
		for name := range content(3) {
			// strace writes what is not ASCII as octal escapes
			name = regexp.MustCompile(`[^ -~]`).ReplaceAllStringFunc(name, func(s string) (o string) {
				for _, b := range []byte(s) {
					o += fmt.Sprintf(`\%o`, b)
				}
				return o
			})
			last = max(last, index("sync "+filepath.Join(temp, name), at))
		}
		sums := index("sync "+filepath.Join(temp, sumsName), last)
		inner := index("sync "+filepath.Join(temp, "optimizer"), sums)
		outer := index("sync "+temp, inner)
		if outer > rename {
			t.Error("renamed before it was on the disk")
		}
		at = index("sync .", rename)
		if round == 1 { // only now may the old one go
			gone := index("rename "+filepath.Join(beingReplaced+"step-000003")+" "+beingRemoved+"step-000003", at)
			at = index("sync .", gone)
		}
	}
	gone := index("rename step-000001 "+beingRemoved+"step-000001", at)
	synced := index("sync .", gone)
	for i, event := range events[at:synced] {
		if strings.HasPrefix(event, "unlink "+beingRemoved+"step-000001") {
			t.Errorf("event %d: %s before the new name was on the disk", at+i, event)
		}
	}
}

// TestKillAtEverySyscall kills at the k-th call of each kind that changes the disk, for every k there is.
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
			cmd, in, out := child(t, "once", root, "strace", "-f", "-o", os.DevNull, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, k))
			in.Close()
			said, err := io.ReadAll(out)
			if err != nil {
				t.Fatal(err)
			}
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
