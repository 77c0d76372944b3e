package hf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// SaveOptions configure Save.
type SaveOptions struct {
	// DType is the type of the saved weights: F32, F16 or BF16. Default 0: each parameter's own.
	DType tensor.DType
	// MaxShardBytes is the maximum size of a file of weights. Default 0: 5e9.
	MaxShardBytes int64
	// Card is the model card, saved as README.md. Nil keeps the README.md that is there.
	Card []byte
	// Before, unless it is nil, is called before a parameter is read. Save returns its error.
	Before func(p model.Param) error
	// Check, unless it is nil, is called when everything is on disk and nothing has its name yet. If it returns an
	// error, nothing is saved.
	Check func() error
}

// companions are the small files that belong to a model. They are downloaded with it if its repository has them, and
// saved with it unchanged.
var companions = []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json",
	"special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "tokenizer.model", "vocab.json", "merges.txt"}

// Save saves a model in the Hugging Face layout into a directory, which it creates: its parameters as safetensors
// under their Hugging Face names, from's config.json with only the type and the quantization of the weights changed,
// and from's tokenizer and other small files. It removes small files that from lacks, because the chat template or
// tokenizer of another model would be taken for this one's. transformers loads the result as it loads the original,
// unless it is quantized. A tied head is not saved. If a parameter is NaN, infinite or too large for the saved type,
// the error names it.
//
// A model that is already in the directory stays whole until the new one is on disk. Then the new files get their
// names. If that is interrupted, the directory holds the old model, the new one, or none that can be opened, but never
// a mixture of weights.
func Save(dir string, from *Checkpoint, d *kernels.Device, params []model.Param, o SaveOptions) error {
	if err := save(dir, from, d, params, o); err != nil {
		return fmt.Errorf("cannot save the model to %s: %w", dir, err)
	}
	return nil
}

func save(dir string, from *Checkpoint, d *kernels.Device, params []model.Param, o SaveOptions) error {
	if err := complete(from.Config, params); err != nil {
		return err
	}
	if _, ok := dtypeNames[o.DType]; !ok && o.DType != 0 {
		return fmt.Errorf("DType %v: weights can be saved as F32, F16 or BF16", o.DType)
	}
	quantization, err := quantizationOf(from.Config, params)
	if err != nil {
		return err
	}
	return saveTensors(dir, from, outputs(d, params, o), quantization, o)
}

// SaveTensors is [Save] for weights that are on no device: it writes them one after the other. They have the names
// and shapes of from's parameters. If from's head is its embedding, weights of a head of its own make
// tie_word_embeddings false.
func SaveTensors(dir string, from *Checkpoint, tensors []TensorData, o SaveOptions) error {
	if err := saveTensors(dir, from, tensors, nil, o); err != nil {
		return fmt.Errorf("cannot save the model to %s: %w", dir, err)
	}
	return nil
}

func saveTensors(dir string, from *Checkpoint, tensors []TensorData, quantization map[string]string,
	o SaveOptions) error {
	need, dtype, untied := int64(0), tensor.DType(0), false
	for _, t := range tensors {
		size, err := sizeOf(t.DType.String(), t.Shape)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		need += size
		if dtype == 0 && t.DType != tensor.U8 {
			dtype = t.DType
		}
		untied = untied || t.Name == head && from.Config.Tied
	}
	config, err := withDType(from.ConfigJSON, dtype, quantization, untied)
	if err != nil {
		return err
	}
	if err := disk.MakeDir(dir, 0o777); err != nil {
		return err
	}
	if free, err := disk.Free(dir); err == nil && need > free {
		return fmt.Errorf("it needs %.1f MiB, but only %.1f MiB are free: free some space", float64(need)/(1<<20),
			float64(free)/(1<<20))
	}
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	s := staging{root: root}
	defer s.discard()
	s.bytes("config.json", config)
	names := slices.Concat(companions, from.more)
	old, _ := disk.ReadDirIn(root, moreTemplatesDir) // of a model that was there: copy removes them
	for _, e := range old {
		if name := moreTemplatesDir + "/" + e.Name(); isMoreTemplate(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		s.copy(name, from)
	}
	if o.Card != nil {
		s.bytes("README.md", o.Card)
	}
	weights := []string{singleName}
	shards := split(tensors, o.MaxShardBytes)
	if len(shards) > 1 {
		weights = nil
		for i := range shards {
			weights = append(weights, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards)))
		}
	}
	for i, shard := range shards {
		s.write(weights[i], func(w io.Writer) error { return writeSafetensors(w, map[string]string{"format": "pt"}, shard) })
	}
	if len(shards) > 1 {
		s.bytes(indexName, makeIndex(shards, weights, need))
		weights = append(weights, indexName)
	}
	if s.err == nil && o.Check != nil {
		s.err = o.Check()
	}
	return s.commit(weights)
}

