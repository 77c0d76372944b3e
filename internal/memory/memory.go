// Package memory reports how much more memory this process can allocate, within the machine and its control group.
package memory

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Free returns the number of bytes that this process can get before the system runs out of memory or kills a process,
// and what limits them, such as "this machine". It counts what the system would reclaim first, such as the page cache,
// but no swap space. If the number is unknown, ok is false.
func Free() (bytes int, whose string, ok bool) { return free() }

// Resident returns the number of bytes of memory that this process occupies now. They are not part of Free. It returns
// 0 if the number is unknown, or if Free does not subtract it.
func Resident() int { return resident() }

// freeIn does what Free does on Linux, from the files of /proc and /sys below root. It returns the minimum of what the
// machine has left, what is left of the address space, and what is left of the limit of each control group that the
// process is in, of version 1 or 2.
func freeIn(root fs.FS) (bytes int, whose string, ok bool) {
	bytes = math.MaxInt
	lower := func(n int, of string) {
		if n < bytes {
			bytes, whose, ok = max(n, 0), of, true
		}
	}
	if n, found := field(root, "proc/meminfo", "MemAvailable:"); found {
		lower(n<<10, "this machine")
	}
	if n, found := addressSpace(root); found {
		lower(n, "the limit of the address space (ulimit -v)")
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) < 3 {
			continue
		}
		version := version2
		if parts[1] != "" {
			if version = version1; !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
		}
		// A group's limit applies to all groups below it. In a container, the path may be the one outside the container, and
		// only its root exists.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			if n, found := version.left(root, dir); found {
				lower(n, "control group "+dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	return bytes, whose, ok
}

// addressSpace returns how much more address space the process may take, if that is limited.
func addressSpace(root fs.FS) (bytes int, found bool) {
	const name = "Max address space"
	limits, _ := fs.ReadFile(root, "proc/self/limits")
	used, known := field(root, "proc/self/status", "VmSize:")
	for line := range strings.Lines(string(limits)) {
		if words := strings.Fields(strings.TrimPrefix(line, name)); strings.HasPrefix(line, name) && len(words) > 0 {
			limit, err := strconv.Atoi(words[0]) // not a number: "unlimited"
			return limit - used<<10, err == nil && known
		}
	}
	return 0, false
}

// A cgroup holds the file names of one version of control groups.
type cgroup struct {
	mount, limit, usage string
	cache               []string // bytes of files in memory.stat, which the system frees before it kills a process
}

var (
	version1 = cgroup{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		[]string{"total_inactive_file", "total_active_file"}}
	version2 = cgroup{"sys/fs/cgroup", "memory.max", "memory.current", []string{"inactive_file", "active_file"}}
)

// left returns what is left of a group's limit. found is false if the group has none.
func (c cgroup) left(root fs.FS, dir string) (bytes int, found bool) {
	dir = path.Join(c.mount, dir)
	limit, limited := field(root, path.Join(dir, c.limit), "")
	usage, used := field(root, path.Join(dir, c.usage), "")
	if !limited || !used {
		return 0, false
	}
	for _, name := range c.cache {
		n, _ := field(root, path.Join(dir, "memory.stat"), name)
		usage -= n
	}
	return limit - max(usage, 0), true
}

// field returns the number that follows a name, in a file with a name and a number per line. If name is empty, it
// returns the number at the beginning of the file.
func field(root fs.FS, file, name string) (n int, found bool) {
	data, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if name != "" && len(words) > 0 && words[0] == name {
			words = words[1:]
		} else if name != "" {
			continue
		}
		if len(words) == 0 {
			return 0, false
		}
		n, err := strconv.Atoi(words[0]) // not a number: "max"
		return n, err == nil && n >= 0
	}
	return 0, false
}
