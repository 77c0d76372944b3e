package parity

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"restyle/gguf"
)

// An origin says where a file comes from that is compared with recorded content.
type origin int

const (
	itself      origin = iota // it is the file that was recorded
	converted                 // it is ours, where llama.cpp's converter has made one
	requantized               // it is ours, where llama-quantize has made one, which puts tensors in another order
)

// freeKeys are keys that a file of ours may leave out, add, or give another value. The first may be in a file, and not
// in its recorded content. Nothing reads add_sep_token but models of other kinds. Ours have the others to be read again
// with the same tokenizer, and to end an answer where the model does.
var freeKeys = []string{"general.name", "general.size_label", "tokenizer.ggml.add_sep_token",
	"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
	"tokenizer.huggingface.json"}

// contentOf compares the content of a file.
func (q *ggufFolder) contentOf(at, path string, from origin) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(q.content(at, f, info.Size(), from), f.Close())
}

// stored compares the content of a file of the folder.
func (q *ggufFolder) stored(at, name string) error {
	q.strike(name, input)
	return q.contentOf(at, q.path(name), itself)
}

// content compares all that a file has with the recorded content below a path. In a file that is ours, free keys may
// differ, and with them where the tensors' data begins.
func (q *ggufFolder) content(at string, f *gguf.File, size int64, from origin) error {
	q.j.compare("version", at+"version", float64(f.Version), exact)
	q.j.compare("alignment", at+"alignment", float64(f.Alignment), exact)
	q.keys(at+"kv.", f, from != itself)
	place := map[string]int64{}
	var end int64
	for _, t := range f.Tensors() { // opening has checked that they follow each other
		place[t.Name] = end
		end += (t.Bytes + int64(f.Alignment) - 1) / int64(f.Alignment) * int64(f.Alignment)
	}
	count := len(q.j.under(at + "tensors."))
	q.property("number of tensors", at, differ(count == len(f.Tensors())), exact)
	for i := range count {
		at := fmt.Sprintf("%stensors.%d.", at, i)
		var name string
		q.j.get(at+"name", &name)
		t, there := f.Tensor(name)
		q.compare("tensors", q.j.key(at+"name"), differ(there), exact)
		if !there {
			continue
		}
		if err := q.tensor(at, f, t, from != itself); err != nil {
			return err
		}
		if from == requantized {
			q.j.strike(at+"offset", input)
		} else {
			q.j.compare("offsets", at+"offset", float64(place[name]), exact)
		}
	}
	if from != itself {
		q.j.strike(at+"data_offset", input)
		q.j.strike(at+"bytes", input)
		return nil
	}
	q.j.compare("offsets", at+"data_offset", float64(size-end), exact)
	q.j.compare("bytes of the file", at+"bytes", float64(size), exact)
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
	free := freeKeys[:1]
	if ours {
		free = freeKeys
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at, v := at+name, f.Value(name)
		if ours && slices.Contains(free, name) {
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
		if !names[key] && !slices.Contains(free, key) {
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
		var values []float64
		for _, x := range got {
			values = append(values, float64(x))
		}
		q.compare("values", q.j.key(at+"values"), relatives(values, q.j.numbers(at+"values")), limitFactors)
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
