package hf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// A Checkpoint is a model in the Hugging Face layout: its small files, parsed, and its open weights.
type Checkpoint struct {
	// Name is the name that the model was opened by. Revision is the commit of a hub repository, "" for other models.
	Name, Revision string
	// Embedded says that Name means the same model from every directory, because it is part of the program.
	Embedded bool
	// Config is the parsed config.json, ConfigJSON its bytes.
	Config     model.Config
	ConfigJSON []byte
	// Quantization has the types of the weights that are stored quantized.
	Quantization model.Quantization
	// Generation is generation_config.json. If that is absent or names no end of an answer, config.json's tokens are used.
	Generation GenerationConfig
	// Tokenizer is tokenizer_config.json, with the template of chat_template.jinja, if there is one, instead of its own.
	// It is empty if both are absent.
	Tokenizer TokenizerConfig
	// TemplateError says why the model's own chat template cannot be used. It is nil if it can, or if there is none.
	TemplateError error
	// Notes are lines for people: which parts of the files are not used, and why.
	Notes []string

	digest  string // once it is known
	label   string // its name in messages: the directory
	read    func(file string) ([]byte, error)
	more    []string          // its files of further chat templates
	weights *weights          // nil if there are none
	packed  map[string]packed // the weights that bitsandbytes has saved; nil for other models
}

// Close closes the weights.
func (c *Checkpoint) Close() error {
	if c.weights == nil {
		return nil
	}
	return c.weights.close()
}

// DTypes counts the numbers of all weights by type, from the headers of their files. It ignores config.json, which
// often names another type. The map is empty if there are no weights.
func (c *Checkpoint) DTypes() map[tensor.DType]int64 {
	counts := map[tensor.DType]int64{}
	for _, spec := range c.Config.Params() {
		info, _ := c.Tensor(spec.Name)
		if t, err := tensor.ParseDType(info.DType); err == nil {
			counts[t] += info.Bytes / int64(t.Size())
		}
	}
	return counts
}

// DType returns the type of weights and activations that suits a model in memory: BF16 if most of its numbers lose
// nothing by that or are quantized, and F32 otherwise.
func (c *Checkpoint) DType() tensor.DType {
	counts, quantized := c.DTypes(), int64(0)
	for _, p := range c.params() {
		if p.W.DType.Quantized() {
			quantized += int64(p.W.Len())
		}
	}
	if counts[tensor.BF16]+quantized > counts[tensor.F32] && counts[tensor.F16] == 0 {
		return tensor.BF16
	}
	return tensor.F32
}

// ReadFile reads one of the model's small files by name, such as tokenizer.json. It also works after Close. If the file
// does not exist, the error is fs.ErrNotExist.
func (c *Checkpoint) ReadFile(file string) ([]byte, error) { return c.read(file) }

// Tensor returns the type, shape and size of a weight by its Hugging Face name.
func (c *Checkpoint) Tensor(name string) (Info, bool) {
	if c.weights == nil {
		return Info{}, false
	}
	s, stored := c.weights.find(name)
	if s == nil {
		return Info{}, false
	}
	return s.Tensor(stored)
}

// Digest returns a sha256 over config.json and all files of weights, and reads all of them. In a directory without
// other safetensors files this prints the same:
//
//	sha256sum config.json *.safetensors | sha256sum
//
// For a GGUF file of any name it is the hash of its hash: sha256sum < model.gguf | cut -d ' ' -f 1 | sha256sum.
//
// Digest computes it only once.
func (c *Checkpoint) Digest() (string, error) {
	if c.digest != "" {
		return c.digest, nil
	}
	total := sha256.New()
	if !IsGGUF(c.label) {
		fmt.Fprintf(total, "%x  config.json\n", sha256.Sum256(c.ConfigJSON))
	}
	if c.weights != nil {
		for _, s := range c.weights.shards { // in the order of their names
			if err := s.writeSums(total); err != nil {
				return "", err
			}
		}
	}
	c.digest = hex.EncodeToString(total.Sum(nil))
	return c.digest, nil
}

// ReadF32 reads a whole weight as float32, and returns it with its shape. It dequantizes a quantized one.
func (c *Checkpoint) ReadF32(name string) ([]float32, []int, error) {
	if _, ok := c.Tensor(name); !ok {
		return nil, nil, fmt.Errorf("%s has no weight %.100q", c.label, name)
	}
	s, stored := c.weights.find(name)
	for _, p := range c.params() {
		if p.Name == name && p.W.DType.Quantized() {
			if w, is := c.packed[name]; is {
				values, _, err := c.packedValues(name, w, 0, p.W.Len())
				return values, p.W.Shape, err
			}
			data, _, err := readTensor(s, stored)
			values := make([]float32, p.W.Len())
			if err == nil {
				err = quant.Dequantize(values, data, p.W.DType, p.W.Dim(-1))
			}
			return values, p.W.Shape, err
		}
	}
	return readF32(s, stored)
}

const head = "lm_head.weight"

// fileShape returns the shape of a parameter in files.
func fileShape(p model.Param) []int {
	if p.Transposed {
		return []int{p.W.Dim(1), p.W.Dim(0)}
	}
	return p.W.Shape
}

// follows reports whether a tensor that is not a parameter follows from the configuration, as do the frequencies of
// RoPE and the causal masks of GPT-2 in old files.
func follows(name string) bool {
	for _, end := range []string{"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// tooFew returns an error if there are far fewer weights than the configuration needs, whose list would have a length
// that is a number in config.json.
func (c *Checkpoint) tooFew() error {
	if want, have := c.Config.TensorCount(), len(c.weights.where); want > 2*have+1000 {
		return fmt.Errorf("it needs %d tensors, but there are %d", want, have)
	}
	return nil
}

// check compares the weights with the ones that the configuration needs.
func (c *Checkpoint) check() error {
	if err := c.tooFew(); err != nil {
		return err
	}
	have := c.weights.where
	var missing, wrong, unknown, faults []string
	known := map[string]bool{}
	if parseObject(c.ConfigJSON).quantizer() == bitsAndBytes {
		c.packed = map[string]packed{}
	}
	for _, spec := range c.params() {
		if s, stored := c.weights.find(spec.Name); s != nil {
			known[stored] = true
		}
		info, ok := c.Tensor(spec.Name)
		switch {
		case !ok:
			missing = append(missing, spec.Name)
		case spec.W.DType.Quantized() && c.packed != nil:
			w, err := c.openPacked(spec)
			if err != nil {
				wrong = append(wrong, err.Error())
			}
			c.packed[spec.Name] = w
			for _, part := range packedParts {
				_, stored := c.weights.find(spec.Name + part)
				known[stored] = true
			}
		case !slices.Equal(info.Shape, storedShape(spec)):
			wrong = append(wrong, fmt.Sprintf("%s has shape %s, but must have %v", spec.Name, shape(info.Shape),
				storedShape(spec)))
		case spec.W.DType.Quantized():
			if info.DType != "U8" {
				wrong = append(wrong, fmt.Sprintf("%s is of type %s, but weights in %v, of %s in config.json, are stored as U8",
					spec.Name, info.DType, spec.W.DType, quantizationKey))
			}
		case info.DType != "F32" && info.DType != "F16" && info.DType != "BF16":
			wrong = append(wrong, fmt.Sprintf("%s is of type %s where only F32, F16 and BF16 are read", spec.Name, info.DType))
		}
	}
	for name := range have {
		// A tied head may be stored twice.
		if !known[name] && !follows(name) && !(c.Config.Tied && name == head) {
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
