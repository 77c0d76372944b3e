package hf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"restyle/tensor"
)

// The names of a model's own weights. Other .safetensors files in its directory are not the model's.
const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// A store is a file of tensors, a *Safetensors or a *ggufStore.
type store interface {
	Tensor(name string) (Info, bool)
	ReadAt(name string, dst []byte, offset int64) error
	Close() error
	label() string               // its name in messages
	writeSums(w io.Writer) error // a line of sha256sum for each of its files
}

// readTensor reads all bytes of a tensor.
func readTensor(s store, name string) ([]byte, Info, error) {
	info, _ := s.Tensor(name)
	data := make([]byte, info.Bytes) // the file has that many
	return data, info, s.ReadAt(name, data, 0)
}

// readF32 reads a whole tensor of type F32, F16 or BF16 as float32, and returns it with its shape.
func readF32(s store, name string) ([]float32, []int, error) {
	data, info, err := readTensor(s, name)
	if err != nil {
		return nil, nil, err
	}
	t, err := tensor.ParseDType(info.DType)
	if err != nil || t != tensor.F32 && t != tensor.F16 && t != tensor.BF16 {
		return nil, nil, fmt.Errorf("%s: %s is %s: must be F32, F16 or BF16", s.label(), name, info.DType)
	}
	values := make([]float32, len(data)/t.Size())
	widen(values, data, t)
	return values, info.Shape, nil
}

// weights are the tensors of a model, in one file or several.
type weights struct {
	shards []store
	where  map[string]store
}

// find returns the file of a tensor, and its name there. GPT-2's files may leave out the prefix "transformer." of all
// names, as openai-community/gpt2 does.
func (w *weights) find(name string) (s store, stored string) {
	if s := w.where[name]; s != nil {
		return s, name
	}
	stored = strings.TrimPrefix(name, "transformer.")
	return w.where[stored], stored
}

// openWeights opens model.safetensors, or the shards of the index. If both are there it takes the single file, as
// transformers does.
func openWeights(files source) (*weights, error) {
	s, err := openSafetensors(files, singleName)
	if errors.Is(err, fs.ErrNotExist) {
		return openShards(files)
	}
	if err != nil {
		return nil, err
	}
	w := &weights{[]store{s}, map[string]store{}}
	for _, name := range s.Names() {
		w.where[name] = s
	}
	return w, nil
}

func openShards(files source) (*weights, error) {
	data, err := files.readText(indexName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noWeights(files)
	}
	if err != nil {
		return nil, err
	}
	w := &weights{where: map[string]store{}}
	where, err := parseIndex(data)
	if err == nil {
		err = w.open(files, where)
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("%s: %w", files.path(indexName), err)
	}
	return w, nil
}

// open opens the shards of an index, which has the file of each tensor, and checks that they hold the tensors that it
// names.
func (w *weights) open(files source, index map[string]string) error {
	var missing []string
	shards := map[string]*Safetensors{}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(index))) {
		s, err := openSafetensors(files, name)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return err
		}
		shards[name] = s
		w.shards = append(w.shards, s)
	}
	if missing != nil {
		return fmt.Errorf("it names %s, which %s not there: get them, or the whole model again", few(missing), are(missing))
	}
	var absent, foreign []string
	for name, file := range index {
		if _, ok := shards[file].Tensor(name); !ok {
			absent = append(absent, name+" in "+file)
		}
		w.where[name] = shards[file]
	}
	for file, s := range shards {
		for _, name := range s.Names() {
			if index[name] != file {
				foreign = append(foreign, name+" in "+file)
			}
		}
	}
	slices.Sort(absent)
	slices.Sort(foreign)
	switch {
	case absent != nil:
		return fmt.Errorf("it names %s, which %s not there: the index belongs to other weights", few(absent), are(absent))
	case foreign != nil:
		return fmt.Errorf("it does not name %s: the index belongs to other weights", few(foreign))
	}
	return nil
}

func (w *weights) close() error {
	var errs []error
	for _, s := range w.shards {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// parseIndex reads a model.safetensors.index.json: the file of each tensor. It ignores total_size, which writers count
// in different ways, because the headers of the files are reliable.
func parseIndex(data []byte) (map[string]string, error) {
	o := parseObject(data)
	files := get(o, "weight_map", map[string]string(nil))
	if len(files) == 0 {
		o.fail("weight_map is missing or empty")
	}
	for name, file := range files {
		if strings.ContainsAny(file, `/\`) || !fs.ValidPath(file) || filepath.Ext(file) != ".safetensors" {
			o.fail("weight_map has %.100q in %.100q, which is not the name of a .safetensors file next to it", name, file)
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	return files, nil
}

// noWeights returns the reason why a model's weights cannot be read.
func noWeights(files source) error {
	var names []string
	entries, err := fs.ReadDir(files.fsys, ".")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return errors.Join(err, fmt.Errorf("%s %w", files.name, otherWeights(names)))
}

// otherWeights describes weights in a format that is not supported, if there are any among the files.
func otherWeights(names []string) error {
	for _, kind := range []struct{ end, do string }{
		{".bin", "a pickle, which can run any code when it is read: save it again with transformers' save_pretrained, " +
			"which writes safetensors"},
		{".pt", "a pickle, which can run any code when it is read: convert it to the Hugging Face layout with safetensors"},
		{".pth", "a pickle, which can run any code when it is read: convert it to the Hugging Face layout with safetensors"},
		{".gguf", "a model in one file: get that, and give its path"},
		{".safetensors", "which may be an adapter, or another program's: if it is the whole model in the Hugging Face " +
			"layout, rename it"},
	} {
		for _, name := range names {
			if shardName.MatchString(name) {
				return fmt.Errorf("has %s, but not %s, which lists such files: get it from the model's repository", name, indexName)
			}
			if strings.HasSuffix(name, kind.end) {
				return fmt.Errorf("has no %s, only %s, %s", singleName, name, kind.do)
			}
		}
	}
	return fmt.Errorf("has no weights, neither %s nor %s: get them from the model's repository", singleName, indexName)
}

// few lists the first of some names, and the number of others.
func few(names []string) string {
	const most = 3
	var list []string
	for _, name := range names[:min(len(names), most)] {
		if quoted := strconv.Quote(name); quoted != `"`+name+`"` || len(name) > 100 {
			name = fmt.Sprintf("%.100q", name)
		}
		list = append(list, name)
	}
	if more := len(names) - len(list); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list, ", "), more)
	}
	return strings.Join(list, ", ")
}

func are(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}
