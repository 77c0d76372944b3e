package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RealPath returns path as an absolute path without links, which stays valid if the working directory or a link is
// renamed. path need not exist.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	path, err = filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if _, err := os.Lstat(abs); err == nil {
		return "", fmt.Errorf("%s is a link to a path that does not exist", abs)
	}
	parent, err := RealPath(filepath.Dir(abs))
	return filepath.Join(parent, filepath.Base(abs)), err
}

// Holds reports whether path is dir, a path that RealPath returned, or in it.
func Holds(dir, path string) bool {
	path, err := RealPath(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
