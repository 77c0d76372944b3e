package checkpoint

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
)

const kept = 2 // checkpoints that the tested process keeps

// writeForEver does what a training run does, as fast as it can: it resumes from the newest checkpoint, writes the next
// one, now and then the same one again, then the best one, and removes old ones. It reports what it has finished.
func writeForEver(root string) {
	found, _ := Latest(root)
	for step := found.Step; ; step++ {
		for range 1 + step%2 {
			err := Write(root, step, filler(content(step)))
			if err == nil {
				fmt.Println("wrote", step)
				err = Replace(filepath.Join(root, "best"), filler(content(step)))
			}
			if err == nil {
				fmt.Println("best", step)
				_, err = Keep(root, kept)
			}
			if err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
		}
	}
}

// TestKill_AtRandomMoments kills such a process again and again with SIGKILL at random moments. Whatever the process
// reported as written must exist and be complete, and everything with a checkpoint's name must be a complete
// checkpoint. The test only counts where the kills fall: TestSettle covers every state that a kill can leave, and
// TestKillAtEverySyscall every moment.
func TestKill_AtRandomMoments(t *testing.T) {
	kills := 60
	if testing.Short() {
		kills = 15
	}
	root := filepath.Join(t.TempDir(), "checkpoints")
	r := rand.New(rand.NewPCG(5, 6))
	phases := map[string]int{}
	wrote, best := -1, -1
	for range kills {
		cmd, _, out := child(t, "loop", root)
		first, err := out.ReadString('\n') // the process is running
		expect.OK(t, err)
		time.Sleep(time.Duration(r.IntN(40_000)) * time.Microsecond)
		expect.OK(t, cmd.Process.Kill())
		rest, err := io.ReadAll(out)
		expect.OK(t, err)
		cmd.Wait()
		phases[phase(t, root)]++
		for line := range strings.Lines(first + string(rest)) {
			what, number, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(line)
			}
			if what == "best" {
				best = n
			} else {
				wrote = n
			}
		}
		check(t, root, wrote, best)
	}
	t.Log(phases)
}

// phase returns the phase in which a kill fell, judging by what is left.
func phase(t *testing.T, root string) string {
	for _, name := range names(t, root) {
		switch {
		case strings.HasPrefix(name, beingWritten):
			if _, err := os.Stat(filepath.Join(root, name, sumsName)); err == nil {
				return "sealed, not in place"
			}
			return "being filled"
		case strings.HasPrefix(name, beingReplaced):
			if _, err := os.Stat(filepath.Join(root, strings.TrimPrefix(name, beingReplaced))); err != nil {
				return "between the renames"
			}
			return "in place, the old one still there"
		case strings.HasPrefix(name, beingRemoved):
			return "being removed"
		}
	}
	return "between two operations"
}

// check compares what a killed process has left with what it had reported: everything there must be complete, and the
// steps and the best that it wrote must exist.
func check(t *testing.T, root string, wrote, best int) {
	t.Helper()
	found, err := Latest(root)
	expect.OK(t, err)
	if found.Skipped != nil || found.Step < wrote || found.Step > wrote+1 {
		t.Fatalf("found %+v where step %d had been written", found, wrote)
	}
	there := names(t, root)
	for _, name := range there {
		dir := filepath.Join(root, name)
		expect.OK(t, Open(dir))
		got := read(t, dir)
		var step int
		if _, err := fmt.Sscanf(got["state.json"], `{"step": %d}`, &step); err != nil {
			t.Fatal(err)
		}
		switch {
		case name == "best" && (step < best || step > best+1):
			t.Fatalf("best is of step %d where %d had been written", step, best)
		case name != "best" && name != stepName(step):
			t.Fatalf("%s is of step %d", name, step)
		}
		if diff := cmp.Diff(content(step), got); diff != "" {
			t.Fatal(diff)
		}
	}
	if len(there) > kept+2 { // the best, and an old one that was still to be removed
		t.Fatalf("too much is there: %v", there)
	}
	if best >= 0 && there[0] != "best" {
		t.Fatal("the best is gone")
	}
}

// TestSettle checks every state that a kill can leave, made by hand, including those that are too short-lived for a
// random kill.
func TestSettle(t *testing.T) {
	root := func(names ...string) string { // a checkpoint of step 1 under each name except the unfinished ones
		dir := t.TempDir()
		write(t, dir, 1)
		for _, name := range names {
			from := filepath.Join(dir, stepName(1))
			expect.OK(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(from)))
			if strings.HasPrefix(name, beingWritten) || strings.HasPrefix(name, beingRemoved) {
				expect.OK(t, os.Remove(filepath.Join(dir, name, "model.safetensors")))
			}
		}
		return dir
	}
	for _, c := range []struct {
		name   string
		found  []string
		left   []string
		latest int
	}{
		{"filling", []string{".writing-step-000002"}, []string{"step-000001"}, 1},
		{"between the renames", []string{".writing-step-000002", ".replaced-step-000002"},
			[]string{"step-000001", "step-000002"}, 2},
		{"in place", []string{"step-000002", ".replaced-step-000002"}, []string{"step-000001", "step-000002"}, 2},
		{"removing what was replaced", []string{"step-000002", ".removed-step-000002"},
			[]string{"step-000001", "step-000002"}, 2},
		{"removing", []string{".removed-step-000002", ".removed-step-000003"}, []string{"step-000001"}, 1},
		{"all of it", []string{"best", ".writing-best", ".replaced-best", ".removed-best", ".replaced-step-000004",
			".removed-step-000004"},
			[]string{"best", "step-000001", "step-000004"}, 4},
		{"what is not ours", []string{".git", "step", ".writing"}, []string{".git", ".writing", "step", "step-000001"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, by := range []struct {
				name string
				call func(root string) error
				left []string
			}{
				{"Latest", func(root string) error { _, err := Latest(root); return err }, c.left},
				{"Keep", func(root string) error { _, err := Keep(root, 9); return err }, c.left},
				{"Write", func(root string) error { return Write(root, 1, filler(content(1))) }, c.left},
			} {
				dir := root(c.found...)
				if err := by.call(dir); err != nil {
					t.Fatal(by.name, err)
				}
				if diff := cmp.Diff(by.left, names(t, dir)); diff != "" {
					t.Error(by.name, diff)
				}
				found, err := Latest(dir)
				if c.name != "what is not ours" && (err != nil || found.Step != 1 && found.Dir != Dir(dir, c.latest) ||
					found.Skipped != nil) {
					// step-000002 and later hold the bytes of step 1; Latest does not read them
					t.Error(by.name, found, err)
				}
			}
		})
	}
	// Replace settles only its own directory and touches nothing else, because its parent may belong to anyone.
	dir := root("best", ".writing-best", ".replaced-best", ".writing-other", ".removed-other")
	expect.OK(t, Replace(filepath.Join(dir, "best"), filler(content(3))))
	if diff := cmp.Diff([]string{".removed-other", ".writing-other", "best", "step-000001"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// writeOnce does one round of a run, so that its system calls can be traced.
func writeOnce(root string) {
	err := Write(root, 3, filler(content(3)))
	if err == nil {
		err = Write(root, 3, filler(content(3)))
	}
	if err == nil {
		_, err = Keep(root, kept)
	}
	w := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(w, "done", err)
	w.Flush()
}
