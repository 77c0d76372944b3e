package parity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"restyle/hf"
	"restyle/internal/disk"
)

// tensors is a safetensors file of recorded values. Reading a missing tensor adds a failure and returns nil, which
// equals no result.
type tensors struct {
	f    *folder
	file string
	st   *hf.Safetensors
	err  error // the first error of reading
}

// tensors opens a file and enters each of its tensors in the ledger.
func (f *folder) tensors(file string) (*tensors, error) {
	st, err := hf.OpenSafetensors(f.path(file))
	if err != nil {
		return nil, err
	}
	t := &tensors{f: f, file: file, st: st}
	for _, name := range st.Names() {
		f.enter(t.key(name))
	}
	return t, nil
}

func (t *tensors) key(name string) string { return t.file + " " + name }

func (t *tensors) has(name string) bool { return t.f.has(t.key(name)) }

// find reports whether a tensor exists, and adds a failure if it does not.
func (t *tensors) find(name string) bool {
	if !t.has(name) {
		t.f.missing(t.key(name))
		return false
	}
	return true
}

// floats returns a tensor of floating-point numbers.
func (t *tensors) floats(name string) []float32 {
	if !t.find(name) {
		return nil
	}
	v, _, err := t.st.ReadF32(name)
	if t.err == nil {
		t.err = err
	}
	return v
}

// ints returns a tensor of integers, and its shape.
func (t *tensors) ints(name string) ([]int64, []int) {
	if !t.find(name) {
		return nil, nil
	}
	v, shape, err := t.st.ReadInts(name)
	if t.err == nil {
		t.err = err
	}
	return v, shape
}

// bytes returns a tensor of bytes.
func (t *tensors) bytes(name string) (list []byte) {
	v, _ := t.ints(name)
	for _, x := range v {
		list = append(list, byte(x))
	}
	return list
}

// values holds the numbers, texts and lists of a JSON file, each under its path, such as "forward.loss".
type values struct {
	f      *folder
	file   string
	values map[string]any
}

// maxFile is the maximum size of a file of reference outputs, in bytes.
const maxFile = 1 << 30

// read returns a file.
func (f *folder) read(file string) ([]byte, error) { return disk.ReadInput(f.path(file), maxFile) }

// values reads a file and enters each value in the ledger. A list of numbers, or of lists of numbers, is one value.
func (f *folder) values(file string) (*values, error) {
	data, err := f.read(file)
	if err != nil {
		return nil, err
	}
	var v any
	if err := unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(file), err)
	}
	j := &values{f, file, map[string]any{}}
	j.flatten("", v)
	return j, nil
}

// unmarshal does what json.Unmarshal does, but keeps the digits of numbers: a seed may need all 64 bits.
func unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

func (j *values) flatten(path string, v any) {
	under := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			j.flatten(under(name), v[name])
		}
		return
	case []any:
		if slices.ContainsFunc(v, hasObject) {
			for i, e := range v {
				j.flatten(under(strconv.Itoa(i)), e)
			}
			return
		}
	}
	j.f.enter(j.key(path))
	j.values[path] = v
}

func hasObject(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return true
	case []any:
		return slices.ContainsFunc(v, hasObject)
	}
	return false
}

func (j *values) key(path string) string { return j.file + " " + path }

func (j *values) has(path string) bool { return j.f.has(j.key(path)) }

// hasAny reports whether the path of any value has the prefix.
func (j *values) hasAny(prefix string) bool {
	for path := range j.values {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// under returns the names below a path, each once, sorted.
func (j *values) under(path string) []string {
	names := map[string]bool{}
	for at := range j.values {
		if rest, ok := strings.CutPrefix(at, path); ok {
			name, _, _ := strings.Cut(rest, ".")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// get decodes a value. If the value is missing, or has another type, get adds a failure and leaves v unchanged.
func (j *values) get(path string, v any) bool {
	if !j.has(path) {
		j.f.missing(j.key(path))
		return false
	}
	data, err := json.Marshal(j.values[path])
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		j.f.fail("unreadable", j.key(path), err.Error())
	}
	return err == nil
}

// number returns a value that is one number, or NaN if it is not.
func (j *values) number(path string) float64 {
	v := math.NaN()
	j.get(path, &v)
	return v
}

// numbers returns a value that is a list of numbers, or of lists of numbers, which it joins.
func (j *values) numbers(path string) []float64 {
	var v any
	j.get(path, &v)
	var list []float64
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case float64:
			list = append(list, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return list
}

// compare compares one number with ours by the relative error.
func (j *values) compare(figure, path string, ours, limit float64) {
	j.f.compare(figure, j.key(path), relative(ours, j.number(path)), limit)
}

// compareBoth compares one number with ours, and also what float64 gave, if that was recorded.
func (j *values) compareBoth(figure, path string, ours, limit float64) {
	j.compare(figure, path, ours, limit)
	if path += "_float64"; j.has(path) {
		j.compare(figure, path, ours, limit)
	}
}

// compareAbsolute compares one number with ours by the difference.
func (j *values) compareAbsolute(figure, path string, ours, limit float64) {
	j.f.compare(figure, j.key(path), math.Abs(ours-j.number(path)), limit)
}

// input returns a number that was an input of the other program.
func (j *values) input(path string) float64 {
	j.strike(path, input)
	return j.number(path)
}

// limit returns a number that is an error of another program.
func (j *values) limit(path string) float64 {
	j.strike(path, yardstick)
	return j.number(path)
}

func (j *values) strike(path string, fate fate) {
	if j.has(path) {
		j.f.strike(j.key(path), fate)
	}
}

func (j *values) strikeAll(prefix string, fate fate) { j.f.strikeAll(j.key(prefix), fate) }

// eachLine calls what for each line of a JSONL file.
func (f *folder) eachLine(file string, what func(n int, line []byte) error) error {
	in, err := disk.OpenInput(f.path(file))
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	n := 0
	for lines.Scan() {
		n++
		if err := what(n, lines.Bytes()); err != nil {
			return fmt.Errorf("%s, line %d: %w", f.path(file), n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", f.path(file), err)
	}
	return nil
}

// fields reads a line as an object and enters its fields in the ledger as "file line.field". Those that inputs names
// are inputs.
func (f *folder) fields(file string, n int, line []byte, inputs ...string) (
	fields map[string]json.RawMessage, key func(string) string, err error) {
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, nil, err
	}
	key = func(name string) string { return fmt.Sprintf("%s %d.%s", file, n, name) }
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f.enter(key(name))
		if slices.Contains(inputs, name) {
			f.strike(key(name), input)
		}
	}
	return fields, key, nil
}
