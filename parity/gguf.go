package parity

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"restyle/gguf"
	"restyle/quant"
)

var ggufFiles = []string{"gguf.json", "gguf.safetensors", "config.json", "model.safetensors", "tokenizer.json",
	"tokenizer_config.json", "*.gguf"}

func isGGUF(f *folder) bool { return f.hasFile("gguf.json") }

// A ggufFolder has what llama.cpp and gguf-py make of numbers, models or adapters, and read in files.
type ggufFolder struct {
	*folder
	g    *tensors // gguf.safetensors; nil if there is none
	j    *values  // gguf.json
	temp string   // a directory for files of ours
}

func compareGGUF(f *folder) (err error) {
	q := ggufFolder{folder: f}
	if q.j, err = f.values("gguf.json"); err != nil {
		return err
	}
	q.j.strike("about", input)
	q.j.strike("seed", input)
	q.j.strikeAll("libraries.", input)
	for _, name := range f.files {
		if filepath.Ext(name) == ".gguf" {
			f.enter(name) // whoever opens the file strikes it
		}
	}
	if f.hasFile("gguf.safetensors") {
		if q.g, err = f.tensors("gguf.safetensors"); err != nil {
			return err
		}
		defer q.g.st.Close()
	}
	if q.temp, err = os.MkdirTemp("", "restyle-parity-"); err != nil {
		return err
	}
	defer os.RemoveAll(q.temp)
	switch {
	case q.j.hasAny("recipes."):
		return q.malformed()
	case q.j.hasAny("models."):
		return q.converted()
	case q.j.hasAny("adapters."):
		return q.adapters()
	case q.g == nil:
		return errors.New("gguf.json has no recipes, models or adapters, and there is no gguf.safetensors")
	case q.j.hasAny("types."):
		err = q.blocks()
	default:
		err = q.models()
	}
	return errors.Join(err, q.g.err)
}

// blocks compares the blocks of all types: made of rows of numbers, and read, as they are and as quantized rows.
func (q *ggufFolder) blocks() error {
	x := q.g.floats("x")
	info, _ := q.g.st.Tensor("x")
	if len(info.Shape) != 2 || len(x) == 0 {
		return fmt.Errorf("x has shape %v: must be a matrix", info.Shape)
	}
	q.strike(q.g.key("x"), input)
	for _, name := range q.j.under("types.") {
		i := slices.IndexFunc(gguf.Types, func(t gguf.Type) bool { return t.String() == name })
		if i < 0 {
			return fmt.Errorf("there is no type %s", name)
		}
		if err := q.block(gguf.Types[i], x, info.Shape[1]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (q *ggufFolder) block(t gguf.Type, x []float32, in int) error {
	at := "types." + t.String() + "."
	elements, size := t.Block()
	q.j.compare("block", at+"id", float64(t), exact)
	q.j.compare("block", at+"elements", float64(elements), exact)
	q.j.compare("block", at+"bytes", float64(size), exact)
	packed, back := make([]byte, len(x)/in*t.RowBytes(in)), make([]float32, len(x))
	if err := errors.Join(t.Quantize(packed, x), t.Dequantize(back, packed)); err != nil {
		return err
	}
	if q.o.mistake.packed != nil {
		q.o.mistake.packed(t, packed)
	}
	var ours []float64
	for lo := 0; lo < len(x); lo += in {
		ours = append(ours, byNorm(back[lo:lo+in], x[lo:lo+in]))
	}
	q.compare("quantization error", q.j.key(at+"error"), relatives(ours, q.j.numbers(at+"error")), limitBlocks)
	if name := t.String() + ".packed"; q.g.has(name) {
		same(q.g, "blocks", name, packed, q.g.bytes(name))
		rows := make([]byte, len(x)/in*quant.FromGGUF(t).RowBytes(in))
		made := slices.Clone(rows)
		err := errors.Join(quant.Pack(rows, q.g.bytes(name), quant.FromGGUF(t), in),
			quant.RuleFor(quant.FromGGUF(t)).Quantize(made, x, in))
		if err != nil {
			return err
		}
		same(q.g, "rows of blocks", name, made, rows)
		if err := q.dequantized(t, name, t.String()+".back", in); err != nil {
			return err
		}
	}
	return q.dequantized(t, t.String()+".noise", t.String()+".noise.back", elements)
}

// dequantized compares the values of blocks, and of the same blocks as quantized rows of in weights.
func (q *ggufFolder) dequantized(t gguf.Type, blocks, back string, in int) error {
	data, want := q.g.bytes(blocks), bitsOf(q.g.floats(back))
	q.strike(q.g.key(blocks), input)
	of, n := quant.FromGGUF(t), len(data)/t.RowBytes(in)
	rows, got := make([]byte, n*of.RowBytes(in)), make([]float32, n*in)
	if err := t.Dequantize(got, data); err != nil {
		return err
	}
	same(q.g, "values of blocks", back, bitsOf(got), want)
	if err := errors.Join(quant.Pack(rows, data, of, in), quant.Dequantize(got, rows, of, in)); err != nil {
		return err
	}
	same(q.g, "values of rows", back, bitsOf(got), want)
	return nil
}

// bitsOf returns the bits of numbers, which tell 0 from -0.
func bitsOf(x []float32) (bits []uint32) {
	for _, v := range x {
		bits = append(bits, math.Float32bits(v))
	}
	return bits
}
