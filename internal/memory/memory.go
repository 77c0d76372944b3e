// Package memory tells how much memory a process can still get.
package memory

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Free returns how many bytes this process can get before the system runs out of memory or ends a process, and whose
// bytes these are, such as "this machine". It counts what the system would reclaim first, such as the page cache, but
// no swap space. If the number is not known, ok is false.
func Free() (bytes int, whose string, ok bool) { return free() }

// Resident returns how many bytes of memory this process has now. What it has is no part of Free. If the number is not
// known, or Free does not take it off, it is 0.
func Resident() int { return resident() }

// freeIn is Free on Linux, from the files of /proc and /sys: the least of what the machine has and what is left of the
// limit of each control group that the process is in, of version 1 or 2. root is the root directory.
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
		// A group's limit holds for all groups below it. In a container, the path may be the one outside, of which only the
		// root exists.
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

// A cgroup has the file names of a version of control groups.
type cgroup struct {
	mount, limit, usage string
	cache               []string // bytes of files in memory.stat, which the system frees before it kills a process
}

var (
	version1 = cgroup{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		[]string{"total_inactive_file", "total_active_file"}}
	version2 = cgroup{"sys/fs/cgroup", "memory.max", "memory.current", []string{"inactive_file", "active_file"}}
)

// left returns what is left of a group's limit. found is false if it has none.
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

// field returns the number that follows a name in a file with a name and a number in each line, or at the beginning of
// the file if the name is empty.
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
