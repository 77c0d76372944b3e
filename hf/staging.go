package hf

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"restyle/internal/disk"
)

// staging is a set of files that get their names together. After the first error it does nothing more.
type staging struct {
	root  *os.Root
	names []string // written so far, each under its name with .tmp behind
	gone  []string // that the new set lacks, and that an older one may have
	err   error
}

func (s *staging) write(name string, fill func(io.Writer) error) {
	if s.err != nil {
		return
	}
	if s.err = disk.Stage(s.root, name+".tmp", fill); s.err == nil {
		s.names = append(s.names, name)
	}
}

func (s *staging) bytes(name string, data []byte) {
	s.write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// copy copies one of a model's files. Where there is none, one of that name in the directory goes: it belongs to what was
// there before.
func (s *staging) copy(name string, from *Checkpoint) {
	data, err := from.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.gone = append(s.gone, name)
	case err != nil:
		s.err = errors.Join(s.err, err)
	default:
		s.bytes(name, data)
	}
}

// shardName is how transformers and this package name the files of a model in several.
var shardName = regexp.MustCompile(`^model-\d{5}-of-\d{5}\.safetensors$`)

// commit names the files. Without the index, shards are no model, and beside model.safetensors they and an index do not
// count: so the file that makes the old set a model goes first, and the one that makes the new set one comes last.
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
	for len(s.names) > 0 {
		name := s.names[0]
		if err := disk.Commit(s.root, name+".tmp", name); err != nil {
			return err
		}
		s.names = s.names[1:]
	}
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		oldWeights := (name == indexName || shardName.MatchString(name)) && !slices.Contains(weights, name)
		if oldWeights || slices.Contains(s.gone, name) {
			if err := s.root.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard removes what was not committed.
func (s *staging) discard() {
	for _, name := range s.names {
		s.root.Remove(name + ".tmp")
	}
}
