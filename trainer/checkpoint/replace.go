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

// Prefixes of the name of a directory that is not in place. They are fixed, so what killed runs leave does not
// accumulate.
const (
	beingWritten  = ".writing-"
	beingReplaced = ".replaced-"
	beingRemoved  = ".removed-"
)

// Replace writes a directory, such as <out>/checkpoints/best-000100, as [Write] does. At every moment, its name refers
// to the old directory, to the new one or, between two renames, to neither. If a run is killed between them, the next
// Replace, or Write or Latest in the parent directory, gives the old one its name back.
func Replace(dir string, fill func(dir string) error) error {
	if err := disk.MakeDir(filepath.Dir(dir), 0o777); err != nil {
		return failed(dir, 0, err)
	}
	if err := settle(dir); err != nil {
		return err
	}
	temp := sibling(dir, beingWritten)
	err := os.Mkdir(temp, 0o777)
	if err == nil {
		err = fill(temp)
	}
	if err == nil {
		err = seal(temp)
	}
	if err != nil {
		written := Size(temp)
		disk.RemoveAll(temp) // the next settle deletes the rest
		return failed(dir, written, err)
	}
	return place(temp, dir)
}

// place renames a sealed directory to its final name.
func place(temp, dir string) error {
	old := sibling(dir, beingReplaced)
	var err error
	hadOld := exists(dir)
	if hadOld {
		err = disk.Rename(dir, old) // a rename does not replace a directory that has files
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
		return remove(old, sibling(dir, beingRemoved))
	}
	return nil
}

// seal completes a filled directory: it syncs its files, and writes SHA256SUMS.
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
	for i := len(dirs) - 1; i >= 0; i-- { // the innermost first
		if err := disk.SyncDir(dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes a directory that Write or Replace wrote. After a kill, all of it exists under its name, or nothing.
func Remove(dir string) error { return remove(dir, sibling(dir, beingRemoved)) }

// remove renames a directory to gone, and then deletes it.
func remove(dir, gone string) error {
	err := discard(gone)
	if err == nil {
		err = disk.Rename(dir, gone)
	}
	if err == nil {
		// Sync the rename first: files deleted while the disk still has the old name would leave a partial checkpoint.
		err = disk.SyncDir(filepath.Dir(dir))
	}
	if err == nil {
		err = disk.RemoveAll(gone)
	}
	if err != nil {
		return fmt.Errorf("cannot delete checkpoint %s: %w", dir, err)
	}
	return nil
}

// settle cleans up what a killed run left of one directory.
func settle(dir string) error {
	err := errors.Join(discard(sibling(dir, beingWritten)), discard(sibling(dir, beingRemoved)))
	if old := sibling(dir, beingReplaced); exists(old) {
		if exists(dir) {
			err = errors.Join(err, remove(old, sibling(dir, beingRemoved)))
		} else {
			err = errors.Join(err, disk.Rename(old, dir))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot clean up after an earlier run: %w", err)
	}
	return nil
}

// discard deletes path if it exists. If not, discard makes no call that a file system may refuse.
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

// Tidy cleans up in root after killed runs: it deletes what was being written or deleted, and restores what was being
// replaced.
func Tidy(root string) error {
	entries, err := disk.ReadDir(root)
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

// sibling returns the name of a directory while it is not in place.
func sibling(dir, state string) string {
	return filepath.Join(filepath.Dir(dir), state+filepath.Base(dir))
}
