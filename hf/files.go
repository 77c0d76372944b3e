package hf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxText bounds the files beside a model's weights. A tokenizer.json has tens of MB at most.
const maxText = 256 << 20

// source is where a model's files are. Messages call it by its name, which for a directory is its path.
type source struct {
	fsys fs.FS
	name string
}

// directory is the source of files on the disk.
func directory(dir string) source { return source{os.DirFS(dir), dir} }

// path is what messages call a file.
func (s source) path(file string) string { return filepath.Join(s.name, file) }

// open opens a regular file and gives its size. Another kind of file is not opened: a pipe would be waited for without end.
func (s source) open(file string) (f fs.File, size int64, err error) {
	info, err := fs.Stat(s.fsys, file)
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a file", s.path(file))
	}
	if err == nil {
		f, err = s.fsys.Open(file)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return nil, 0, &fs.PathError{Op: at.Op, Path: s.path(file), Err: at.Err}
	}
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// readText reads a whole file that belongs to a model and holds no weights.
func (s source) readText(file string) ([]byte, error) {
	f, size, err := s.open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxText {
		return nil, fmt.Errorf("%s has %d bytes: none of its kind has more than %d", s.path(file), size, maxText)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", s.path(file), err)
	}
	return data, nil
}
