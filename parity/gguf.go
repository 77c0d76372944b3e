package parity

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"restyle/gguf"
	"restyle/quant"
)

var ggufFiles = []string{"gguf.json", "gguf.safetensors", "config.json", "model.safetensors", "tokenizer.json",
	"tokenizer_config.json", "*.gguf"}

func isGGUF(f *folder) bool { return f.hasFile("gguf.json") }

// A ggufFolder has what llama.cpp and gguf-py make of numbers, models or adapters, and read in files.
type ggufFolder struct {
	*folder
	g *tensors // gguf.safetensors; nil if there is none
	j *values  // gguf.json
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
	switch {
	case q.j.hasAny("recipes."):
		return q.malformed()
	case q.g == nil:
		f.strikeAll("", unsupported)
		return nil
	case q.j.hasAny("types."):
		err = q.blocks()
	default:
		err = q.models()
	}
	return errors.Join(err, q.g.err)
}

// opened opens a file of the folder.
func (q *ggufFolder) opened(name string) (*gguf.File, error) {
	q.strike(name, input)
	return gguf.Open(q.path(name))
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
	q.run = t.String()
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

// freeKeys are keys whose values a writer may choose.
var freeKeys = []string{"general.name", "general.size_label"}

// content compares all that a file has with the recorded content below a path. In a file that is ours, free keys may
// differ, and with them where the tensors' data begins, and the order of the tensors.
func (q *ggufFolder) content(at string, f *gguf.File, size int64, ours bool) error {
	q.j.compare("version", at+"version", float64(f.Version), exact)
	q.j.compare("alignment", at+"alignment", float64(f.Alignment), exact)
	q.keys(at+"kv.", f, ours)
	place := map[string]int64{}
	var end int64
	for _, t := range f.Tensors() { // opening has checked that they follow each other
		place[t.Name] = end
		end += (t.Bytes + int64(f.Alignment) - 1) / int64(f.Alignment) * int64(f.Alignment)
	}
	recorded := q.j.under(at + "tensors.")
	q.property("number of tensors", at, differ(len(recorded) == len(f.Tensors())), exact)
	for i := range recorded {
		at := fmt.Sprintf("%stensors.%d.", at, i)
		var name string
		q.j.get(at+"name", &name)
		t, there := f.Tensor(name)
		q.compare("tensors", q.j.key(at+"name"), differ(there && (ours || f.Tensors()[i].Name == name)), exact)
		if !there {
			continue
		}
		if err := q.tensor(at, f, t, ours); err != nil {
			return err
		}
		if !ours {
			q.j.compare("offsets", at+"offset", float64(place[name]), exact)
		}
	}
	if !ours {
		q.j.compare("offsets", at+"data_offset", float64(size-end), exact)
		q.j.compare("bytes of the file", at+"bytes", float64(size), exact)
	}
	return nil
}

// keys compares the keys and values of a file.
func (q *ggufFolder) keys(at string, f *gguf.File, ours bool) {
	names := map[string]bool{}
	for path := range q.j.values {
		if rest, ok := strings.CutPrefix(path, at); ok {
			name := rest[:max(0, strings.LastIndex(rest, "."))]
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at, v := at+name, f.Value(name)
		if ours && slices.Contains(freeKeys, name) {
			q.j.strikeAll(at+".", input)
			continue
		}
		var kind []string
		q.j.get(at+".type", &kind)
		is := strings.ReplaceAll(strings.ToUpper(fmt.Sprintf("%T", v)), "[]", "ARRAY ")
		q.compare("types of keys", q.j.key(at+".type"), differ(is == strings.Join(kind, " ")), exact)
		switch {
		case v == nil:
			q.compare("keys", q.j.key(at+".value"), 1, exact)
		case q.j.has(at + ".sha256"):
			var sum string
			q.j.get(at+".sha256", &sum)
			q.j.compare("lengths of lists", at+".n", float64(reflect.ValueOf(v).Len()), exact)
			q.compare("sha256 of lists", q.j.key(at+".sha256"), differ(sum == sha256Of(pythonJSON(v))), exact)
		default:
			want := reflect.New(reflect.TypeOf(v)) // Python writes a float32 with the digits of the float64
			q.j.get(at+".value", want.Interface())
			q.compare("keys", q.j.key(at+".value"), differ(reflect.DeepEqual(want.Elem().Interface(), v)), exact)
		}
	}
	for _, key := range f.Keys() {
		if !names[key] && !slices.Contains(freeKeys, key) { // some recordings leave the name out
			q.fail("keys", key, "the file has it, but not the recording")
		}
	}
}

// tensor compares a tensor of a file: its type, dimensions and bytes.
func (q *ggufFolder) tensor(at string, f *gguf.File, t gguf.Tensor, ours bool) error {
	var kind, sum string
	q.j.get(at+"type", &kind)
	q.j.get(at+"sha256", &sum)
	var dims []int
	q.j.get(at+"dims", &dims)
	q.compare("types of tensors", q.j.key(at+"type"), differ(kind == t.Type.String()), exact)
	q.compare("dimensions", q.j.key(at+"dims"), differ(slices.Equal(dims, t.Dims)), exact)
	data := make([]byte, t.Bytes)
	if err := f.ReadAt(t.Name, data, 0); err != nil {
		return err
	}
	if q.j.has(at + "values") {
		got := make([]float32, len(data)/4)
		if err := gguf.F32.Dequantize(got, data); err != nil {
			return err
		}
		want := q.j.numbers(at + "values")
		worst := 0.0
		for i, x := range got {
			if len(want) != len(got) {
				worst = math.Inf(1)
				break
			}
			worst = max(worst, relative(float64(x), want[i]))
		}
		q.compare("values", q.j.key(at+"values"), worst, limitFactors)
		if ours {
			q.j.strike(at+"sha256", input) // of powers in float32, whose last bits may differ
			return nil
		}
	}
	q.compare("sha256 of tensors", q.j.key(at+"sha256"), differ(sum == sha256Of(data)), exact)
	return nil
}

func sha256Of(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// pythonJSON returns json.dumps(v, ensure_ascii=False, separators=(",", ":")).
func pythonJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("parity: " + err.Error()) // strings and finite numbers
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
