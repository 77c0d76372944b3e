package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// keysOf and sourcesOf return what a file has.
func keysOf(f *File) (keys []KV) {
	for _, key := range f.Keys() {
		keys = append(keys, KV{key, f.Value(key)})
	}
	return keys
}

func sourcesOf(f *File) (sources []Source) {
	for _, t := range f.Tensors() {
		sources = append(sources, Source{t.Name, t.Type, t.Dims, func(w io.Writer) error {
			data := make([]byte, t.Bytes)
			if err := f.ReadAt(t.Name, data, 0); err != nil {
				return err
			}
			_, err := w.Write(data)
			return err
		}})
	}
	return sources
}

// copied returns the bytes of a new file with a file's keys and tensors.
func copied(t testing.TB, f *File) []byte {
	t.Helper()
	return encoded(t, keysOf(f), sourcesOf(f)...)
}

func encoded(t testing.TB, keys []KV, tensors ...Source) []byte {
	t.Helper()
	var b bytes.Buffer
	expect.OK(t, Encode(&b, keys, tensors))
	return b.Bytes()
}

func read(data []byte) (*File, error) { return Read(bytes.NewReader(data), int64(len(data)), "x.gguf") }

// filled is a tensor whose bytes count from first on.
func filled(name string, of Type, first byte, dims ...int) Source {
	return Source{name, of, dims, func(w io.Writer) error {
		n, err := bytesOf(of, dims)
		if err != nil {
			return err
		}
		data := make([]byte, n)
		for i := range data {
			data[i] = first + byte(i)
		}
		_, err = w.Write(data)
		return err
	}}
}

// everyKey has one value of every type, and lists of them.
var everyKey = []KV{
	{"general.architecture", "llama"},
	{"u8", uint8(255)}, {"i8", int8(-128)}, {"u16", uint16(65535)}, {"i16", int16(-32768)},
	{"u32", uint32(1 << 31)}, {"i32", int32(-1 << 31)}, {"u64", uint64(1 << 63)}, {"i64", int64(-1 << 63)},
	{"f32", float32(0.5)}, {"f64", 0.1}, {"true", true}, {"false", false}, {"text", "hé\x00\n"}, {"no text", ""},
	{"u8s", []uint8{0, 255}}, {"i8s", []int8{-128, 127}}, {"u16s", []uint16{65535}}, {"i16s", []int16{-1, 2, 3}},
	{"u32s", []uint32{1 << 31}}, {"i32s", []int32{-1, 0, 1}}, {"u64s", []uint64{1, 1 << 63}}, {"i64s", []int64{-5}},
	{"f32s", []float32{0.5, float32(math.Inf(1))}}, {"f64s", []float64{0.1, math.Inf(-1)}},
	{"bools", []bool{true, false}},
	{"texts", []string{"", "é", "a b"}}, {"nothing", []string{}},
}

func everyType() (tensors []Source) {
	for i, of := range Types {
		elements, _ := of.Block()
		tensors = append(tensors, filled("blk."+of.String(), of, byte(i), []int{3 * elements, 5, 1, 2}[:i%4+1]...))
	}
	return tensors
}

