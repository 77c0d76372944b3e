//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// keeper is the name under which this program starts itself to remove control groups.
const keeper = "restyle-groups"

func init() {
	if len(os.Args) == 1 && os.Args[0] == keeper {
		keep(os.Stdin)
		os.Exit(0)
	}
}

// keep reads names of directories until the process that writes them has ended, however that happened, and then removes
// those that are left.
func keep(names io.Reader) {
	var dirs []string
	for lines := bufio.NewScanner(names); lines.Scan(); {
		dirs = append(dirs, lines.Text())
	}
	for _, dir := range dirs {
		remove(dir)
	}
}

// remove removes a control group. The processes in it are about to end.
func remove(dir string) {
	for range 1000 {
		if err := os.Remove(dir); !errors.Is(err, syscall.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Groups makes memory control groups. None is left behind, not even if this process is killed.
type Groups struct {
	limit  int
	mutex  sync.Mutex
	keeper *exec.Cmd
	names  io.WriteCloser
}

// NewGroups returns a Groups for groups of at most limit bytes each. Close must be called on it.
func NewGroups(limit int) *Groups { return &Groups{limit: limit} }

// A Group is a memory control group: the kernel counts all memory that its processes cause, and if they have more than
// the limit, it ends one of them or all.
type Group struct {
	dir   string
	kind  groupKind
	kills int
}

// A groupKind is a version of control groups.
type groupKind struct {
	fs       string      // type of the file system
	settings [][2]string // files and values; of those after the first, some kernels lack some
	kills    string      // a file with the number of processes that the kernel has ended, after "oom_kill"
}

// groupKinds returns both versions, with a limit in bytes.
func groupKinds(limit int) []groupKind {
	most := strconv.Itoa(limit)
	return []groupKind{
		{"cgroup2", [][2]string{{"memory.max", most}, {"memory.swap.max", "0"}, {"memory.oom.group", "1"}}, "memory.events"},
		{"cgroup", [][2]string{{"memory.limit_in_bytes", most}, {"memory.swappiness", "0"},
			{"memory.memsw.limit_in_bytes", most}}, "memory.oom_control"},
	}
}

// Put makes a group and puts a process into it, with the processes that it will start. It returns nil if this machine
// lets this user make none. The process must not have started others.
func (g *Groups) Put(pid int) *Group {
	for _, kind := range groupKinds(g.limit) {
		for _, parent := range kind.parents("/proc/self/cgroup", "/proc/self/mountinfo") {
			if group := g.put(pid, parent, kind); group != nil {
				return group
			}
		}
	}
	return nil
}

func (g *Groups) put(pid int, parent string, kind groupKind) *Group {
	dir, err := os.MkdirTemp(parent, "restyle-")
	if err != nil {
		return nil
	}
	err = g.keep(dir)
	for i, s := range kind.settings {
		if e := write(filepath.Join(dir, s[0]), s[1]); i == 0 {
			err = errors.Join(err, e)
		}
	}
	if err == nil {
		err = write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	}
	if err != nil {
		remove(dir)
		return nil
	}
	return &Group{dir: dir, kind: kind}
}

// write writes to a file that exists.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// keep makes a process remove a directory if this one cannot.
func (g *Groups) keep(dir string) (err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.keeper == nil {
		c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeper}, Env: []string{}, Dir: "/",
			SysProcAttr: &syscall.SysProcAttr{Setsid: true}} // a Ctrl-C does not reach it
		if g.names, err = c.StdinPipe(); err == nil {
			err = c.Start()
		}
		if err != nil {
			return err
		}
		g.keeper = c
	}
	_, err = fmt.Fprintln(g.names, dir)
	return err
}

// Close waits until all groups are removed. All must have been closed.
func (g *Groups) Close() {
	if g.keeper != nil {
		_ = g.names.Close()
		_ = g.keeper.Wait()
	}
}

// parents returns the directories in which a group may be possible, from the text of the two files.
func (k groupKind) parents(own, mounts string) (dirs []string) {
	point, root := k.mount(mounts)
	if point == "" {
		return nil
	}
	text, _ := os.ReadFile(own)
	for line := range strings.Lines(string(text)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		first := k.fs == "cgroup"
		if first != slices.Contains(strings.Split(controllers, ","), "memory") || !first && number != "0" {
			continue
		}
		inside, err := filepath.Rel(root, path)
		if err != nil || strings.HasPrefix(inside, "..") { // of a container, whose own path only the machine knows
			inside = "."
		}
		dir := filepath.Join(point, inside)
		if first {
			return []string{dir}
		}
		for ; ; dir = filepath.Dir(dir) {
			control, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
			if slices.Contains(strings.Fields(string(control)), "memory") {
				dirs = append(dirs, dir)
			}
			if dir == point || dir == "/" {
				return dirs
			}
		}
	}
	return nil
}

// mount returns where the memory controller's file system is, and which of its directories that is.
func (k groupKind) mount(mounts string) (point, root string) {
	text, _ := os.ReadFile(mounts)
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f, fs := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(fs) < 3 || fs[0] != k.fs {
			continue
		}
		if k.fs == "cgroup2" || slices.Contains(strings.Split(fs[2], ","), "memory") {
			return f[4], f[3]
		}
	}
	return "", ""
}

// Exceeded reports whether the kernel has ended a process of the group since the last call, because of the limit.
func (g *Group) Exceeded() bool {
	last := g.kills
	g.kills = fields(filepath.Join(g.dir, g.kind.kills), "oom_kill ")
	return g.kills > last
}

// Close removes the group, whose processes have ended.
func (g *Group) Close() { remove(g.dir) }
