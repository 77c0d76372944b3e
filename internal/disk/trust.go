package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrUntrusted is in the error of a name that another user may have given to something.
var ErrUntrusted = errors.New("in a directory that others write in")

// trust refuses what another user may have planted at a name: a link in a directory that others can write to, and a
// file or a directory in one where everybody may create names, such as /tmp, if it belongs neither to this user nor to
// root nor to the directory's owner. There it also refuses a file with a second name. Linux does the same for files by
// default (protected_symlinks, protected_regular, protected_hardlinks in proc(5)), but not everywhere.
func trust(t tree, name string, info fs.FileInfo) error {
	dir, err := t.Stat(dirOf(name))
	if err != nil {
		return err
	}
	return trustIn(name, info, dir)
}

func trustIn(name string, info, dir fs.FileInfo) error {
	link := info.Mode()&fs.ModeSymlink != 0
	sticky := dir.Mode()&fs.ModeSticky != 0
	public := dir.Mode()&0o002 != 0 || dir.Mode()&0o020 != 0 && (link || sticky)
	of, ok := info.Sys().(*syscall.Stat_t)
	owner, ok2 := dir.Sys().(*syscall.Stat_t)
	if !public || !ok || !ok2 {
		return nil
	}
	if (own(of.Uid) || of.Uid == owner.Uid) && (!info.Mode().IsRegular() || of.Nlink == 1) {
		return nil
	}
	return fmt.Errorf("%s belongs to user %d or has a second name, %w", name, of.Uid, ErrUntrusted)
}

// dirOf returns the directory of a name, without shortening link/.., which only the system can resolve.
func dirOf(name string) string {
	if dir, _ := filepath.Split(name); dir != "" {
		return dir
	}
	return "."
}

// own reports whether a user may do what this process does: it is this user or root.
func own(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// trustDir applies trust to every name on the way to a directory that is about to be written in.
func trustDir(t tree, dir string) error {
	if _, all := t.(paths); !all {
		return trustFrom(t, ".", dir, trust)
	}
	if filepath.IsAbs(dir) {
		return trustFrom(t, "/", dir, trust)
	}
	// The way to the working directory may be hidden from this user, who is there nevertheless.
	if here, err := os.Getwd(); err == nil {
		if err := trustFrom(t, "/", here, trust); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return trustFrom(t, ".", dir, trust)
}

// trustFrom applies check to every name of a path, and to the names that links on it lead to. It ends at the first name
// that does not exist. at is where the path starts.
func trustFrom(t tree, at, path string, check func(t tree, name string, info fs.FileInfo) error) error {
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := filepath.Join(at, rest[0])
		up := rest[0] == ".."
		rest = rest[1:]
		if name == at {
			continue
		}
		info, err := t.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !up {
			err = check(t, name, info)
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = name
			continue
		}
		target, err := t.Readlink(name)
		if links++; err == nil && links > 40 {
			err = &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// TrustDir returns an error if another user may have planted a directory, or a directory or link on the way to it.
// Whatever this package writes is in a directory that passes. Like the error of [Open], the error names no remedy.
func TrustDir(dir string) error { return trustDir(paths{}, dir) }

// MakeDir creates a directory and its parents, as [os.MkdirAll] does, unless [TrustDir] returns an error.
func MakeDir(dir string, perm fs.FileMode) error {
	if err := TrustDir(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, perm); err != nil {
		return err
	}
	return TrustDir(dir) // another user may have been faster
}

// MakeDirIn does what [MakeDir] does, for a directory in root.
func MakeDirIn(root *os.Root, dir string, perm fs.FileMode) error {
	if err := trustDir(root, dir); err != nil {
		return err
	}
	return root.MkdirAll(dir, perm)
}

// OpenRoot opens an existing directory to write in it, whatever becomes of its name, unless [TrustDir] returns an
// error.
func OpenRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	opened, err1 := root.Stat(".")
	named, err2 := os.Stat(dir)
	err = errors.Join(TrustDir(dir), err1, err2) // after it was opened: what passes and is the same has not been replaced
	if err == nil && !os.SameFile(opened, named) {
		err = fmt.Errorf("%s: another directory has taken its place", dir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// OpenOwn opens an existing directory of code, such as compiled kernels. It must belong to this user or root, nobody
// else may write in it, and nobody may replace a directory on the way to it.
func OpenOwn(dir string) (*os.Root, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = trustFrom(paths{}, "/", dir, func(t tree, name string, info fs.FileInfo) error {
			if m := info.Mode(); m.IsDir() && m&0o002 != 0 && m&fs.ModeSticky == 0 {
				return fmt.Errorf("others can write in %s and replace what is in it", name)
			}
			return trust(t, name, info)
		})
	}
	if err != nil {
		return nil, err
	}
	root, err := OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = ownOnly(dir, info)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// ReadOwn reads a file of code in a directory that [OpenOwn] has opened. As the directory, the file must belong to this
// user or root, and nobody else may write it.
func ReadOwn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := open(root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = ownOnly(name, info)
	}
	if err != nil {
		return nil, err
	}
	return ReadAll(f, name, limit)
}

// ownOnly returns an error unless only this user and root can change a file or directory.
func ownOnly(name string, info fs.FileInfo) error {
	if of, ok := info.Sys().(*syscall.Stat_t); ok && !own(of.Uid) {
		return fmt.Errorf("%s belongs to user %d", name, of.Uid)
	}
	if m := info.Mode().Perm(); m&0o022 != 0 {
		return fmt.Errorf("users other than its owner can write in %s (mode %#o)", name, m)
	}
	return nil
}
