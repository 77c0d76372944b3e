package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"restyle/internal/disk"
)

// Room is nil if a directory can take need bytes more. For a run that keeps n checkpoints it is asked for n+1: the new
// one is complete before an old one goes.
func Room(dir string, need int64) error {
	free, err := disk.Free(dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if need > free {
		return fmt.Errorf("%s needs %s and %s are free: make room or choose another folder", dir, inMiB(need), inMiB(free))
	}
	return nil
}

// failed says why a directory was not written, after so many bytes.
func failed(dir string, written int64, err error) error {
	err = fmt.Errorf("cannot write checkpoint %s: %w", dir, err)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		free := "an unknown rest is"
		if n, e := disk.Free(filepath.Dir(dir)); e == nil {
			free = inMiB(n) + " are"
		}
		return fmt.Errorf("%w: it had %s when there was no room for more, now %s free: make room; what was there before it is whole",
			err, inMiB(written), free)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: choose a folder that can be written", err)
	}
	return err
}

// size is how many bytes the files below a directory have.
func size(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
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