// Saves reports whether [Save] writes a file or directory of that name.
func Saves(name string) bool {
	return slices.Contains([]string{"config.json", singleName, indexName, moreTemplatesDir}, name) ||
		slices.Contains(companions, name) || shardName.MatchString(name)
}

// complete checks that the parameters match the configuration.
func complete(c model.Config, params []model.Param) error {
	shapes := map[string][]int{}
	for _, p := range params {
		shapes[p.Name] = p.W.Shape
	}
	specs := c.Params()
	for _, spec := range specs {
		if got, ok := shapes[spec.Name]; !ok || !slices.Equal(got, spec.W.Shape) {
			return fmt.Errorf("parameter %s has shape %v, but config.json needs %v", spec.Name, got, spec.W.Shape)
		}
	}
	if len(params) != len(specs) {
		return fmt.Errorf("there are %d parameters, but config.json needs %d", len(params), len(specs))
	}
	return nil
}

// outputs returns how to write each parameter.
func outputs(d *kernels.Device, params []model.Param, o SaveOptions) (list []TensorData) {
	var out []byte
	for _, p := range params {
		read := func(f func(raw []byte) error) error {
			if o.Before != nil {
				if err := o.Before(p); err != nil {
					return err
				}
			}
			return d.Read(p.W, f)
		}
		if p.W.DType.Quantized() {
			write := func(w io.Writer) error {
				return read(func(raw []byte) error {
					_, err := w.Write(raw)
					return err
				})
			}
			list = append(list, TensorData{p.Name, tensor.U8, storedShape(p), write})
			continue
		}
		t := cmp.Or(o.DType, p.W.DType)
		list = append(list, TensorData{p.Name, t, fileShape(p), func(w io.Writer) error {
			at := 0
			var whole []byte // of a matrix that is stored transposed
			write := func(out []byte) error {
				if !p.Transposed {
					_, err := w.Write(out)
					return err
				}
				if whole = append(whole, out...); len(whole) < p.W.Len()*t.Size() {
					return nil
				}
				_, err := w.Write(transposed(whole, p.W.Dim(0), t))
				return err
			}
			return read(func(raw []byte) error {
				n := len(raw) / p.W.DType.Size()
				out = slices.Grow(out[:0], n*t.Size())[:n*t.Size()]
				if err := convert(out, t, raw, p.W.DType); err != nil {
					if u, ok := err.(unfit); ok {
						return fmt.Errorf("element %d is %s: training diverged: try a lower learning rate or weight decay", at+u.at,
							u.what)
					}
					return err
				}
				at += n
				return write(out)
			})
		}})
	}
	return list
}

// split assigns the tensors to files in order. One that is larger than the limit has a file of its own.
func split(tensors []TensorData, most int64) [][]TensorData {
	if most <= 0 {
		most = 5e9
	}
	var shards [][]TensorData
	var used int64
	for i, t := range tensors {
		size, _ := sizeOf(t.DType.String(), t.Shape)
		if i == 0 || used+size > most {
			shards = append(shards, nil)
			used = 0
		}
		shards[len(shards)-1] = append(shards[len(shards)-1], t)
		used += size
	}
	return shards
}

func makeIndex(shards [][]TensorData, files []string, total int64) []byte {
	where := map[string]string{}
	for i, shard := range shards {
		for _, t := range shard {
			where[t.Name] = files[i]
		}
	}
	data, _ := json.MarshalIndent(map[string]any{ // strings and numbers cannot fail
		"metadata":   map[string]int64{"total_size": total},
		"weight_map": where,
	}, "", "  ")
	return append(data, '\n')
}

// dtypeNames are PyTorch's names of the types of weights.
var dtypeNames = map[tensor.DType]string{tensor.F32: "float32", tensor.F16: "float16", tensor.BF16: "bfloat16"}

// withDType returns a config.json in which only the type of the weights and their quantization change. If untied is
// set, it also says that the head is not the embedding.
func withDType(config []byte, t tensor.DType, quantization map[string]string, untied bool) ([]byte, error) {
	o := parseObject(config)
	if o.err != nil {
		return nil, fmt.Errorf("config.json: %w", o.err)
	}
	changed := map[string]any{}
	if untied {
		changed["tie_word_embeddings"] = false
	}
	if quantization != nil {
		changed[quantizationKey] = quantization
	} else {
		changed[quantizationKey] = nil // transformers takes the key, even with null, for weights that are quantized
	}
	typed := false
	for _, name := range []string{"dtype", "torch_dtype"} {
		if _, ok := o.keys[name]; ok {
			changed[name], typed = dtypeNames[t], true
		}
	}
	if !typed {
		changed["torch_dtype"] = dtypeNames[t] // every version of transformers reads this name
	}
	return edited("config.json", config, changed)
}