func TestValues(t *testing.T) {
	keys := append(slices.Clone(everyKey), KV{"nan", float32(math.NaN())}, KV{"kv heads", []uint32{4, 8}})
	data := encoded(t, keys, filled("t", F32, 0, 3))
	data = bytes.Replace(data, []byte("a b"), []byte("a\xffb"), 1)
	f, err := read(bytes.Replace(data, []byte("llama"), []byte("llam\xff"), 1))
	expect.OK(t, err)
	for _, c := range []struct {
		get   func(*Values) any
		want  any
		error string
	}{
		{get: func(v *Values) any { return v.String("text", "x") }, want: "hé\x00\n"},
		{get: func(v *Values) any { return v.String("absent", "x") }, want: "x"},
		{get: func(v *Values) any { return v.String("u8", "x") }, error: `its key "u8" has "255" of type uint8: must be`},
		{get: func(v *Values) any { return v.String("general.architecture", "x") }, error: `"llam\xff" of type string`},
		{get: func(v *Values) any { return v.Bool("true", false) }, want: true},
		{get: func(v *Values) any { return v.Bool("absent", true) }, want: true},
		{get: func(v *Values) any { return v.Bool("u8", true) }, error: "must be true or false"},
		{get: func(v *Values) any { return v.Int("u8", 1) }, want: 255},
		{get: func(v *Values) any { return v.Int("i8", 1) }, want: -128},
		{get: func(v *Values) any { return v.Int("u32", 1) }, want: 1 << 31},
		{get: func(v *Values) any { return v.Int("i64", 1) }, want: math.MinInt},
		{get: func(v *Values) any { return v.Int("absent", -7) }, want: -7},
		{get: func(v *Values) any { return v.Int("u64", 1) }, error: "must be a whole number below 2^63"},
		{get: func(v *Values) any { return v.Int("f32", 1) }, error: `has "0.5" of type float32: must be a whole number`},
		{get: func(v *Values) any { return v.Int("true", 1) }, error: `has "true" of type bool: must be a whole number`},
		{get: func(v *Values) any { return v.Int("kv heads", 1) }, error: "has a list of 2 values of type uint32"},
		{get: func(v *Values) any { return v.Float("f32", 1) }, want: 0.5},
		{get: func(v *Values) any { return v.Float("f64", 1) }, want: 0.1},
		{get: func(v *Values) any { return math.IsNaN(v.Float("nan", 1)) }, want: true},
		{get: func(v *Values) any { return v.Float("absent", 3) }, want: 3.},
		{get: func(v *Values) any { return v.Float("u8", 1) }, error: "must be a floating-point number"},
		{get: func(v *Values) any { return v.Strings("nothing") }, want: []string{}},
		{get: func(v *Values) any { return v.Strings("absent") }, want: []string(nil)},
		{get: func(v *Values) any { return v.Strings("texts") }, error: `whose value 2 is "a\xffb": must be a list of`},
		{get: func(v *Values) any { return v.Strings("i8s") }, error: `a list of type int8, whose value 0 is "-128"`},
		{get: func(v *Values) any { return v.Strings("text") }, error: `of type string: must be a list of strings`},
		{get: func(v *Values) any { return v.Ints("i16s") }, want: []int{-1, 2, 3}},
		{get: func(v *Values) any { return v.Ints("kv heads") }, want: []int{4, 8}},
		{get: func(v *Values) any { return v.Ints("u64s") }, error: `whose value 1 is "9223372036854775808"`},
		{get: func(v *Values) any { return v.Ints("f32s") }, error: "must be a list of whole numbers"},
		{get: func(v *Values) any { return v.Floats("f32s") }, want: []float64{0.5, math.Inf(1)}},
		{get: func(v *Values) any { return v.Floats("f64s") }, want: []float64{0.1, math.Inf(-1)}},
		{get: func(v *Values) any { return v.Floats("texts") }, error: "must be a list of floating-point numbers"},
	} {
		v := f.Values()
		got := c.get(v)
		if c.error != "" {
			expect.Error(t, v.Err, "x.gguf: ", c.error)
		} else if v.Err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v, %v, want %v", got, v.Err, c.want)
		}
	}
	v := f.Values()
	v.Int("text", 0)
	v.Bool("i8", false)
	if expect.Error(t, v.Err, `"text"`); !v.Has("text") || v.Has("absent") {
		t.Error("Has is wrong")
	}
}

