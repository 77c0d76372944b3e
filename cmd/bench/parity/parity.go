package parity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"restyle/kernels"
	"restyle/model"
)

// Options are how Run compares. The zero value compares everything on the CPU, with all operations unfused and fused.
type Options struct {
	Device  string // as kernels.Open takes it; "" is "cpu"
	Threads int    // of the CPU; 0 is all
	// Fused are the sets of fused operations with which models are computed. Nil: none, and then all.
	Fused []kernels.Fused
	// Quick leaves out what takes minutes at full size: all but the short row's forward pass and the long one's first block.
	Quick bool
	// Only is a pattern as path.Match has it. Folders whose name, or its last part, does not fit are left out.
	Only string
	// Progress is told what is about to be computed in a folder that takes long, and the share of all work of this folder
	// that is done. Nil: nobody is.
	Progress func(folder, what string, done float64)
	// Note is told what a user should know of the device that was opened, in lines. Nil for nobody.
	Note func(line string)

	mistake mistake
}

// A mistake is made on purpose by tests, to see that it shows.
type mistake struct {
	config  func(*model.Config)
	weights func(*kernels.Device, *model.Model)
	batch   func(model.Batch) model.Batch
	scale   func(b model.Batch, scale float32) float32 // of the gradient of one batch of a step
}

// A kind is one form of reference outputs.
type kind struct {
	name    string
	is      func(f *folder) bool
	compare func(f *folder) error
	// files are what may be in a folder of the kind besides scripts and Markdown. Others are unknown, and a failure.
	files []string
}

var kinds = []kind{
	{"model", isModel, compareModel, modelFiles},
	{"full", isFull, compareFull, []string{"golden.json", "config.json", "generation_config.json"}},
	{"chat", isChat, compareChat, []string{"*.jsonl"}},
	{"infer", isInfer, compareInfer, []string{"sampling.jsonl"}},
	{"optim", isOptim, compareOptim, []string{"*.safetensors", "*.txt"}},
	{"tokenizer", isTokenizer, compareTokenizer, tokenizerFiles},
}

// A folder is one folder of reference outputs under comparison.
type folder struct {
	ledger
	o      Options
	d      *kernels.Device
	report *Report
	dir    string
	name   string // for the report
	files  []string
	run    string // how what is compared now was computed
	ctx    context.Context
}

// Run compares every folder of reference outputs under the paths. The error is about the request or the machine; what is
// wrong with a folder, or with what was computed, is in the report.
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
		f.ctx, f.o, f.d, f.report = ctx, o, d, r
		f.compareAll()
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		r.Folders = append(r.Folders, f.name)
		r.Counts.add(f.ledger)
	}
	r.Partial = r.Partial || r.Counts.LeftOut > 0
	r.OK = r.Failed == 0
	if len(r.Folders) == 0 {
		return nil, errors.Join(fmt.Errorf("no folder of reference outputs fits %q", o.Only), d.Close())
	}
	return r, d.Close()
}

// find lists all folders under the paths that hold something.
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
			return nil, fmt.Errorf("%s is not a folder: give folders of reference outputs", p)
		}
		found := false
		err = filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
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
			return nil, fmt.Errorf("there is no reference output in %s", p)
		}
	}
	return list, nil
}

// recipe is a list of what a script made the folders below from; there is nothing in it to compare.
const recipe = "variants.json"

// openFolder is a folder with its files, nil where there is no data in it.
func openFolder(root, dir string) (*folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(filepath.Dir(root), dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, name: filepath.ToSlash(rel)}
	for _, e := range entries {
		data := slices.Contains([]string{".json", ".jsonl", ".safetensors", ".txt", ".tsv"}, filepath.Ext(e.Name()))
		if data && !e.IsDir() && e.Name() != recipe {
			f.files = append(f.files, e.Name())
		}
	}
	if len(f.files) == 0 {
		return nil, nil
	}
	return f, nil
}

// compareAll compares a folder, and enters as failures what went wrong and what was passed over.
func (f *folder) compareAll() {
	k := f.kind()
	if k == nil {
		f.fail("folder", "", "it is of no known kind: its files are "+strings.Join(f.files, ", "))
		return
	}
	if err := k.compare(f); err != nil {
		f.fail("error", "", err.Error())
	}
	f.run = ""
	for _, name := range f.files {
		if !slices.ContainsFunc(k.files, func(pattern string) bool { return globs(pattern, name) }) {
			f.fail("unknown file", name, "nothing is known of such a file in a folder of kind "+k.name)
		}
	}
	for _, name := range f.with(open) {
		f.fail("passed over", name, "it is present and was not compared")
	}
	r := f.report
	r.Limits = few(r.Limits, "", f.with(yardstick))
	r.Unsupported = few(r.Unsupported, f.name, f.with(unsupported))
	r.LeftOut = few(r.LeftOut, f.name, f.with(leftOut))
}

// kind recognises a folder by its files.
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

// compare enters a comparison with the figure of that name in the ledger.
func (f *folder) compare(figure, name string, err, limit float64) {
	if !f.has(name) {
		return // it is missing, which whoever looked for it has said
	}
	f.strike(name, compared)
	f.property(figure, name, err, limit)
}

// property enters a comparison with something that is not recorded in the folder.
func (f *folder) property(figure, at string, err, limit float64) {
	f.report.add(Row{Folder: f.name, Run: f.run, Figure: figure, At: at, Error: Number(err), Limit: Number(limit)})
}

// fail enters what could not be compared at all.
func (f *folder) fail(figure, at, why string) {
	f.report.add(Row{Folder: f.name, Run: f.run, Figure: figure, At: at, Note: why})
}

// missing enters that a figure is not there.
func (f *folder) missing(name string) { f.fail("missing", name, "it should be there and is not") }

func (f *folder) progress(what string, done float64) {
	if f.o.Progress != nil {
		f.o.Progress(f.name, what, done)
	}
}
