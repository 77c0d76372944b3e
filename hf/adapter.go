package hf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// The files of an adapter. PEFT reads the first two, mlx-lm reads the first and its own weights, and this module also
// reads the last.
const (
	adapterConfigName  = "adapter_config.json"
	adapterWeightsName = "adapter_model.safetensors"
	adapterMLXName     = "adapters.safetensors"
	adapterPickleName  = "adapter_model.bin" // of old versions of PEFT; not read
	adapterRecordName  = "restyle_adapter.json"
)

// adapterPrefix precedes the name of every tensor in PEFT's files, because PEFT wraps the model twice.
const adapterPrefix = "base_model.model."

// The ends of the names of an adapter's two matrices, of shapes [rank, in] and [out, rank].
const endA, endB = ".lora_A.weight", ".lora_B.weight"

// An Adapter is an open directory of low-rank adapters. Its tensors have the names of a model's parameters, such as
// "model.layers.0.self_attn.q_proj.lora_A.weight", whatever their names in the file.
type Adapter struct {
	// Name is the directory. Callers may set another for messages, such as the hub repository that it is from.
	Name string
	// Spec says which modules have adapters.
	Spec lora.Spec
	// BaseModel is base_model_name_or_path, the model that the adapter belongs to; "" if that is absent.
	BaseModel string
	// Record is restyle_adapter.json, a JSON object of the program that has made the adapter; nil if that is absent.
	Record json.RawMessage

	files      source
	file       *Safetensors    // with the parameters' names
	transposed map[string]bool // the tensors that are stored so, as mlx-lm stores all
}

// OpenAdapter opens a directory as PEFT or mlx-lm writes it, and checks that its tensors are the ones that its
// configuration describes: a module has both matrices or none, every target has some, and their shapes fit the rank.
// It does not read their values; Load and ReadF32 check these. Any unsupported setting that would change the result
// is an error. Close the Adapter after use.
func OpenAdapter(dir string) (*Adapter, error) {
	if err := checkDirectory("adapter", dir, adapterConfigName); err != nil {
		return nil, err
	}
	return OpenAdapterFS(DirFS(dir), dir)
}

// OpenAdapterFS is OpenAdapter for a file system; name is its name in messages. The file of weights must be an
// io.ReaderAt.
func OpenAdapterFS(fsys fs.FS, name string) (*Adapter, error) {
	a, err := openAdapter(source{fsys, name})
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", name, err)
	}
	return a, nil
}