// TestRead_RefusesDamage replaces bytes of a good file and wants an error, or none.
func TestRead_RefusesDamage(t *testing.T) {
	good := encoded(t,
		[]KV{{"a", []int32{1, 2, 3}}, {"text", "hello"}, {alignmentKey, uint32(32)}, {"word", []string{"hi"}}},
		filled("first", F32, 0, 4, 3), filled("other", Q8_0, 0, 64, 2))
	for name, c := range map[string]struct{ old, new, want string }{
		"good":        {"hello", "hallo", ""},
		"LFS pointer": {"GGUF", "vers", "Git LFS pointer"},
		"other file":  {"GGUF", "PK\x03\x04", "does not begin with GGUF"},
		"version 2":   {"GGUF\x03", "GGUF\x02", ""},
		"version 4":   {"GGUF\x03", "GGUF\x04", "version 4: must be 2 or 3"},
		"big-endian":  {"GGUF\x03\x00\x00\x00", "GGUF\x00\x00\x00\x03", "big-endian (version 3)"},
		"2^30 strings": {"word\x09\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00",
			"word\x09\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x40", "claims 1073741824 values"},
		"2^62 numbers": {"\x03\x00\x00\x00\x00\x00\x00\x00\x01",
			"\x00\x00\x00\x00\x00\x00\x00\x40\x01", "claims 4611686018427387904 values"},
		"long text": {"\x05\x00\x00\x00\x00\x00\x00\x00hello", "\xff\xff\xff\xff\xff\xff\xff\xffhello",
			"needs 18446744073709551615 bytes"},
		"no such type":     {"text\x08", "text\x0d", "value of type 13"},
		"list of lists":    {"a\x09\x00\x00\x00\x05", "a\x09\x00\x00\x00\x09", "a list of lists"},
		"one key twice":    {"word", "text", "two keys have the name"},
		"alignment of 33":  {"\x04\x00\x00\x00\x20", "\x04\x00\x00\x00\x21", "general.alignment is 33"},
		"alignment of i32": {"\x04\x00\x00\x00\x20", "\x05\x00\x00\x00\x20", "another type than uint32"},
		"alignment of 64":  {"\x04\x00\x00\x00\x20", "\x04\x00\x00\x00\x40", ""},
		"one name twice":   {"other", "first", `the tensor "first" is there twice`},
		"not UTF-8":        {"first", "firs\xff", "must be UTF-8"},
		"5 dimensions":     {"first\x02", "first\x05", "5 dimensions"},
		"no dimension":     {"first\x02", "first\x00", "0 dimensions"},
		"dimension of 0":   {"first\x02\x00\x00\x00\x04", "first\x02\x00\x00\x00\x00", "impossible"},
		"larger":           {"first\x02\x00\x00\x00\x04", "first\x02\x00\x00\x00\x0f", `"first" and "other" overlap`},
		"smaller":          {"first\x02\x00\x00\x00\x04", "first\x02\x00\x00\x00\x01", `32 bytes before "other"`},
		"part of a block":  {"other\x02\x00\x00\x00\x40", "other\x02\x00\x00\x00\x41", "multiple of 32 for Q8_0"},
		"cut off":          {"other\x02\x00\x00\x00\x40", "other\x02\x00\x00\x00\x60", "the file is cut off"},
		"removed type": {"\x03\x00\x00\x00\x00\x00\x00\x00\x00",
			"\x03\x00\x00\x00\x00\x00\x00\x00\x04", "type 4 does not exist"},
		"unaligned": {"\x08\x00\x00\x00\x40", "\x08\x00\x00\x00\x41", "begins at byte 65 of the data"},
		"beyond every file": {"\x08\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00",
			"\x08\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x80", "beyond every file"},
	} {
		data := bytes.Replace(good, []byte(c.old), []byte(c.new), 1)
		if len(data) != len(good) || bytes.Equal(data, good) {
			t.Fatalf("%s: %q is not there, or has another length", name, c.old)
		}
		_, err := hostile.Parse(t, data, read)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.want != "" {
			expect.Error(t, err, "x.gguf: ", c.want)
		}
	}
	for n := range len(good) - 24 { // the padding of the last tensor
		if f, err := read(good[:n]); err == nil {
			t.Errorf("cut after %d of %d bytes, it is read: %v", n, len(good), f.Tensors())
		}
	}
}

// endless is a file of 16 GB: a header, and zeros.
type endless []byte

func (e endless) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(e)) {
		copy(p, e[off:])
	}
	return len(p), nil
}

