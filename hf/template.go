package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// moreTemplatesDir is the directory of the chat templates other than the default one: NAME.jinja.
const moreTemplatesDir = "additional_chat_templates"

// isMoreTemplate reports whether a file of a model is a further chat template.
func isMoreTemplate(file string) bool {
	is, _ := path.Match(moreTemplatesDir+"/*.jinja", file)
	return is
}

// moreTemplates returns the files of further chat templates.
func (s source) moreTemplates() []string {
	files, _ := fs.Glob(s.fsys, moreTemplatesDir+"/*.jinja")
	return files
}

// readTemplates reads further chat templates. As in transformers, templates in files replace all of
// tokenizer_config.json's, and the one in chat_template.jinja is the default.
func (c *Checkpoint) readTemplates(files []string) error {
	if len(files) == 0 {
		return nil
	}
	named := map[string]string{}
	for _, file := range append([]string{"chat_template.jinja"}, files...) {
		data, err := c.read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		name := DefaultTemplate
		if isMoreTemplate(file) {
			name = strings.TrimSuffix(path.Base(file), ".jinja")
		}
		named[name] = string(data)
	}
	c.Tokenizer.ChatTemplate, c.Tokenizer.ChatTemplates = named[DefaultTemplate], named
	return nil
}

// ChatTemplate is a chat template for the small files of a model.
type ChatTemplate struct {
	// Jinja is the template. BOS and EOS are its variables bos_token and eos_token, "" for none. They are used only if
	// tokenizer_config.json has none.
	Jinja, BOS, EOS string
	// End is the token that ends an answer, -1 if there is none.
	End int32
}

// SetTemplate replaces the chat template in the model's small files, as ReadFile returns and Save saves them, and adds
// End to the tokens that end an answer. It does not change files on disk.
func (c *Checkpoint) SetTemplate(t ChatTemplate) error {
	settings := map[string]any{"chat_template": t.Jinja}
	if c.Tokenizer.BOS == "" && t.BOS != "" {
		settings["bos_token"] = t.BOS
	}
	if c.Tokenizer.EOS == "" && t.EOS != "" {
		settings["eos_token"] = t.EOS
	}
	changed := map[string]map[string]any{"tokenizer_config.json": settings}
	if t.End >= 0 && !slices.Contains(c.Generation.EOS, t.End) {
		changed["generation_config.json"] = map[string]any{"eos_token_id": append([]int32{t.End}, c.Generation.EOS...)}
	}
	files := map[string][]byte{"chat_template.jinja": []byte(t.Jinja)}
	for name, values := range changed {
		data, err := c.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			data, err = []byte("{}"), nil
		}
		if err == nil && name == "generation_config.json" && parseObject(data).err != nil {
			continue // it stays as it is, with a note
		}
		if err == nil {
			files[name], err = edited(name, data, values)
		}
		if err != nil {
			return fmt.Errorf("model %s: %w", c.label, err)
		}
	}
	below := c.read
	overlaid, err := newCheckpoint(c.Name, func(file string) ([]byte, error) {
		if data, ok := files[file]; ok {
			return data, nil
		}
		return below(file)
	}, nil)
	if err != nil {
		return err
	}
	c.read = overlaid.read
	c.more = nil
	c.Tokenizer = overlaid.Tokenizer
	c.Generation = overlaid.Generation
	c.TemplateError = nil
	return nil
}
