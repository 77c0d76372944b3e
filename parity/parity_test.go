package parity

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/memory"
	"restyle/kernels"
	"restyle/tensor"
)

// must runs a comparison, and checks that every error is within its limit and that no value was passed over.
func must(t *testing.T, o Options, paths ...string) *Report {
	t.Helper()
	r, err := Run(context.Background(), paths, o)
	expect.OK(t, err)
	for _, row := range r.Rows {
		if !row.OK {
			t.Errorf("%s, %s: %s of %s is %.3g, limit %.3g %s", row.Folder, row.Run, row.Figure, row.At, float64(row.Error),
				float64(row.Limit), row.Note)
		}
	}
	c := r.Counts
	if sum := c.Compared + c.Limits + c.LeftOut + c.Unsupported; c.Open != 0 || sum != c.Present ||
		r.OK != (r.Failed == 0) {
		t.Errorf("%d figures are present, %+v, ok %v", c.Present, c, r.OK)
	}
	return r
}

// TestOwnRecordings checks the repository's own recordings: tiny models and what PyTorch computed from them.
func TestOwnRecordings(t *testing.T) {
	r := must(t, Options{}, "testdata")
	if r.Partial || r.Counts.Compared < 350 || len(r.Folders) != 4 {
		t.Errorf("only %+v in %q, partial %v", r.Counts, r.Folders, r.Partial)
	}
	for _, run := range []string{"fp32, unfused", "fp32, fused", "bf16, unfused", "bf16, fused"} {
		for _, folder := range r.Folders {
			if !slices.ContainsFunc(r.Rows, func(row Row) bool {
				return row.Run == run && row.Folder == folder && strings.Contains(row.Figure, "gradient")
			}) {
				t.Errorf("%s: no gradient was compared in %s", folder, run)
			}
		}
	}
}

// TestOwnRecordings_Quick checks that Quick leaves out what takes long at full size, and that the report says so.
func TestOwnRecordings_Quick(t *testing.T) {
	r := must(t, Options{Quick: true}, "testdata/large")
	if !r.Partial || r.Counts.LeftOut == 0 || len(r.LeftOut) == 0 {
		t.Errorf("partial %v, left out %d: %q", r.Partial, r.Counts.LeftOut, r.LeftOut)
	}
	if !slices.ContainsFunc(r.Rows, func(row Row) bool { return strings.Contains(row.At, "rows.1.hidden.block.0") }) {
		t.Error("the first block of the long row was not compared")
	}
}

// needMemory skips the test if a model at full size would not fit.
func needMemory(t *testing.T, gib int) {
	t.Helper()
	if free, whose, ok := memory.Free(); ok && free < gib<<30 {
		t.Skipf("needs %d GiB of memory, and %s has %d left", gib, whose, free>>30)
	}
}

// TestReference compares all small models, optimizers and tokenizers of the reference directory. Only bitsandbytes'
// other optimizers are not supported.
func TestReference(t *testing.T) {
	root := expect.Reference(t, "golden")
	entries, err := os.ReadDir(root)
	expect.OK(t, err)
	var paths []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "full" {
			paths = append(paths, filepath.Join(root, e.Name()))
		}
	}
	r := must(t, Options{}, paths...)
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Unsupported == 0 || slices.ContainsFunc(r.Unsupported,
		func(name string) bool { return !strings.HasPrefix(name, "optim/") }) {
		t.Errorf("%+v, %q", r.Counts, r.Unsupported)
	}
}

// TestReferenceOps compares the recorded results of single operations.
func TestReferenceOps(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "ops"))
	if r.Partial || r.Counts.Compared < 50 {
		t.Errorf("%+v", r.Counts)
	}
	for name := range operations {
		if !slices.ContainsFunc(r.Rows, func(row Row) bool { return strings.HasPrefix(row.At, name+".safetensors ") }) {
			t.Errorf("nothing of %s was compared", name)
		}
	}
}

// TestReferenceFP16 compares training in F16 with loss scaling, and the rule of the scale by itself.
func TestReferenceFP16(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "fp16"))
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Unsupported > 0 || len(r.Folders) < 2 {
		t.Errorf("%+v of %q", r.Counts, r.Folders)
	}
}