// TestRead_LimitsHeader has a file that is large enough for 2^30 strings.
func TestRead_LimitsHeader(t *testing.T) {
	data := encoded(t, []KV{{"texts", []string{}}})
	at := bytes.Index(data, []byte("texts\x09")) + len("texts") + 8
	data[at+3] = 0x40
	expect.FlatHeap(t, 1<<20, func(measure func()) {
		_, err := Read(endless(data[:at+8]), 16<<30, "x.gguf")
		expect.Error(t, err, "claims 1073741824 values", "a header may have at most 100000000")
		measure()
	})
}

// TestRead_SmallParts reads many keys and tensors, which must not take far more memory than they have bytes.
func TestRead_SmallParts(t *testing.T) {
	var keys []KV
	var tensors []Source
	for i := range 5000 {
		keys = append(keys, KV{fmt.Sprint(i), uint8(0)})
		tensors = append(tensors, filled(fmt.Sprint(i), Q4_0, 0, 32, 1, 1, 1))
	}
	keys = append(keys, KV{alignmentKey, uint32(1)}, KV{"list", make([]string, 5000)})
	f, err := hostile.Parse(t, encoded(t, keys, tensors...), read)
	if err != nil || len(f.Keys()) != 5002 || len(f.Tensors()) != 5000 {
		t.Error(err)
	}
}

// TestOpen_OnlyFiles opens paths that are not GGUF files.
func TestOpen_OnlyFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	expect.Error(t, err, "not a file but a directory")
	if _, err = Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// The file is cut off after it was opened.
	path := filepath.Join(dir, "x.gguf")
	expect.OK(t, Write(path, nil, []Source{filled("t", F32, 0, 3)}))
	f, err := Open(path)
	expect.OK(t, err)
	defer f.Close()
	expect.OK(t, os.Truncate(path, 70))
	expect.Error(t, f.ReadAt("t", make([]byte, 12), 0), "cannot read t of "+path)
	expect.Error(t, f.WriteSums(io.Discard), "cannot read "+path)
	expect.Error(t, f.ReadAt("t", make([]byte, 12), 1), "t has 12 bytes, not 12 from byte 1 on")
	expect.Error(t, f.ReadAt("u", nil, 0), `no tensor "u"`)
}

// TestRead_OtherTypes lists a tensor of a type that cannot be read.
func TestRead_OtherTypes(t *testing.T) {
	data := encoded(t, nil, filled("t", Q4_0, 0, 64), filled("u", F16, 7, 1))
	f, err := read(bytes.Replace(data, []byte("\x40\x00\x00\x00\x00\x00\x00\x00\x02"),
		[]byte("\x40\x00\x00\x00\x00\x00\x00\x00\x14"), 1))
	expect.OK(t, err)
	if got, _ := f.Tensor("t"); got.Type.String() != "IQ4_NL (type 20)" || got.Bytes != 36 || got.Type.Supported() {
		t.Error(got)
	}
	expect.Error(t, f.ReadAt("t", make([]byte, 1), 0), "t is of type IQ4_NL (type 20), which cannot be read")
	two := make([]byte, 2)
	if err := f.ReadAt("u", two, 0); err != nil || two[0] != 7 {
		t.Error(two, err)
	}
}

