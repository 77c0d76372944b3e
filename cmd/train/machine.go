package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// buffers is what a process takes beside its arenas for reading, asking and saving a model, once data and tokenizer are there:
// measured, as the difference of getrusage's peaks. It does not grow with the model.
const buffers = 20 << 20

// sizeOf is how many bytes the files below a directory have.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// freeMemory is how many bytes a process can still take: what the system says is available, or what is left of the limit of
// this process's control group where there is one. 0 where that is not known.
func freeMemory() (bytes int) {
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
				bytes = n << 10
			}
		}
	}
	limit, used := readNumber("/sys/fs/cgroup/memory.max"), readNumber("/sys/fs/cgroup/memory.current")
	if left := limit - used; limit > 0 && left > 0 && (bytes == 0 || left < bytes) {
		bytes = left
	}
	return bytes
}

func readNumber(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
}

// peakMemory is the most memory that this process had, in bytes.
func peakMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return maxRSS(int64(u.Maxrss))
}
