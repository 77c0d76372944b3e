package main

import (
	"io/fs"
	"path/filepath"

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

// peakMemory is the most memory that this process had, in bytes.
func peakMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return maxRSS(int64(u.Maxrss))
}
