//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// perMapping is the memory that a mapping counts for, whatever it maps. The kernel's record of it takes less; the rest
// makes counting stop early for a process that has tens of thousands.
const perMapping = 4 << 10

// Memory returns the bytes of memory that a process and all that descend from it have, those that are swapped out, page
// tables, mappings and sockets included, or 0 if that is not known. It stops counting beyond limit. Memory that the
// kernel can drop at once, such as the pages of a program's file, does not count.
//
// A process that Command started cannot keep other memory: see allowed.
func Memory(pid, limit int) int {
	processes := descendants(pid)
	used := 0
	for _, p := range processes {
		used += 1 << 10 * fields(p+"/status", "RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:")
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/sockstat", pid)); err == nil {
		var n int
		_, _ = fmt.Sscanf(string(text), "sockets: used %d", &n)
		used += n * perSocket()
	}
	for _, p := range processes {
		if used > limit {
			break
		}
		used += perMapping * mappings(p, (limit-used)/perMapping+1)
	}
	return used
}

// perSocket returns what a socket may keep: the system's limit, which is checked before a packet is added.
func perSocket() int {
	text, _ := os.ReadFile("/proc/sys/net/core/wmem_default")
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n + 64<<10
}

// descendants returns the directories in /proc of a process and all that descend from it.
func descendants(pid int) (processes []string) {
	left := []string{strconv.Itoa(pid)}
	for len(left) > 0 && len(processes) < 1000 {
		dir := "/proc/" + left[0]
		left = left[1:]
		processes = append(processes, dir)
		tasks, _ := os.ReadDir(dir + "/task")
		for _, t := range tasks {
			children, _ := os.ReadFile(dir + "/task/" + t.Name() + "/children")
			left = append(left, strings.Fields(string(children))...)
		}
	}
	return processes
}

// fields returns the sum of some numbers in a file that has a name and a number per line.
func fields(file string, names ...string) (sum int) {
	text, _ := os.ReadFile(file)
	for line := range bytes.Lines(text) {
		for _, name := range names {
			if rest, found := bytes.CutPrefix(line, []byte(name)); found {
				n, _ := strconv.Atoi(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))))
				sum += n
			}
		}
	}
	return sum
}

// mappings returns the number of a process's mappings, up to about limit.
func mappings(process string, limit int) (n int) {
	file, err := os.Open(process + "/maps")
	if err != nil {
		return 0
	}
	defer file.Close()
	piece := make([]byte, 16<<10)
	for n < limit {
		k, err := io.ReadFull(file, piece)
		n += bytes.Count(piece[:k], []byte("\n"))
		if err != nil {
			break
		}
	}
	return n
}
