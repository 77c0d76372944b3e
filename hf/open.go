package hf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"restyle/hf/hub"
)

// Open opens a model by name. A name is the path of a directory, "owner/name" or "owner/name@revision" for a hub
// repository, whose files Open downloads into the cache, the path of a GGUF file, or "owner/name:TYPE" for the GGUF
// file in a repository that has the type in its name, such as Q4_K_M. If h is nil, Open uses hub.FromEnv(). See
// OpenModel and OpenGGUF.
func Open(ctx context.Context, h *hub.Hub, name string) (*Checkpoint, error) {
	if info, err := os.Stat(name); err == nil && !info.IsDir() && IsGGUF(name) {
		return OpenGGUF(name)
	}
	if _, err := os.Stat(name); err == nil { // if it is a file, OpenModel says what to give instead
		return OpenModel(name)
	}
	if IsGGUF(name) {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	repository, kind, single := strings.Cut(name, ":")
	ref, err := hub.ParseRef(hub.Model, repository)
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
	fetch, open := fetchModel, OpenModel
	if single {
		fetch, open = fetchGGUF(kind), OpenGGUF
	}
	path, err := fetch(ctx, h, l)
	if err != nil {
		return nil, err
	}
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	c.Name, c.Revision = name, l.Commit
	return c, nil
}

// OpenModel opens the directory of a model and checks that its weights are the ones that config.json describes, by
// name, shape and type. It does not read their values; Load checks these. Close the Checkpoint after use.
func OpenModel(dir string) (*Checkpoint, error) {
	if err := checkDirectory("model", dir, "config.json"); err != nil {
		return nil, err
	}
	return OpenModelFS(DirFS(dir), dir)
}

// OpenModelFS is OpenModel for a file system; name is its name in messages. The files of weights must be
// io.ReaderAts, as files of an embed.FS are.
func OpenModelFS(fsys fs.FS, name string) (*Checkpoint, error) {
	files := source{fsys, name}
	c, err := newCheckpoint(name, files.readText, files.moreTemplates())
	if err != nil {
		return nil, err
	}
	if c.weights, err = openWeights(files); err != nil {
		return nil, err
	}
	if f, _, err := files.open(indexName); err == nil {
		f.Close()
		if len(c.weights.shards) == 1 && filepath.Base(c.weights.shards[0].label()) == singleName {
			c.Notes = append(c.Notes, fmt.Sprintf("the weights are those of %s: %s and the files that it names are not used",
				files.path(singleName), indexName))
		}
	}
	if err := c.check(); err != nil {
		c.Close()
		return nil, fmt.Errorf("the weights in %s are not those of its config.json: %w", name, err)
	}
	return c, nil
}

// OpenConfig is OpenModel, but ignores the directory's weights, if it has any.
func OpenConfig(dir string) (*Checkpoint, error) {
	if err := checkDirectory("model", dir, "config.json"); err != nil {
		return nil, err
	}
	files := directory(dir)
	return newCheckpoint(dir, files.readText, files.moreTemplates())
}

// NewModel returns a model without weights, to be trained from scratch. files has the contents of config.json and of
// other small files to be saved with it, such as tokenizer.json, by name. Only config.json is required.
func NewModel(files map[string][]byte) (*Checkpoint, error) {
	return newCheckpoint("the new model", func(file string) ([]byte, error) {
		data, ok := files[file]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}
		return data, nil
	}, nil)
}

// checkDirectory returns an error if the path of a model or an adapter is not a directory. Such a directory holds
// config.
func checkDirectory(what, dir, config string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s: %s is not a directory: give the one that holds %s", what, dir, config)
	}
	return nil
}

// newCheckpoint reads the small files. more are the files of further chat templates.
func newCheckpoint(name string, read func(file string) ([]byte, error), more []string) (*Checkpoint, error) {
	c := &Checkpoint{Name: name, label: name, read: read, more: more}
	for _, file := range []struct {
		name string
		read func(data []byte) error
	}{
		{"config.json", c.readConfig},
		{"tokenizer_config.json", func(data []byte) (err error) {
			if c.Tokenizer, err = ParseTokenizerConfig(data); err != nil && parseObject(data).err == nil {
				c.Notes = append(c.Notes, err.Error()+": not used")
				if parseObject(data).has("chat_template") && c.Tokenizer.ChatTemplate == "" && c.Tokenizer.ChatTemplates == nil {
					c.TemplateError = err
				}
				return nil
			}
			return err
		}},
		{"chat_template.jinja", func(data []byte) error {
			c.TemplateError = nil
			c.Tokenizer.ChatTemplate, c.Tokenizer.ChatTemplates = string(data), nil
			return nil
		}},
	} {
		data, err := read(file.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && file.name == "config.json":
			return nil, fmt.Errorf("model: %s has no config.json: give the directory of a model in the Hugging Face layout",
				name)
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			err = file.read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	if err := c.readTemplates(more); err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	c.readSpecial()
	c.readGeneration()
	for _, file := range companions { // find files that Save could not copy before a training, not after it
		_, err := read(file)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case file == "tokenizer.model" && errors.Is(err, errPointer): // which clones have that need no more than is here
			c.Notes = append(c.Notes, err.Error()+"; not used, and not saved with the model")
		default:
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	return c, nil
}

// readSpecial takes the tokens that special_tokens_map.json names. As in transformers, they replace the tokens of
// tokenizer_config.json, unless that lists its added tokens. If the file cannot be read, tokenizer.Read says so.
func (c *Checkpoint) readSpecial() {
	data, err := c.read("special_tokens_map.json")
	text, _ := c.read("tokenizer_config.json")
	config, special := parseObject(text), parseObject(data)
	if err == nil && special.err == nil && !config.has("added_tokens_decoder") {
		c.Tokenizer.take(config, special)
	}
}

// readGeneration reads generation_config.json. Neither training a model nor taking its most probable token needs it,
// so anything wrong with it is only a note.
func (c *Checkpoint) readGeneration() {
	data, err := c.read("generation_config.json")
	if err != nil {
		data = []byte("{}") // the loop over companions finds a file that cannot be copied
	}
	if c.Generation, err = ParseGenerationConfig(data); err != nil {
		c.Notes = append(c.Notes, err.Error()+": not used")
	}
	if list := c.Generation.NotApplied; list != nil {
		c.Notes = append(c.Notes, "generation_config.json: not applied to answers: "+strings.Join(list, ", "))
	}
	if c.Generation.EOS == nil {
		c.Generation.EOS = c.Config.EOS
	}
	if c.Generation.BOS == nil {
		c.Generation.BOS = c.Config.BOS
	}
}

func (c *Checkpoint) readConfig(data []byte) (err error) {
	if c.Config, err = ParseConfig(data); err != nil {
		return err
	}
	c.ConfigJSON = data
	c.Quantization = parseObject(data).quantization()
	return nil
}
