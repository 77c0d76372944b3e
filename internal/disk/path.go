package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RealPath returns the path of a directory to write in as an absolute path without links, which stays valid if the
// working directory or a link is renamed. path need not exist. It is an error if [TrustDir] returns one.
func RealPath(path string) (string, error) {
	if err := TrustDir(path); err != nil {
		return "", err
	}
	return realPath(path)
}

func realPath(path string) (string, error) {
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
	parent, err := realPath(filepath.Dir(abs))
	return filepath.Join(parent, filepath.Base(abs)), err
}

// Holds reports whether path is dir, a path that RealPath returned, or in it.
func Holds(dir, path string) bool {
	path, err := realPath(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
