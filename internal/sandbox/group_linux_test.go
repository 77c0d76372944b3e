//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

// TestGroupParents checks where a control group is tried, for the ways in which machines mount control groups.
func TestGroupParents(t *testing.T) {
	for _, c := range []struct {
		name, own, mounts string
		delegated         []string // directories that give the memory controller to those in them
		want              []string
	}{
		{"version 2, a service of the user", "0::/user.slice/user@1.service/app.slice/a.scope\n",
			"30 20 0:26 / $/cgroup rw - cgroup2 cgroup2 rw\n", []string{"user.slice", "user.slice/user@1.service/app.slice"},
			[]string{"user.slice/user@1.service/app.slice", "user.slice"}},
		{"version 2, a container", "0::/\n", "30 20 0:26 / $/cgroup ro - cgroup2 cgroup2 rw\n", []string{"."}, []string{"."}},
		{"version 2, a path of the machine", "0::/../../a\n", "30 20 0:26 /x $/cgroup rw - cgroup2 cgroup2 rw\n",
			[]string{"."}, []string{"."}},
		{"version 2, nothing delegated", "0::/a\n", "30 20 0:26 / $/cgroup rw - cgroup2 cgroup2 rw\n", nil, nil},
		{"version 1", "5:cpu:/b\n4:memory:/a\n0::/c\n",
			"30 20 0:26 / $/cpu rw - cgroup cgroup rw,cpu\n31 20 0:27 / $/cgroup rw - cgroup cgroup rw,memory\n", nil,
			[]string{"a"}},
		{"version 1, after lines that are cut", "x\n4:memory:/a\n",
			"30 20 0:26 / - cgroup cgroup rw,memory\n30 20 0:26 / $/x rw - cgroup cgroup\n" +
				"31 20 0:27 / $/cgroup - cgroup cgroup rw,memory\n", nil, []string{"a"}},
		{"version 1, a container", "4:memory:/docker/1\n",
			"31 20 0:27 /docker/1 $/cgroup rw - cgroup cgroup rw,memory\n", nil,
			[]string{"."}},
		{"none", "", "30 20 0:26 / / rw - ext4 /dev/a rw\n", nil, nil},
	} {
		dir := t.TempDir()
		files := map[string]string{"own": c.own, "mounts": strings.ReplaceAll(c.mounts, "$", dir)}
		for _, d := range c.delegated {
			files[filepath.Join("cgroup", d, "cgroup.subtree_control")] = "cpu memory pids\n"
		}
		for name, text := range files {
			path := filepath.Join(dir, name)
			expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
		}
		var got []string
		for _, kind := range groupKinds(1) {
			for _, parent := range kind.parents(filepath.Join(dir, "own"), filepath.Join(dir, "mounts")) {
				inside, err := filepath.Rel(filepath.Join(dir, "cgroup"), parent)
				if err != nil {
					t.Error(err)
				}
				got = append(got, inside)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestGroup_LimitsMemory checks that the kernel ends what has more memory than its group may, and that no group is left
// behind, not even by a process that was killed.
func TestGroup_LimitsMemory(t *testing.T) {
	const limit = 64 << 20
	switch flag.Arg(0) {
	case inside: // waits until it is in its group, and then takes too much
		_, _ = io.Copy(io.Discard, os.Stdin)
		for i := range taken {
			taken[i] = 1
		}
		os.Exit(3)
	case handed: // makes a group and waits to be killed
		groups := NewGroups(limit)
		group := groups.Put(os.Getpid())
		if group == nil {
			os.Exit(3)
		}
		fmt.Println(group.dir)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	start := func(how string) (c *exec.Cmd, in io.WriteCloser, out io.Reader) {
		c = exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", how)
		in, err := c.StdinPipe()
		out, err2 := c.StdoutPipe()
		expect.OK(t, errors.Join(err, err2, c.Start()))
		return c, in, out
	}
	groups := NewGroups(limit)
	defer groups.Close()
	c, in, _ := start(inside)
	group := groups.Put(c.Process.Pid)
	settings := map[string]string{}
	if group != nil { // while it has its process
		for _, name := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "memory.limit_in_bytes",
			"memory.swappiness", "memory.memsw.limit_in_bytes"} {
			if text, err := os.ReadFile(filepath.Join(group.dir, name)); err == nil {
				settings[name] = strings.TrimSpace(string(text))
			}
		}
	}
	keeper := groups.keeper
	_ = in.Close()
	err := c.Wait()
	if group == nil {
		t.Skip("no control group can be made here")
	}
	for name, got := range settings {
		want := strconv.Itoa(limit)
		switch name {
		case "memory.swap.max", "memory.swappiness":
			want = "0"
		case "memory.oom.group":
			want = "1"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if err := groups.keep(filepath.Join(t.TempDir(), "none")); err != nil || groups.keeper != keeper {
		t.Errorf("a second process keeps groups: %v", err)
	}
	if err == nil || c.ProcessState.ExitCode() == 3 || !group.Exceeded() || group.Exceeded() {
		t.Errorf("a process that took %d MiB: %v", len(taken)>>20, err)
	}
	group.Close()
	gone(t, group.dir)

	c, in, out := start(handed)
	defer in.Close()
	var dir string
	if _, err := fmt.Fscanln(out, &dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	gone(t, dir)
}

// taken is more than the limit of TestGroup_LimitsMemory.
var taken [256 << 20]byte

// gone waits until a directory does not exist.
func gone(t *testing.T, dir string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s is left behind", dir)
		}
	}
}