// TestReferenceLoRA compares adapters.
func TestReferenceLoRA(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "lora"))
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Unsupported > 0 || r.Counts.Compared < 400 {
		t.Errorf("%+v", r.Counts)
	}
}

// TestReferenceGGUF compares GGUF's blocks, models, adapters and damaged files.
func TestReferenceGGUF(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "gguf"))
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Unsupported > 0 || r.Counts.Compared < 4000 || len(r.Folders) != 6 {
		t.Errorf("%+v of %q", r.Counts, r.Folders)
	}
}

// TestReferenceGPT compares GPT-2 models.
func TestReferenceGPT(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "gpt"))
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Unsupported > 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// TestReferenceMoE compares mixtures of experts.
func TestReferenceMoE(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "moe"))
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Unsupported > 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// TestReferenceRoPE compares models with scaled frequencies, only frequencies, and configurations to refuse. Only
// Phi-3's, which turns a part of each head, are not supported.
func TestReferenceRoPE(t *testing.T) {
	r := must(t, Options{}, expect.Reference(t, "golden-next", "rope"))
	if r.Partial || r.Counts.LeftOut > 0 || r.Counts.Compared < 600 {
		t.Errorf("%+v", r.Counts)
	}
}

// TestReferenceFull checks the first layer of the model at full size in both types. With RESTYLE_LONG it checks all
// layers in BF16, which takes half the memory. TestReferenceFullWhole does the rest.
func TestReferenceFull(t *testing.T) {
	if testing.Short() {
		t.Skip("a model of 1.2 billion parameters")
	}
	root := expect.Reference(t, "golden", "full")
	needMemory(t, 4)
	whole := []tensor.DType{}
	if os.Getenv("RESTYLE_LONG") != "" {
		whole = append(whole, tensor.BF16)
	}
	must(t, Options{Quick: true, whole: whole, Fused: []kernels.Fused{kernels.All()}}, root)
}

// long skips a test that takes many minutes.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("RESTYLE_LONG") == "" {
		t.Skip("takes many minutes: set RESTYLE_LONG to run it")
	}
}

// TestReferenceFullWhole checks all of the model at full size.
func TestReferenceFullWhole(t *testing.T) {
	long(t)
	needMemory(t, 15)
	if r := must(t, Options{}, expect.Reference(t, "golden", "full")); r.Partial {
		t.Error("it was only a part")
	}
}

// TestRun_SameBitsWithAnyThreads checks that results have the same bits with any number of threads.
func TestRun_SameBitsWithAnyThreads(t *testing.T) {
	var first []Row
	for _, threads := range []int{1, 2, runtime.NumCPU() + 1} {
		r := must(t, Options{Threads: threads}, "testdata/llama")
		if first == nil {
			first = r.Rows
			continue
		}
		if !slices.Equal(r.Rows, first) {
			t.Errorf("with %d threads other errors come out than with one", threads)
		}
	}
}

// TestRun_RefusesPaths checks the errors for a wrong request.
func TestRun_RefusesPaths(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "note.md")
	expect.OK(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		path, only, device, want string
	}{
		{empty, "", "", empty + ": no reference outputs in it"},
		{filepath.Join(empty, "none"), "", "", "no such file"},
		{file, "", "", "not a directory"},
		{"testdata", "nothing", "", "pattern \"nothing\": matches no directory"},
		{"testdata", "[", "", "syntax error in pattern"},
		{"testdata", "", "tpu", "device \"tpu\""},
	} {
		if _, err := Run(context.Background(), []string{c.path}, Options{Only: c.only, Device: c.device}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %s: %v, want %q", c.path, c.only, c.device, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, []string{"testdata"}, Options{}); err == nil {
		t.Error("it ran though it was stopped")
	}
}

// TestRun_Only checks that the report of a part is marked as partial, and that a directory that is given twice, or that
// is within another, is compared once.
func TestRun_Only(t *testing.T) {
	r := must(t, Options{Only: "qwen*"}, "testdata", "testdata/qwen2")
	if !r.Partial || !slices.Equal(r.Folders, []string{"testdata/qwen2"}) {
		t.Errorf("partial %v, %q", r.Partial, r.Folders)
	}
}
