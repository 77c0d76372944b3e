package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// ChatTemplate is how a model is asked, as its small files say it.
type ChatTemplate struct {
	// Jinja is the template. BOS and EOS are the tokens that it knows as bos_token and eos_token; they count only where
	// tokenizer_config.json names none, and "" is none.
	Jinja, BOS, EOS string
	// End is the token that ends an answer, -1 if none does.
	End int32
}

// SetTemplate changes how the model is asked: its small files, as ReadFile gives them and Save saves them, then have the
// template in place of their own, and its end of an answer beside those that the model has. Files on the disk stay.
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
	})
	if err != nil {
		return err
	}
	c.read, c.Tokenizer, c.Generation = overlaid.read, overlaid.Tokenizer, overlaid.Generation
	return nil
}
