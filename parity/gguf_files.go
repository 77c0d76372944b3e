package parity

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"restyle/gguf"
	"restyle/hf"
	"restyle/tensor"
)

// malformed damages files as the recorded recipes say, and compares whether they are refused, as models or, if they are
// not files of a model, as files.
func (q *ggufFolder) malformed() error {
	if err := q.stored("content.", "tiny.gguf"); err != nil {
		return err
	}
	path := filepath.Join(q.temp, "damaged.gguf")
	for i := range q.j.under("recipes.") {
		at := fmt.Sprintf("recipes.%d.", i)
		if err := q.recipe(at, path); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSuffix(at, "."), err)
		}
	}
	return nil
}

// recipe makes one damaged file and opens it.
func (q *ggufFolder) recipe(at, path string) error {
	var file, expect string
	q.j.get(at+"file", &file)
	q.j.get(at+"expect", &expect)
	data, err := q.read(file)
	if err != nil {
		return err
	}
	for i := 0; q.j.hasAny(fmt.Sprintf("%sedits.%d.", at, i)); i++ {
		edit := fmt.Sprintf("%sedits.%d.", at, i)
		var from int
		var bytes string
		q.j.get(edit+"at", &from)
		q.j.get(edit+"hex", &bytes)
		b, err := hex.DecodeString(bytes)
		if err != nil || from < 0 || from+len(b) > len(data) {
			return fmt.Errorf("%d bytes of %q at %d, %w", len(data), bytes, from, err)
		}
		copy(data[from:], b)
	}
	if q.j.has(at + "truncate") {
		var size int
		if q.j.get(at+"truncate", &size); size < 0 || size > len(data) {
			return fmt.Errorf("it truncates %d bytes to %d", len(data), size)
		}
		data = data[:size]
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = openedAs(path, filepath.Base(file) == "tiny.gguf")
	runtime.ReadMemStats(&after)
	key := q.j.key(at + "expect")
	switch expect {
	case "refuse":
		q.compare("refused files", key, differ(err != nil && strings.Contains(err.Error(), path)), exact)
		q.property("MB allocated", key, float64(after.TotalAlloc-before.TotalAlloc)/1e6, limitRefusal)
	case "accept":
		q.compare("accepted files", key, differ(err == nil), exact)
	case "either":
		q.compare("files that may be refused", key, differ(err == nil || strings.Contains(err.Error(), path)), exact)
	default:
		q.fail("unreadable", key, fmt.Sprintf("%.20q is no expectation", expect))
	}
	q.j.strikeAll(at, input)
	return nil
}

// openedAs opens a file, as a model unless it has only tensors for this purpose.
func openedAs(path string, tiny bool) error {
	if !tiny {
		ck, err := hf.OpenGGUF(path)
		if err == nil {
			err = ck.Close()
		}
		return err
	}
	f, err := gguf.Open(path)
	if err == nil {
		err = f.Close()
	}
	return err
}

// converted compares our files with what llama.cpp's converter makes of the same models, which are in the directory
// "model" next to the recordings, or next to recordings of another kind.
func (q *ggufFolder) converted() error {
	for _, name := range q.j.under("models.") {
		if err := errors.Join(q.ctx.Err(), q.model(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (q *ggufFolder) model(name string) error {
	ck, err := hf.OpenModel(q.path(filepath.Join("../../../golden/model", name)))
	if err != nil {
		return err
	}
	defer ck.Close()
	for _, kind := range q.j.under("models." + name + ".") {
		at := "models." + name + "." + kind + "."
		if kind == "auto" {
			kind = "f16"
			if ck.DTypes()[tensor.BF16] > 0 {
				kind = "bf16"
			}
		}
		path := filepath.Join(q.temp, kind+".gguf")
		if err := errors.Join(q.types(at, kind, ck.Config), q.save(ck, kind, path)); err != nil {
			return err
		}
		if err := q.contentOf(at, path, converted); err != nil {
			return err
		}
	}
	return nil
}

// adapters compares our files with what llama.cpp's converter makes of the same adapters. It takes the alpha of their
// configuration for all that they scale by, so ours are first written with no more than that.
func (q *ggufFolder) adapters() error {
	for _, name := range q.j.under("adapters.") {
		if err := q.adapter(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (q *ggufFolder) adapter(name string) error {
	dir := q.path(filepath.Join("../../lora", name))
	base, err := hf.OpenConfig(dir)
	if err != nil {
		return err
	}
	a, err := hf.OpenAdapter(dir)
	if err != nil {
		return err
	}
	defer a.Close()
	at, path := "adapters."+name+".", filepath.Join(q.temp, name+".gguf")
	own := a.Spec
	a.Spec.RSLoRA, a.Spec.Alphas = false, nil
	err = hf.SaveGGUFAdapter(path, a, base.Config)
	if err == nil {
		err = q.contentOf(at, path, converted)
	}
	if err == nil && q.hasFile(name+".gguf") {
		err = q.stored(at, name+".gguf")
	}
	if err != nil {
		return err
	}
	a.Spec = own
	err = hf.SaveGGUFAdapter(path, a, base.Config)
	if own.Alphas != nil {
		q.property("adapters that one alpha cannot scale", name, differ(err != nil), exact)
		return nil
	}
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v := f.Values()
	alpha := v.Float("adapter.lora.alpha", math.NaN())
	for _, p := range a.Names() {
		if module, is := strings.CutSuffix(p, endA); is { // llama.cpp scales it by alpha over the rank
			rank, scale, _ := own.Of(module)
			q.property("scales of the adapter", p, relative(alpha/float64(rank), scale), limitScale)
		}
	}
	return v.Err
}