func openAdapter(files source) (*Adapter, error) {
	a := &Adapter{Name: files.name, files: files, transposed: map[string]bool{}}
	config, err := files.readText(adapterConfigName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it has no %s: give the directory that PEFT's save_pretrained has written", adapterConfigName)
	}
	if err != nil {
		return nil, err
	}
	mlx := isMLX(config)
	name := adapterWeightsName
	if mlx {
		name = adapterMLXName
	} else if a.Spec, a.BaseModel, err = parseAdapterConfig(config); err != nil {
		return nil, err
	}
	if a.Record, err = files.readText(adapterRecordName); errors.Is(err, fs.ErrNotExist) {
		a.Record, err = nil, nil
	} else if err == nil {
		err = parseObject(a.Record).err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", adapterRecordName, err)
	}
	a.file, err = openSafetensors(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		f, _, missing := files.open(adapterPickleName)
		if missing == nil {
			f.Close()
		}
		return nil, noAdapter(missing == nil, name)
	}
	if err != nil {
		return nil, err
	}
	if err = a.rename(); err == nil && mlx {
		a.Spec, a.BaseModel, err = parseMLX(config, a.modules())
	}
	if err == nil {
		err = a.check()
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// noAdapter returns the reason why an adapter's weights cannot be read. pickle means that there is an
// adapter_model.bin.
func noAdapter(pickle bool, name string) error {
	if pickle {
		return fmt.Errorf("it has no %s, only adapter_model.bin, a pickle, which can run any code when it is read: save it "+
			"again with PEFT's save_pretrained, which writes safetensors", name)
	}
	return fmt.Errorf("it has no %s: get that from where the adapter is from", name)
}

// rename gives the file's tensors the names of parameters.
func (a *Adapter) rename() error {
	stored := map[string]string{}
	for i := range a.file.entries {
		e := &a.file.entries[i]
		name, transposed := adapterTensor(e.name)
		if other, twice := stored[name]; twice {
			return fmt.Errorf("%.100q and %.100q are the same tensor: remove one", other, e.name)
		}
		stored[name] = e.name
		e.name = name
		if transposed {
			a.transposed[name] = true
		}
	}
	clear(a.file.index)
	for i, e := range a.file.entries {
		a.file.index[e.name] = i
	}
	return nil
}

// adapterTensor returns the parameter that a tensor of a file belongs to. PEFT leaves out the adapter's name, default,
// which files written by hand have; mlx-lm stores lora_a as [in, rank] and lora_b as [rank, out].
func adapterTensor(stored string) (name string, transposed bool) {
	name = strings.TrimPrefix(stored, adapterPrefix)
	for _, end := range []struct {
		is, becomes string
		transposed  bool
	}{
		{".lora_A.default.weight", endA, false}, {".lora_B.default.weight", endB, false},
		{".lora_a", endA, true}, {".lora_b", endB, true},
		{".modules_to_save.default.weight", ".weight", false}, {".modules_to_save.default.bias", ".bias", false},
	} {
		if module, ok := strings.CutSuffix(name, end.is); ok {
			return module + end.becomes, end.transposed
		}
	}
	return name, false
}

// moduleOf returns the module whose adapter a tensor belongs to.
func moduleOf(name string) (module string, ok bool) {
	if module, ok = strings.CutSuffix(name, endA); !ok {
		module, ok = strings.CutSuffix(name, endB)
	}
	return module, ok
}

// modules lists the modules that have adapters.
func (a *Adapter) modules() []string { return modulesOf(a.Names()) }

func modulesOf(names []string) (modules []string) {
	for _, name := range names {
		if module, ok := moduleOf(name); ok {
			modules = append(modules, module)
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// Close closes the file of the weights. Closing a nil Adapter does nothing.
func (a *Adapter) Close() error {
	if a == nil {
		return nil
	}
	return a.file.Close()
}

// Digest returns a sha256 over the adapter's configuration and weights, and reads both. For PEFT's files this prints
// the same:
//
//	sha256sum adapter_config.json adapter_model.safetensors | sha256sum
func (a *Adapter) Digest() (string, error) {
	config, err := a.files.readText(adapterConfigName)
	if err != nil {
		return "", err
	}
	total := sha256.New()
	fmt.Fprintf(total, "%x  %s\n", sha256.Sum256(config), adapterConfigName)
	if err := a.file.writeSums(total); err != nil {
		return "", err
	}
	return hex.EncodeToString(total.Sum(nil)), nil
}

// Names lists the tensors, sorted.
func (a *Adapter) Names() []string { return slices.Sorted(slices.Values(a.file.Names())) }

// Tensor returns the type, shape and size of a tensor: [rank, in] for lora_A and [out, rank] for lora_B.
func (a *Adapter) Tensor(name string) (Info, bool) {
	info, ok := a.file.Tensor(name)
	if a.transposed[name] && len(info.Shape) == 2 {
		info.Shape = []int{info.Shape[1], info.Shape[0]}
	}
	return info, ok
}

// ReadF32 reads a whole tensor as float32, and returns it with its shape. If a value is NaN or infinite, the error
// names the tensor.
func (a *Adapter) ReadF32(name string) ([]float32, []int, error) {
	values, shape, err := a.file.ReadF32(name)
	if err != nil {
		return nil, nil, err
	}
	for i, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, nil, fmt.Errorf("adapter %s: %w", a.Name, named(name, i, unfit{0, fmt.Sprint(v)}))
		}
	}
	if a.transposed[name] {
		out := make([]float32, len(values))
		transpose(out, values, shape[0])
		values, shape = out, []int{shape[1], shape[0]}
	}
	return values, shape, nil
}

// check compares the tensors with the ones that the configuration needs.
func (a *Adapter) check() error {
	shapes := map[string][]int{}
	var wrong []string
	for _, name := range a.Names() {
		info, _ := a.Tensor(name)
		shapes[name] = info.Shape
		if t, err := tensor.ParseDType(info.DType); err != nil || !t.Computes() {
			wrong = append(wrong, name+" of type "+info.DType)
		}
	}
	if wrong != nil {
		return fmt.Errorf("only F32, F16 and BF16 are read, but it has %s", few(wrong))
	}
	return checkAdapter(a.Spec, shapes)
}

// embeds matches the weights that PEFT saves with an adapter without naming them in the configuration.
var embeds = regexp.MustCompile(`(^|\.)(embed_tokens|wte|lm_head)\.weight$`)

// checkAdapter checks that tensors, given by name with their shapes, are the adapters and whole modules of a
// configuration. Which modules the model has is unknown here: of the modules that the configuration names by the end
// of their names, at least one must be there.
func checkAdapter(s lora.Spec, shapes map[string][]int) error {
	var single, foreign, wrong []string
	names := slices.Sorted(maps.Keys(shapes))
	for _, name := range names {
		module, ok := moduleOf(name)
		if !ok {
			if !s.Whole(name) {
				foreign = append(foreign, name)
			}
			continue
		}
		partner := module + endB
		if strings.HasSuffix(name, endB) {
			partner = module + endA
		}
		rank, _, targeted := s.Of(module)
		dims, at := shapes[name], 0
		if partner == module+endA {
			at = 1
		}
		switch {
		case shapes[partner] == nil:
			single = append(single, partner)
		case !targeted:
			foreign = append(foreign, name)
		case len(dims) != 2 || dims[at] != rank || dims[1-at] == 0:
			wrong = append(wrong, fmt.Sprintf("%s of shape %s and rank %d", name, shape(dims), rank))
		}
	}
	modules := modulesOf(names)
	var empty []string
	for _, target := range s.Targets.Names {
		if only := (lora.Spec{Rank: 1, Targets: lora.Targets{Names: []string{target}}}); !slices.ContainsFunc(modules,
			func(module string) bool { _, _, ok := only.Of(module); return ok }) {
			empty = append(empty, target)
		}
	}
	for _, whole := range s.Also {
		if only := (lora.Spec{Also: []string{whole}}); !slices.ContainsFunc(names, only.Whole) {
			empty = append(empty, whole)
		}
	}
	switch {
	case single != nil:
		return fmt.Errorf("%s %s missing, the other half of an adapter: get the file again", few(single), are(single))
	case len(foreign) > 0 && !slices.ContainsFunc(foreign, func(name string) bool { return !embeds.MatchString(name) }):
		return fmt.Errorf("%s %s there whole, as PEFT saves an embedding or a head that was resized, and not in "+
			"modules_to_save: if it has as many rows as the base's, add it there", few(foreign), are(foreign))
	case foreign != nil:
		return fmt.Errorf("%s %s in none of target_modules and modules_to_save: the configuration belongs to another adapter",
			few(foreign), are(foreign))
	case wrong != nil:
		return fmt.Errorf("shapes do not fit the ranks: %s: the configuration belongs to another adapter", few(wrong))
	case empty != nil:
		return fmt.Errorf("there are no tensors of %s: remove what has none from target_modules and modules_to_save",
			few(empty))
	case len(names) == 0:
		return errors.New("there are no tensors")
	}
	return nil
}

// ofAdapter returns the parameters that are saved with an adapter: its matrices, and whatever is trained whole.
func ofAdapter(s lora.Spec, params []model.Param) (list []model.Param) {
	for _, p := range params {
		if _, ok := moduleOf(p.Name); ok || s.Whole(p.Name) {
			list = append(list, p)
		}
	}
	return list
}

// Load loads the adapter's tensors into the parameters of a model that are the adapter's own, as [Checkpoint.Load]
// does, and ignores the parameters of the base. If the adapter has a tensor that the model lacks, or the other way
// round, that is an error: the adapter belongs to another model, and part of it would do nothing.
func (a *Adapter) Load(ctx context.Context, d *kernels.Device, params []model.Param) error {
	own := ofAdapter(a.Spec, params)
	file := &Checkpoint{label: a.Name, weights: &weights{where: map[string]store{}}}
	for _, name := range a.file.Names() {
		file.weights.where[name] = a.file
	}
	var missing, wrong []string
	left := maps.Clone(a.file.index)
	for i, p := range own {
		info, ok := a.file.Tensor(p.Name)
		own[i].Transposed = p.Transposed || a.transposed[p.Name]
		switch {
		case !ok:
			missing = append(missing, p.Name)
		case !slices.Equal(info.Shape, fileShape(own[i])):
			wrong = append(wrong, fmt.Sprintf("%s of shape %s where the model needs %v", p.Name, shape(info.Shape),
				fileShape(own[i])))
		}
		delete(left, p.Name)
	}
	var err error
	switch unknown := slices.Sorted(maps.Keys(left)); {
	case len(unknown) > 0:
		err = fmt.Errorf("it has %s, which the model does not have: it belongs to another base", few(unknown))
	case missing != nil:
		err = fmt.Errorf("it lacks %s: it belongs to another base", few(missing))
	case wrong != nil:
		err = fmt.Errorf("it has %s: it belongs to another base", few(wrong))
	default:
		err = file.load(ctx, d, own, nil, func(int) {})
	}
	if err != nil {
		return fmt.Errorf("adapter %s: %w", a.Name, err)
	}
	return d.Err()
}

// AdapterOptions configure SaveAdapter.
type AdapterOptions struct {
	// BaseModel is base_model_name_or_path: the model that the adapter belongs to.
	BaseModel string
	// Record is a JSON object to be saved as restyle_adapter.json, because old readers refuse a configuration with
	// unknown keys. If it is nil, there is no such file.
	Record json.RawMessage
	// From is the model whose tokenizer and other small files are saved with the adapter. Nil: none.
	From *Checkpoint
	// Card is the model card, saved as README.md. Nil keeps the README.md that is there.
	Card []byte
}

// SaveAdapter saves the adapter among a model's parameters to a directory, which it creates, as PEFT does: its
// matrices in F32, whatever is trained whole in its own type, and a configuration that PEFT from 0.7 on and vLLM
// read. Other parameters are ignored. If a matrix has a master in F32, give that as Param.W. If a value is NaN or
// infinite, the error names the parameter.
//
// An adapter that is already in the directory stays whole until the new one is on disk. If SaveAdapter is interrupted
// while it gives the files their names, the directory has no adapter_model.safetensors, and never the weights of one
// adapter with the configuration of the other.
func SaveAdapter(dir string, spec lora.Spec, d *kernels.Device, params []model.Param, o AdapterOptions) error {
	if err := saveAdapter(dir, spec, d, params, o); err != nil {
		return fmt.Errorf("cannot save the adapter to %s: %w", dir, err)
	}
	return nil
}

func saveAdapter(dir string, spec lora.Spec, d *kernels.Device, params []model.Param, o AdapterOptions) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if o.Record != nil {
		if err := parseObject(o.Record).err; err != nil {
			return fmt.Errorf("%s: %w", adapterRecordName, err)
		}
	}
	tensors, err := adapterOutputs(spec, d, params)
	if err != nil {
		return err
	}
	if err := disk.MakeDir(dir, 0o777); err != nil {
		return err
	}
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat("config.json"); err == nil {
		return errors.New("there is a model, with a config.json: give an adapter a directory of its own")
	}
	s := staging{root: root}
	defer s.discard()
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
	}
	s.bytes(adapterConfigName, adapterConfig(spec, o.BaseModel, modulesOf(names)))
	if o.From != nil {
		for _, name := range companions {
			s.copy(name, o.From)
		}
	}
	if o.Record != nil {
		s.bytes(adapterRecordName, o.Record)
	} else {
		s.gone = append(s.gone, adapterRecordName)
	}
	if o.Card != nil {
		s.bytes("README.md", o.Card)
	}
	s.write(adapterWeightsName, func(w io.Writer) error {
		return writeSafetensors(w, map[string]string{"format": "pt"}, tensors)
	})
	if s.err == nil {
		if err := root.Remove(adapterWeightsName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.name()
}

// adapterOutputs returns how to write the adapter among the parameters, under its names in files.
func adapterOutputs(s lora.Spec, d *kernels.Device, params []model.Param) (tensors []TensorData, err error) {
	shapes := map[string][]int{}
	for _, p := range ofAdapter(s, params) {
		shapes[p.Name] = fileShape(p)
		to := tensor.F32
		if s.Whole(p.Name) {
			to = p.W.DType
		}
		list := outputs(d, []model.Param{p}, SaveOptions{DType: to})
		list[0].Name = adapterPrefix + p.Name
		tensors = append(tensors, list[0])
	}
	return tensors, checkAdapter(s, shapes)
}
