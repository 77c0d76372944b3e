package hf

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"

	"restyle/internal/disk"
)

// staging is a set of files that get their names together. After an error it does nothing more.
type staging struct {
	root  *os.Root
	files []*disk.Pending // written so far
	gone  []string        // files to remove: the new set lacks them, but an older one may have them
	err   error
}

func (s *staging) write(name string, fill func(io.Writer) error) {
	if s.err != nil {
		return
	}
	f, err := disk.CreateIn(s.root, name, 0o666)
	if err == nil {
		s.files = append(s.files, f)
		err = fill(f)
	}
	if err == nil {
		err = f.Sync()
	}
	s.err = err
}

func (s *staging) bytes(name string, data []byte) {
	s.write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// copy copies one of the model's files. If the model lacks it, commit removes the directory's file of that name, which
// belongs to the old model.
func (s *staging) copy(name string, from *Checkpoint) {
	data, err := from.ReadFile(name)
	if err == nil && path.Dir(name) != "." {
		err = disk.MakeDirIn(s.root, path.Dir(name), 0o777)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errPointer):
		s.gone = append(s.gone, name)
	case err != nil:
		s.err = errors.Join(s.err, err)
	default:
		s.bytes(name, data)
	}
}

// shardName returns the name that transformers and this package give to one of several files of weights.
var shardName = regexp.MustCompile(`^model-\d{5}-of-\d{5}\.safetensors$`)

// commit gives the files their names. Without the index, shards are no model; with model.safetensors, shards and index
// are ignored. So it first removes the file that makes the old set a model, and last names the one that makes the new
// set one.
func (s *staging) commit(weights []string) error {
	if s.err != nil {
		return s.err
	}
	if len(weights) > 1 {
		for _, name := range []string{singleName, indexName} {
			if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	entries, err := disk.ReadDirIn(s.root, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if (name == indexName || shardName.MatchString(name)) && !slices.Contains(weights, name) {
			s.gone = append(s.gone, name)
		}
	}
	return s.name()
}

// name gives the files their names, in the order in which they were written, and then removes the ones that are gone.
func (s *staging) name() error {
	if s.err != nil {
		return s.err
	}
	for _, f := range s.files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	for _, name := range s.gone {
		if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// discard removes the files that were not committed.
func (s *staging) discard() {
	for _, f := range s.files {
		f.Discard()
	}
}
