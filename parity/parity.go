package parity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"restyle/gguf"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// Options are the settings of Run. The zero value compares everything on the CPU, once with all operations unfused and
// once with all fused.
type Options struct {
	Device  string // as for kernels.Open; "" is "cpu"
	Threads int    // CPU threads; 0 for all
	// Fused are the sets of fused operations to run models with. If nil, Run runs them with none fused, and then with all.
	Fused []kernels.Fused
	// Quick leaves out what takes minutes at full size: everything but the short row's forward pass and the long row's
	// first layer.
	Quick bool
	// Only is a pattern for path.Match. Run leaves out directories if neither their path nor its last element matches.
	Only string
	// Progress, if not nil, is called with the next computation of a directory that takes long, and with the share of its
	// work that is done.
	Progress func(folder, what string, done float64)
	// Note, if not nil, is called with each line that a user should know about the device.
	Note func(line string)

	mistake mistake
	whole   []tensor.DType // the types in which Quick runs all layers; nil: both
}

// A mistake is an error that a test makes on purpose, to check that Run finds it.
type mistake struct {
	config  func(*model.Config)
	weights func(*kernels.Device, *model.Model)
	batch   func(model.Batch) model.Batch
	scale   func(b model.Batch, scale float32) float32 // of the gradient of one batch of a step
	spec    func(*lora.Spec)
	// adapter returns the values that a trained parameter gets instead of x; nil: it keeps the base's.
	adapter func(name string, x []float32) []float32
	// merged returns a merged weight in BF16, given ours and the one from another way of merging.
	merged func(ours, other []float32) []float32
	packed func(t gguf.Type, blocks []byte) // changes the blocks of rows
	mix    func(*gguf.Model)                // what the types of tensors depend on
}

// A kind is a form of reference outputs.
type kind struct {
	name    string
	is      func(f *folder) bool
	compare func(f *folder) error
	// files are the files that a directory may have, apart from scripts and Markdown. Any other file is a failure.
	files []string
}

var kinds = []kind{
	{"model", isModel, compareModel, modelFiles},
	{"full", isFull, compareFull, []string{"golden.json", "config.json", "generation_config.json"}},
	{"optim", isOptim, compareOptim, []string{"*.safetensors", "*.txt"}},
	{"tokenizer", isTokenizer, compareTokenizer, tokenizerFiles},
	{"scaler", isScaler, compareScaler, []string{"scaler.json"}},
	{"fp16", isScaling, compareScaling, []string{"config.json", "model.safetensors", "scaling.json",
		"scaling.safetensors"}},
	{"quant", isQuant, compareQuant, quantFiles},
	{"lora", isLoRA, compareLoRA, loraFiles},
	{"gguf", isGGUF, compareGGUF, ggufFiles},
	{"rope", isRoPE, compareRoPE, []string{"*.jsonl", "variants.json"}},
	{"ops", isOps, compareOps, []string{"*.json", "*.safetensors"}},
}

// A folder is a directory of reference outputs.
type folder struct {
	ledger
	o      Options
	d      *kernels.Device
	report *Report
	dir    string
	name   string // for the report
	files  []string
	run    string // how the current results were computed
	ctx    context.Context
}

