package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// The names of a directory that is not in place, before its own name. They are fixed, so that what a killed run leaves
// does not pile up.
const (
	beingWritten  = ".writing-"
	beingReplaced = ".replaced-"
	beingRemoved  = ".removed-"
)

// Replace makes one directory, such as <out>/checkpoints/best, in the way of [Write]: at every moment its name stands
// for the old directory, the new one or, for the instant between two renames, neither. A run that is killed in that
// instant leaves the old one, which gets its name back from the next Replace, or from Write or Latest in its parent.
func Replace(dir string, fill func(dir string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return failed(dir, 0, err)
	}
	if err := settle(dir); err != nil {
		return err
	}
	temp := beside(dir, beingWritten)
	err := os.Mkdir(temp, 0o777)
	if err == nil {
		err = fill(temp)
	}
	if err == nil {
		err = seal(temp)
	}
	if err != nil {
		written := size(temp)
		disk.RemoveAll(temp) // what cannot be removed now is removed by the next settle
		return failed(dir, written, err)
	}
	return place(temp, dir)
}

// place gives a sealed directory its name.
func place(temp, dir string) error {
	old := beside(dir, beingReplaced)
	var err error
	hadOld := exists(dir)
	if hadOld {
		err = disk.Rename(dir, old) // for a rename does not replace a directory that has files
	}
	if err == nil {
		err = disk.Rename(temp, dir)
	}
	if err != nil {
		return errors.Join(failed(dir, 0, err), settle(dir))
	}
	if err := disk.SyncDir(filepath.Dir(dir)); err != nil {
		return failed(dir, 0, err)
	}
	if hadOld {
		return remove(old, beside(dir, beingRemoved))
	}
	return nil
}

// seal makes a filled directory complete: its files on the disk, and SHA256SUMS to tell.
func seal(dir string) error {
	names, dirs, err := files(dir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("nothing was written into it")
	}
	entries, err := digest(dir, names, true)
	if err != nil {
		return err
	}
	f, err := disk.Open(filepath.Join(dir, sumsName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(formatSums(entries))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	for i := len(dirs) - 1; i >= 0; i-- { // from the inside out
		if err := disk.SyncDir(dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a directory that Write or Replace made. A kill in the middle leaves all of it or nothing under its name.
func Remove(dir string) error { return remove(dir, beside(dir, beingRemoved)) }

// remove takes a directory out of sight, under the name gone, and then away.
func remove(dir, gone string) error {
	err := discard(gone)
	if err == nil {
		err = disk.Rename(dir, gone)
	}
	if err == nil {
		// The new name first: files that go while the old one is still on the disk would leave half a checkpoint.
		err = disk.SyncDir(filepath.Dir(dir))
	}
	if err == nil {
		err = disk.RemoveAll(gone)
	}
	if err != nil {
		return fmt.Errorf("cannot remove checkpoint %s: %w", dir, err)
	}
	return nil
}

// settle clears up what a killed run has left of one directory.
func settle(dir string) error {
	err := errors.Join(discard(beside(dir, beingWritten)), discard(beside(dir, beingRemoved)))
	if old := beside(dir, beingReplaced); exists(old) {
		if exists(dir) {
			err = errors.Join(err, remove(old, beside(dir, beingRemoved)))
		} else {
			err = errors.Join(err, disk.Rename(old, dir))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot clear up behind an earlier run: %w", err)
	}
	return nil
}

// discard removes what is there. Where nothing is, it asks for nothing that a file system may refuse.
func discard(path string) error {
	if !exists(path) {
		return nil
	}
	return disk.RemoveAll(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Tidy ends in root what runs that were killed had begun: it removes what was being written or removed, and brings back what
// was to be replaced.
func Tidy(root string) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checkpoints: %w", err)
	}
	for _, e := range entries {
		for _, state := range []string{beingWritten, beingReplaced, beingRemoved} {
			if name, ok := strings.CutPrefix(e.Name(), state); ok && name != "" {
				if err := settle(filepath.Join(root, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// beside is the name that a directory has while it is not in place.
func beside(dir, state string) string {
	return filepath.Join(filepath.Dir(dir), state+filepath.Base(dir))
}
