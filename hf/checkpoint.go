package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/model"
	"restyle/tensor"
)

// Checkpoint is a model's directory in the Hugging Face layout: what its small files say, and its open weights.
type Checkpoint struct {
	Dir string
	// Config is config.json, and ConfigJSON the file itself.
	Config     model.Config
	ConfigJSON []byte
	// Generation is generation_config.json. Where it names no end of an answer, or is absent, config.json's are taken.
	Generation GenerationConfig
	// Tokenizer is tokenizer_config.json, with the template of chat_template.jinja in place of its own where there is one.
	// It is empty without both.
	Tokenizer TokenizerConfig
	// TokenizerPath is the path of tokenizer.json, "" where there is none.
	TokenizerPath string
	// DType is the type of the weights as config.json gives it, or else that of the embedding.
	DType tensor.DType

	weights *weights
}

// OpenModel opens a model's directory and checks that its weights are those that its config.json describes, by name, shape
// and type; their values are looked at when they are loaded. Close it after use.
func OpenModel(dir string) (*Checkpoint, error) {
	c, err := OpenConfig(dir)
	if err != nil {
		return nil, err
	}
	if c.weights, err = openWeights(dir); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		c.Close()
		return nil, fmt.Errorf("the weights in %s are not those of its config.json: %w", dir, err)
	}
	if c.DType == 0 {
		info, _ := c.Tensor(embedding)
		c.DType, _ = tensor.ParseDType(info.DType)
	}
	return c, nil
}

// OpenConfig is OpenModel for a directory that need not hold weights: the model to be trained from scratch.
func OpenConfig(dir string) (*Checkpoint, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("model: %s is not a directory: give the one that holds config.json", dir)
	}
	c := &Checkpoint{Dir: dir}
	for _, file := range []struct {
		name string
		read func(data []byte) error
	}{
		{"config.json", c.readConfig},
		{"generation_config.json", func(data []byte) (err error) { c.Generation, err = ParseGenerationConfig(data); return err }},
		{"tokenizer_config.json", func(data []byte) (err error) { c.Tokenizer, err = ParseTokenizerConfig(data); return err }},
		{"chat_template.jinja", func(data []byte) error { c.Tokenizer.ChatTemplate = string(data); return nil }},
	} {
		data, err := readText(filepath.Join(dir, file.name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && file.name == "config.json":
			return nil, fmt.Errorf("model: %s has no config.json: give the directory of a model in the Hugging Face layout", dir)
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			err = file.read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", dir, err)
		}
	}
	if c.Generation.EOS == nil {
		c.Generation.EOS = c.Config.EOS
	}
	if c.Generation.BOS == nil {
		c.Generation.BOS = c.Config.BOS
	}
	path := filepath.Join(dir, "tokenizer.json")
	if _, err := os.Stat(path); err == nil {
		c.TokenizerPath = path
	}
	return c, nil
}

func (c *Checkpoint) readConfig(data []byte) (err error) {
	if c.Config, err = ParseConfig(data); err != nil {
		return err
	}
	c.ConfigJSON = data
	c.Generation, _ = ParseGenerationConfig([]byte("{}")) // for when there is no file
	c.DType, err = configDType(data)
	return err
}

// configDType reads dtype, or torch_dtype, its older name. It is 0 where there is neither.
func configDType(data []byte) (tensor.DType, error) {
	o := parseObject(data)
	name := optional(o, "dtype", optional(o, "torch_dtype", ""))
	for t, n := range dtypeNames {
		if n == name {
			return t, nil
		}
	}
	if o.err == nil && name != "" {
		o.fail("config.json: dtype %.60q: float32, float16 and bfloat16 are supported", name)
	}
	return 0, o.err
}

// dtypeNames are PyTorch's names of the types that weights have.
var dtypeNames = map[tensor.DType]string{tensor.F32: "float32", tensor.F16: "float16", tensor.BF16: "bfloat16"}

// Close closes the weights.
func (c *Checkpoint) Close() error {
	if c.weights == nil {
		return nil
	}
	return c.weights.close()
}

// Tensor is the type, shape and size of a weight by its Hugging Face name.
func (c *Checkpoint) Tensor(name string) (Info, bool) {
	if c.weights == nil {
		return Info{}, false
	}
	s, ok := c.weights.where[name]
	if !ok {
		return Info{}, false
	}
	return s.Tensor(name)
}

// ReadF32 reads a whole weight as float32, and its shape.
func (c *Checkpoint) ReadF32(name string) ([]float32, []int, error) {
	if _, ok := c.Tensor(name); !ok {
		return nil, nil, fmt.Errorf("%s has no weight %.100q", c.Dir, name)
	}
	return c.weights.where[name].ReadF32(name)
}

const (
	embedding = "model.embed_tokens.weight"
	head      = "lm_head.weight"
)

// check compares the weights that are there with those that the configuration asks for.
func (c *Checkpoint) check() error {
	have := c.weights.where
	if want := c.Config.TensorCount(); want > 2*len(have)+1000 {
		// Not worth a list, which is as long as a number in config.json says.
		return fmt.Errorf("it asks for %d tensors and there are %d", want, len(have))
	}
	var missing, wrong, unknown, faults []string
	known := map[string]bool{}
	for _, spec := range c.Config.Tensors() {
		known[spec.Name] = true
		info, ok := c.Tensor(spec.Name)
		switch {
		case !ok:
			missing = append(missing, spec.Name)
		case !slices.Equal(info.Shape, spec.Shape):
			wrong = append(wrong, fmt.Sprintf("%s has shape %s where it should have %v", spec.Name, shape(info.Shape), spec.Shape))
		case info.DType != "F32" && info.DType != "F16" && info.DType != "BF16":
			wrong = append(wrong, fmt.Sprintf("%s is of type %s where only F32, F16 and BF16 are read", spec.Name, info.DType))
		}
	}
	for name := range have {
		// Old files hold the frequencies of RoPE, which follow from the configuration. A tied head may be stored twice.
		if !known[name] && !strings.HasSuffix(name, "rotary_emb.inv_freq") && !(c.Config.Tied && name == head) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	switch {
	case slices.Equal(missing, []string{head}):
		faults = append(faults, head+" is missing: if the model's head is its embedding, set tie_word_embeddings to true")
	case missing != nil:
		faults = append(faults, few(missing)+" "+are(missing)+" missing")
	}
	if unknown != nil {
		faults = append(faults, few(unknown)+" "+are(unknown)+" unknown to it")
	}
	if wrong != nil {
		faults = append(faults, wrong[0])
	}
	if len(wrong) > 1 {
		faults = append(faults, fmt.Sprintf("%d more have a wrong shape or type", len(wrong)-1))
	}
	if faults == nil {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}