// Run compares every directory of reference outputs below the paths. It returns an error only for problems with the
// request or the machine; the report has what is wrong with a directory or with a result.
func Run(ctx context.Context, paths []string, o Options) (*Report, error) {
	if o.Device == "" {
		o.Device = "cpu"
	}
	if o.Fused == nil {
		o.Fused = []kernels.Fused{{}, kernels.All()}
	}
	if _, err := path.Match(o.Only, ""); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", o.Only, err)
	}
	folders, err := find(paths)
	if err != nil {
		return nil, err
	}
	d, err := kernels.Open(o.Device, kernels.Options{Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	for _, n := range d.Notes() {
		if o.Note != nil {
			o.Note(n)
		}
	}
	r := &Report{Device: d.Name()}
	for _, f := range folders {
		if o.Only != "" && !globs(o.Only, f.name) {
			r.Partial = true
			continue
		}
		if f.kind() == nil && isText(f) {
			r.Texts = append(r.Texts, f.name)
			continue
		}
		f.ctx = ctx
		f.o = o
		f.d = d
		f.report = r
		f.compareAll()
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		r.Folders = append(r.Folders, f.name)
		r.Counts.add(f.ledger)
	}
	r.Partial = r.Partial || r.Counts.LeftOut > 0
	r.OK = r.Failed == 0
	switch {
	case len(r.Folders) == 0 && len(r.Texts) > 0:
		return nil, errors.Join(fmt.Errorf("%s: only texts, which no device computes: compare them with %s",
			strings.Join(r.Texts, ", "), textTests), d.Close())
	case len(r.Folders) == 0:
		return nil, errors.Join(fmt.Errorf("pattern %q: matches no directory of reference outputs", o.Only), d.Close())
	}
	return r, d.Close()
}

// textTests is the command that compares recordings of texts.
const textTests = "RESTYLE_REFERENCE=DIRECTORY go test -run Reference ./chat/... ./dataset/training ./infer ./tokenizer"

// isText reports whether a directory has recordings of what no device computes: chat templates, streamed and trained
// tokenizers, classes of characters, sampling. The tests of their packages compare them.
func isText(f *folder) bool {
	return f.hasConversations() || slices.ContainsFunc(f.files, func(name string) bool {
		return slices.Contains([]string{"sampling.jsonl", "stream.jsonl", "unicode_classes.json", "corpus.txt",
			"expressions.jsonl", "hostile.jsonl"}, name)
	})
}

// hasConversations reports whether a file's first line has messages.
func (f *folder) hasConversations() bool {
	stop := errors.New("the first line is enough")
	return slices.ContainsFunc(f.files, func(file string) bool {
		var row struct{ Messages json.RawMessage }
		if filepath.Ext(file) == ".jsonl" {
			_ = f.eachLine(file, func(_ int, line []byte) error {
				_ = json.Unmarshal(line, &row)
				return stop
			})
		}
		return row.Messages != nil
	})
}

// find returns all directories below the paths that contain data.
func find(paths []string) ([]*folder, error) {
	var list []*folder
	seen := map[string]bool{}
	for _, p := range paths {
		root, err := filepath.Abs(p)
		if err == nil {
			root, err = filepath.EvalSymlinks(root)
		}
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(root); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%s: not a directory: name a directory of reference outputs", p)
		}
		found := false
		err = disk.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			if dir != root && (strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "__")) {
				return fs.SkipDir
			}
			f, err := openFolder(root, dir)
			if f != nil {
				found = true
				if !seen[dir] {
					list = append(list, f)
				}
				seen[dir] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("%s: no reference outputs in it", p)
		}
	}
	return list, nil
}

// recipe is a file that lists what a script made the directories from. There is nothing to compare in it.
const recipe = "variants.json"

// openFolder returns a directory with its files, or nil if it has no data.
func openFolder(root, dir string) (*folder, error) {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(filepath.Dir(root), dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, name: filepath.ToSlash(rel)}
	for _, e := range entries {
		data := slices.Contains([]string{".json", ".jsonl", ".safetensors", ".gguf", ".txt", ".tsv"}, filepath.Ext(e.Name()))
		if data && !e.IsDir() && e.Name() != recipe {
			f.files = append(f.files, e.Name())
		}
	}
	if len(f.files) == 0 {
		return nil, nil
	}
	return f, nil
}

// compareAll compares a directory. It adds failures for errors and for values that were compared with nothing.
func (f *folder) compareAll() {
	k := f.kind()
	if k == nil {
		f.fail("folder", "", "unknown kind: its files are "+strings.Join(f.files, ", "))
		return
	}
	if err := k.compare(f); err != nil {
		f.fail("error", "", err.Error())
	}
	f.run = ""
	for _, name := range f.files {
		if !slices.ContainsFunc(k.files, func(pattern string) bool { return globs(pattern, name) }) {
			f.fail("unknown file", name, "a directory of kind "+k.name+" has no such file")
		}
	}
	for _, name := range f.with(open) {
		f.fail("passed over", name, "it was recorded but not compared")
	}
	r := f.report
	r.Limits = few(r.Limits, "", f.with(yardstick))
	r.Unsupported = few(r.Unsupported, f.name, f.with(unsupported))
	r.LeftOut = few(r.LeftOut, f.name, f.with(leftOut))
}

// kind returns the kind of a directory, judging by its files, or nil.
func (f *folder) kind() *kind {
	for i := range kinds {
		if kinds[i].is(f) {
			return &kinds[i]
		}
	}
	return nil
}

func (f *folder) hasFile(name string) bool { return slices.Contains(f.files, name) }

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// compare adds a comparison with the value of that name in the ledger.
func (f *folder) compare(figure, name string, err, limit float64) {
	if !f.has(name) {
		return // reading it has added a failure
	}
	f.strike(name, compared)
	f.property(figure, name, err, limit)
}

// property adds a comparison with something other than a recorded value.
func (f *folder) property(figure, at string, err, limit float64) {
	f.report.add(Row{Folder: f.name, Run: f.run, Figure: figure, At: at, Error: Number(err), Limit: Number(limit)})
}

// fail adds a failure for something that could not be compared.
func (f *folder) fail(figure, at, why string) {
	f.report.add(Row{Folder: f.name, Run: f.run, Figure: figure, At: at, Note: why})
}

// missing adds a failure for a missing value.
func (f *folder) missing(name string) { f.fail("missing", name, "it was not recorded") }

func (f *folder) progress(what string, done float64) {
	if f.o.Progress != nil {
		f.o.Progress(f.name, what, done)
	}
}
