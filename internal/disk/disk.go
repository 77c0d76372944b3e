// Package disk writes files that are complete, or are not there, also after a power cut.
package disk

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Stage writes a file that does not have its name yet, in what fill writes. On the disk it is complete, or it is not there.
func Stage(root *os.Root, temp string, fill func(io.Writer) error) error {
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = fill(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		root.Remove(temp)
	}
	return err
}

// Commit gives a staged file its name, in place of one that has it. The name lasts through a power cut.
func Commit(root *os.Root, temp, name string) error {
	if err := root.Rename(temp, name); err != nil {
		root.Remove(temp)
		return err
	}
	return SyncDir(root, path.Dir(name))
}

// SyncDir makes the renames in a directory of root last through a power cut.
func SyncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Free is the number of bytes that this user may still write to the disk of dir, false where that is not known.
func Free(dir string) (uint64, bool) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return uint64(st.Bavail) * uint64(st.Bsize), err == nil
}
