package hf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"restyle/data"
	"restyle/hf/hub"
)

// Open opens a model by the name that a user gives: data.StarterName for the embedded model, the path of a directory, or
// else "owner/name" or "owner/name@revision" of a hub repository, of which what a model needs is in the cache afterwards.
// A directory that is called like the embedded model is reached as ./starter. h nil is hub.FromEnv(). See OpenModel.
func Open(ctx context.Context, h *hub.Hub, name string) (*Checkpoint, error) {
	if name == data.StarterName {
		fsys, err := data.StarterModel()
		if err != nil {
			return nil, err
		}
		c, err := OpenModelFS(fsys, "the embedded model")
		if err != nil {
			return nil, err
		}
		c.Name = name
		return c, nil
	}
	if _, err := os.Stat(name); err == nil { // a file is refused, with what to give
		return OpenModel(name)
	}
	ref, err := hub.ParseRef(hub.Model, name)
	if err != nil {
		return nil, fmt.Errorf("there is no directory %q, and as a hub repository: %w", name, err)
	}
	if h == nil {
		h = hub.FromEnv()
	}
	l, err := h.Resolve(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("there is no directory %q, and the hub: %w", name, err)
	}
	dir, err := fetchModel(ctx, h, l)
	if err != nil {
		return nil, err
	}
	c, err := OpenModel(dir)
	if err != nil {
		return nil, err
	}
	c.Name, c.Revision = name, l.Commit
	return c, nil
}

// OpenModel opens a model's directory and checks that its weights are those that its config.json describes, by name, shape
// and type; their values are looked at when they are loaded. Close it after use.
func OpenModel(dir string) (*Checkpoint, error) {
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	return OpenModelFS(DirFS(dir), dir)
}

// OpenModelFS is OpenModel for files of any kind, which messages call by name. Those of the weights must be io.ReaderAt, as
// the files of an embed.FS are.
func OpenModelFS(fsys fs.FS, name string) (*Checkpoint, error) {
	files := source{fsys, name}
	c, err := newCheckpoint(name, files.readText)
	if err != nil {
		return nil, err
	}
	if c.weights, err = openWeights(files); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		c.Close()
		return nil, fmt.Errorf("the weights in %s are not those of its config.json: %w", name, err)
	}
	return c, nil
}

// OpenConfig is OpenModel for a directory of which the weights, if there are any, are left alone.
func OpenConfig(dir string) (*Checkpoint, error) {
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	return newCheckpoint(dir, directory(dir).readText)
}

// NewModel is a model that has no weights yet and is to be trained from scratch. files holds its config.json and what else
// is to be saved with it, such as tokenizer.json, by their names; with config.json alone Save writes that and weights.
func NewModel(files map[string][]byte) (*Checkpoint, error) {
	return newCheckpoint("the new model", func(file string) ([]byte, error) {
		data, ok := files[file]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}
		return data, nil
	})
}

func checkDirectory(dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("model: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("model: %s is not a directory: give the one that holds config.json", dir)
	}
	return nil
}

// newCheckpoint reads the small files.
func newCheckpoint(name string, read func(file string) ([]byte, error)) (*Checkpoint, error) {
	c := &Checkpoint{Name: name, label: name, read: read}
	for _, file := range []struct {
		name string
		read func(data []byte) error
	}{
		{"config.json", c.readConfig},
		{"generation_config.json", func(data []byte) (err error) { c.Generation, err = ParseGenerationConfig(data); return err }},
		{"tokenizer_config.json", func(data []byte) (err error) { c.Tokenizer, err = ParseTokenizerConfig(data); return err }},
		{"chat_template.jinja", func(data []byte) error { c.Tokenizer.ChatTemplate = string(data); return nil }},
	} {
		data, err := read(file.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && file.name == "config.json":
			return nil, fmt.Errorf("model: %s has no config.json: give the directory of a model in the Hugging Face layout", name)
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			err = file.read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	for _, file := range companions { // what cannot be copied is found out before a training, not after it
		if _, err := read(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	if c.Generation.EOS == nil {
		c.Generation.EOS = c.Config.EOS
	}
	if c.Generation.BOS == nil {
		c.Generation.BOS = c.Config.BOS
	}
	return c, nil
}

func (c *Checkpoint) readConfig(data []byte) (err error) {
	if c.Config, err = ParseConfig(data); err != nil {
		return err
	}
	c.ConfigJSON = data
	c.Generation, err = ParseGenerationConfig([]byte("{}")) // for when there is no file
	return err
}
