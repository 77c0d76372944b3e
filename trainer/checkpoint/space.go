package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"restyle/internal/disk"
)

// Room returns an error if the disk of a directory has less than need bytes free. For a run that keeps n checkpoints,
// need is the size of n+1: the new one is complete before an old one is deleted.
func Room(dir string, need int64) error {
	free, err := disk.Free(dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if need > free {
		return fmt.Errorf("%s needs %s, but only %s are free: free some space, or choose another directory", dir, inMiB(need),
			inMiB(free))
	}
	return nil
}

// failed returns the error of writing a directory of which only written bytes could be written.
func failed(dir string, written int64, err error) error {
	err = fmt.Errorf("cannot write checkpoint %s: %w", dir, err)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		free := "an unknown rest is"
		if n, e := disk.Free(filepath.Dir(dir)); e == nil {
			free = inMiB(n) + " are"
		}
		return fmt.Errorf("%w: the disk was full after %s, and now %s free: free some space; earlier checkpoints are intact",
			err, inMiB(written), free)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: choose a directory that can be written", err)
	}
	return err
}

// Size returns the total size of all files below a directory.
func Size(dir string) (n int64) {
	_ = disk.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

func inMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
