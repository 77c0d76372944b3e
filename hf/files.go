package hf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// maxText limits the size of a model's small files. A tokenizer.json has at most tens of MB.
const maxText = 256 << 20

// source is where a model's files are. Its name appears in messages; for a directory it is the path.
type source struct {
	fsys fs.FS
	name string
}

// directory returns a source for files on disk.
func directory(dir string) source { return source{DirFS(dir), dir} }

// path returns the name of a file in messages.
func (s source) path(file string) string { return filepath.Join(s.name, file) }

// open opens a regular file and returns its size.
func (s source) open(file string) (f fs.File, size int64, err error) {
	f, err = s.fsys.Open(file)
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return nil, 0, &fs.PathError{Op: at.Op, Path: s.path(file), Err: at.Err}
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: s.path(file), Err: errors.New("not a file")}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// readText reads a whole small file of a model.
func (s source) readText(file string) ([]byte, error) {
	f, _, err := s.open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := disk.ReadAll(f, s.path(file), maxText)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", s.path(file), err)
	}
	if bytes.HasPrefix(data, []byte(pointerStart)) {
		return nil, fmt.Errorf("%s: %w", s.path(file), errPointer)
	}
	return data, nil
}

var errPointer = errors.New("it is a Git LFS pointer, not the file itself: get the file with git lfs pull")

// pointerStart is the start of a Git LFS pointer.
const pointerStart = "version https://git-lfs."

// DirFS returns the regular files of a model's directory, which someone else may have made. The small files are copied
// when the model is saved, so links must not lead to other files of the user: a small file may be linked only from
// inside the directory or from the blobs of a hub cache. Weights may be linked from anywhere, such as a larger disk,
// because files that are not safetensors are refused.
func DirFS(dir string) fs.FS { return modelDir(dir) }

type modelDir string

func (d modelDir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	path := filepath.Join(string(d), filepath.FromSlash(name))
	if filepath.Ext(name) != ".safetensors" {
		if err := d.within(path); err != nil {
			return nil, err
		}
	}
	return disk.OpenInput(path)
}

// ReadFile returns the contents of a small file.
func (d modelDir) ReadFile(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return disk.ReadAll(f, filepath.Join(string(d), name), maxText)
}

// ReadDir lists a directory of the model.
func (d modelDir) ReadDir(name string) ([]fs.DirEntry, error) {
	return disk.ReadDir(filepath.Join(string(d), filepath.FromSlash(name)))
}

// within refuses a link that leads out of the directory, unless to a blob of a hub cache: a snapshot consists of
// links to models--owner--name/blobs, and directories that older versions of huggingface_hub downloaded also have
// such links.
func (d modelDir) within(path string) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(string(d))
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, target)
	blobs := filepath.Dir(target)
	if err == nil && filepath.IsLocal(rel) ||
		filepath.Base(blobs) == "blobs" && strings.HasPrefix(filepath.Base(filepath.Dir(blobs)), "models--") {
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("a link to %q, outside of the model's directory: "+
		"put the file itself there, since it is copied into what is saved", target)}
}