// TestOpen_Split opens models in several files.
func TestOpen_Split(t *testing.T) {
	const first, second, third = "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"
	dir := t.TempDir()
	write := func(file string, number, count, tensors int, sources ...Source) {
		t.Helper()
		keys := []KV{{"split.no", uint16(number)}, {"split.count", uint16(count)},
			{"split.tensors.count", int32(tensors)}}
		expect.OK(t, Write(filepath.Join(dir, file), keys, sources))
	}
	a, b, c := filled("a", F32, 1, 2), filled("b", F16, 2, 3), filled("c", Q8_0, 3, 32)
	good := func() {
		write(first, 0, 3, 3)
		write(second, 1, 3, 3, b, a)
		write(third, 2, 3, 3, c)
	}
	good()
	f, err := Open(filepath.Join(dir, first))
	expect.OK(t, err)
	var names []string
	for i, tensor := range f.Tensors() {
		data := make([]byte, 1)
		if err := f.ReadAt(tensor.Name, data, 0); err != nil || data[0] != []byte{2, 1, 3}[i] {
			t.Error(tensor, data, err)
		}
		names = append(names, tensor.Name)
	}
	var sums strings.Builder
	if err := f.WriteSums(&sums); err != nil || strings.Count(sums.String(), "\n") != 3 || len(f.Paths()) != 3 ||
		strings.Join(names, "") != "bac" || f.Paths()[2] != filepath.Join(dir, third) {
		t.Errorf("%q, %q, %q, %v", names, f.Paths(), sums.String(), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	_, err = read([]byte(expect.Read(t, filepath.Join(dir, third))))
	expect.Error(t, err, "it is one of 3 files of a model")
	for name, c := range map[string]struct {
		damage     func()
		open, want string
	}{
		"not the first":    {func() {}, second, "it is file 2 of 3 of a model: give the first"},
		"another name":     {func() { write("m.gguf", 0, 3, 3) }, "m.gguf", "its name must end in -00001-of-00003.gguf"},
		"one is missing":   {func() { os.Remove(filepath.Join(dir, third)) }, first, third + ": get that one as well"},
		"another count":    {func() { write(second, 1, 2, 3, b, a) }, first, "by its keys it is file 2 of 2"},
		"another number":   {func() { write(second, 2, 3, 3, b, a) }, first, "by its keys it is file 3 of 3"},
		"number and count": {func() { write(first, 3, 3, 3) }, first, "split.no is 3 of split.count 3"},
		"not split":        {func() { write(second, 0, 1, 3, b, a) }, first, "by its keys it is file 1 of 1"},
		"one tensor twice": {func() { write(third, 2, 3, 3, a) }, first, `"a" is there twice, first in ` + dir},
		"too few tensors":  {func() { write(second, 1, 3, 3, b) }, first, "but its key split.tensors.count is 3"},
		"a damaged one":    {func() { os.Truncate(filepath.Join(dir, third), 20) }, first, third},
		"number not a number": {func() {
			expect.OK(t, Write(filepath.Join(dir, second), []KV{{"split.no", "x"}}, nil))
		}, first, `its key "split.no"`},
	} {
		good()
		c.damage()
		_, err := Open(filepath.Join(dir, c.open))
		if err == nil {
			t.Errorf("%s: it is opened", name)
			continue
		}
		expect.Error(t, err, c.want)
	}
}

// FuzzRead reads any bytes. What is read must have all its bytes, and a copy must have the same.
func FuzzRead(f *testing.F) {
	f.Add(encoded(f, everyKey, everyType()...))
	f.Add(encoded(f, []KV{{alignmentKey, uint32(64)}, {"a", []string{"b", ""}}}, filled("t", F32, 0, 3),
		filled("u", Q8_0, 9, 32, 2)))
	f.Add(encoded(f, []KV{{"split.no", uint16(0)}, {"split.count", uint16(1)}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := hostile.Parse(t, data, read)
		if err != nil {
			expect.Error(t, err, "x.gguf")
			return
		}
		for _, key := range file.Keys() {
			v := file.Values()
			v.String(key, "")
			v.Bool(key, false)
			v.Int(key, 0)
			v.Float(key, 0)
			v.Strings(key)
			v.Ints(key)
			v.Floats(key)
			expect.Error(t, v.Err, "x.gguf: its key")
		}
		for _, tensor := range file.Tensors() {
			if err := file.ReadAt(tensor.Name, make([]byte, tensor.Bytes), 0); err != nil && tensor.Type.Supported() {
				t.Error(err)
			}
		}
		var b bytes.Buffer
		// Padding takes time, and strings that are not UTF-8 and types that are not supported cannot be written.
		if file.Alignment > 4096 || Encode(&b, keysOf(file), sourcesOf(file)) != nil {
			return
		}
		again, err := read(b.Bytes())
		expect.OK(t, err)
		if !reflect.DeepEqual(again.Tensors(), file.Tensors()) || !bytes.Equal(copied(t, again), b.Bytes()) {
			t.Errorf("%v and %v", again.Tensors(), file.Tensors())
		}
	})
}
