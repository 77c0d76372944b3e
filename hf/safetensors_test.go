package hf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/tensor"
)

// file returns a safetensors file with this header and payload bytes after it.
func file(header string, payload int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, payload)...)
}

func read(data []byte) (*Safetensors, error) {
	return readSafetensors("x.safetensors", bytes.NewReader(data), int64(len(data)))
}

func TestEveryType(t *testing.T) {
	s, err := OpenSafetensors("testdata/every_type.safetensors")
	expect.OK(t, err)
	defer s.Close()
	if len(s.Names()) != 10 || s.Metadata["made by"] != "record_models.py" {
		t.Errorf("%v, %v", s.Names(), s.Metadata)
	}
	floats := map[string][]float32{
		"f32": {0, float32(math.Copysign(0, -1)), 1.5, 3.4e38, -1e-45, 2}, "f16": {-3, -2, -1, 0, 1, 2},
		"bf16": {-3, -2, -1, 0, 1, 2}, "scalar": {7}, "empty": {},
	}
	shapes := map[string][]int{"scalar": {}, "empty": {0, 4}, "bool": {2}}
	check := func(name string, got any, dims []int, err error, want any) {
		shape, ok := shapes[name]
		if !ok {
			shape = []int{2, 3}
		}
		if err != nil || !cmp.Equal(got, want) || !slices.Equal(dims, shape) {
			t.Errorf("%s: %v %v %v, want %v %v", name, got, dims, err, want, shape)
		}
	}
	for name, want := range floats {
		got, dims, err := s.ReadF32(name)
		check(name, got, dims, err, want)
	}
	ints := map[string][]int64{
		"i64": {-3, -2, -1, 0, 1, 2}, "i32": {-3, -2, -1, 0, 1, 2}, "u8": {250, 251, 252, 253, 254, 255}, "bool": {1, 0},
	}
	for name, want := range ints {
		got, dims, err := s.ReadInts(name)
		check(name, got, dims, err, want)
	}
	if f, _, _ := s.ReadF32("f32"); !math.Signbit(float64(f[1])) {
		t.Error("the sign of -0 is lost")
	}
	for name, f := range map[string]func(string) error{
		"f64 is F64":         func(n string) error { _, _, err := s.ReadF32("f64"); return err },
		"i64 is I64":         func(n string) error { _, _, err := s.ReadF32("i64"); return err },
		"f32 is F32":         func(n string) error { _, _, err := s.ReadInts("f32"); return err },
		`no tensor "y"`:      func(n string) error { _, _, err := s.ReadF32("y"); return err },
		"not 9 from byte 16": func(n string) error { return s.ReadAt("f32", make([]byte, 9), 16) },
		"not 1 from byte -1": func(n string) error { return s.ReadAt("f32", make([]byte, 1), -1) },
	} {
		if err := f(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// TestEmptyTensors has tensors without bytes where others start and end, whatever their names.
func TestEmptyTensors(t *testing.T) {
	for _, names := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		for _, at := range []int{0, 1, 2} {
			header := fmt.Sprintf(`{"%c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},`+
				`"%c":{"dtype":"U8","shape":[0],"data_offsets":[%d,%[3]d]},`+
				`"%c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, names[0], names[1], at, names[2])
			s, err := read(file(header, 2))
			if err != nil || len(s.Names()) != 3 {
				t.Errorf("%s, empty at %d: %v", names, at, err)
			}
		}
	}
}

// badFiles are safetensors files that must not be read, with part of the error.
//
//nolint:lll // JSON in one piece
var badFiles = map[string]struct {
	data []byte
	want string
}{
	"empty":       {nil, "0 bytes: too few for a safetensors file: get it again"},
	"seven bytes": {make([]byte, 7), "7 bytes: too few"},
	"header of 2^60": {binary.LittleEndian.AppendUint64(nil, 1<<60),
		"claims 1152921504606846976 bytes, but at most 100000000"},
	"header of 2^64-1": {binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "claims 18446744073709551615 bytes"},
	"header of 99 MB":  {binary.LittleEndian.AppendUint64(nil, 99e6), "truncated"},
	"no header":        {file("", 0), "not a JSON object"},
	"space first":      {file(" {}", 0), "not a JSON object"},
	"array":            {file("[]", 0), "not a JSON object"},
	"open":             {file("{", 0), "not JSON"},
	"two objects":      {file("{}{}", 0), "more follows"},
	"not UTF-8":        {file("{\"\xff\":1}", 0), "not UTF-8"},
	"number":           {file(`{"a":1}`, 0), `entry of "a"`},
	"no shape":         {file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "lacks its shape"},
	"no offsets":       {file(`{"a":{"dtype":"F32","shape":[1]}}`, 4), "two data_offsets"},
	"three offsets":    {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}`, 4), "two data_offsets"},
	"no type":          {file(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4), `type "": unknown`},
	"odd type":         {file(`{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}`, 4), `type "F33": unknown`},
	"negative size":    {file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "impossible"},
	"huge size": {file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
		"impossible"},
	"size beyond int64": {file(`{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}}`, 0),
		`entry of "a"`},
	"size a fraction": {file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), `entry of "a"`},
	"too few bytes":   {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "needs 8 bytes, but has 4"},
	"backwards":       {file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}}`, 4), "data_offsets [4, 0]"},
	"negative offset": {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4), "data_offsets [-4, 0]"},
	"cut off": {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7),
		"ends at byte 8 of 7: the file is truncated"},
	"longer":            {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 5), "1 bytes follow"},
	"nothing but bytes": {file(`{}`, 1), "1 bytes follow"},
	"hole":              {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), `1 bytes before "b"`},
	"hole at the start": {file(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), "2 bytes before"},
	"overlap":           {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), `"a" and "b" overlap`},
	"the same bytes":    {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), "overlap"},
	"one name twice":    {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `names "a" twice`},
	"metadata a number": {file(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
	"half a byte":       {file(`{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,0]}}`, 0), "whole number of bytes"},
}

func TestBadFiles(t *testing.T) {
	for name, test := range badFiles {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(test.data)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "x.safetensors: ") {
				t.Errorf("%v, want %q", err, test.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("%d bytes allocated for a file of %d", used, len(test.data))
			}
		})
	}
	// The same file on the disk, truncated at every length.
	whole, err := os.ReadFile("testdata/every_type.safetensors")
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "cut.safetensors")
	for n := range whole {
		expect.OK(t, os.WriteFile(path, whole[:n], 0o600))
		if s, err := OpenSafetensors(path); err == nil {
			s.Close()
			t.Errorf("cut after %d of %d bytes, it is read", n, len(whole))
		}
	}
	if _, err := OpenSafetensors(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
}

// TestShrinkingFile truncates a file after it was opened.
func TestShrinkingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	expect.OK(t, os.WriteFile(path, file(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 9), 0o600))
	s, err := OpenSafetensors(path)
	expect.OK(t, err)
	defer s.Close()
	os.Truncate(path, 30)
	if _, _, err := s.ReadInts("a"); err == nil || !strings.Contains(err.Error(), "cannot read a of "+path) {
		t.Errorf("%v", err)
	}
}

// TestWrite compares the written bytes with the expected ones, and reads them again.
func TestWrite(t *testing.T) {
	put := func(b ...byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(b); return err }
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	tensors := []TensorData{
		{"half", tensor.BF16, []int{1, 1}, put(1, 2)}, {"<b>", tensor.F32, []int{}, put(3, 4, 5, 6)},
		{"none", tensor.U8, []int{0}, put()},
	}
	expect.OK(t, WriteSafetensors(path, map[string]string{"format": "pt"}, tensors))
	got, _ := os.ReadFile(path)
	header := `{"__metadata__":{"format":"pt"},"\u003cb\u003e":{"dtype":"F32","shape":[],"data_offsets":[0,4]},` +
		`"half":{"dtype":"BF16","shape":[1,1],"data_offsets":[4,6]},"none":{"dtype":"U8","shape":[0],"data_offsets":[6,6]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	if want := append(file(header, 0), 3, 4, 5, 6, 1, 2); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s, err := OpenSafetensors(path)
	expect.OK(t, err)
	s.Close()
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
	for want, bad := range map[string][]TensorData{
		"half: 1 bytes were written": {{"half", tensor.BF16, []int{1}, put(1)}},
		`two tensors have the name`:  {{"a", tensor.U8, []int{1}, put(1)}, {"a", tensor.U8, []int{1}, put(1)}},
		"unknown":                    {{"a", 0, []int{1}, put(1)}},
		"a: no more":                 {{"a", tensor.U8, []int{1}, func(io.Writer) error { return fmt.Errorf("no more") }}},
		`name "__metadata__"`:        {{"__metadata__", tensor.U8, []int{1}, put(1)}},
	} {
		if err := WriteSafetensors(path, nil, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
			t.Errorf("%d files are left", len(entries))
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, got) {
			t.Error("the file that was there is damaged")
		}
	}
}

// TestConvert compares with the formulas of package tensor, for numbers of every kind, at any offset and of any count.
func TestConvert(t *testing.T) {
	types := []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}
	values := []float32{0, 1, -1.0039062, 65024, 5.9604645e-08, -3.0517578e-05, 1.0019531, 0.33333334, 2.7182817}
	for _, from := range types {
		for _, to := range types {
			for n := range 2100 {
				if n > 70 && n < 2000 {
					continue
				}
				src := make([]byte, n*from.Size())
				wide := make([]float32, n)
				for i := range wide {
					wide[i] = values[i%len(values)]
				}
				narrow(src, from, wide)
				widen(wide, src, from)
				dst := make([]byte, n*to.Size())
				if err := convert(dst, to, src, from); err != nil {
					t.Fatalf("%v to %v: %v", from, to, err)
				}
				for i, f := range wide {
					var got [1]float32
					widen(got[:], dst[i*to.Size():], to)
					want := f
					switch to {
					case tensor.F16:
						want = tensor.F16ToF32(tensor.F16FromF32(f))
					case tensor.BF16:
						want = tensor.RoundBF16(f)
					}
					if got[0] != want {
						t.Fatalf("%v to %v: %v became %v, want %v", from, to, f, got[0], want)
					}
				}
			}
		}
	}
}

func TestConvert_RefusesNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, test := range []struct {
		from, to tensor.DType
		value    float32
		want     string
	}{
		{tensor.F32, tensor.F32, inf, "+Inf"}, {tensor.F32, tensor.BF16, -inf, "-Inf"},
		{tensor.BF16, tensor.F32, float32(math.NaN()), "NaN"},
		{tensor.F16, tensor.F32, inf, "+Inf"}, {tensor.F16, tensor.BF16, float32(math.NaN()), "NaN"},
		{tensor.BF16, tensor.BF16, inf, "+Inf"},
		{tensor.F32, tensor.BF16, math.MaxFloat32, "too large for BF16"}, {tensor.BF16, tensor.F16, -65536,
			"too large for F16"},
		{tensor.F32, tensor.F32, math.MaxFloat32, ""}, {tensor.F32, tensor.F16, 65519, ""},
		{tensor.BF16, tensor.BF16, -3.3895314e38, ""},
	} {
		for at := range 13 {
			values := slices.Repeat([]float32{-1.5}, 13)
			values[at] = test.value
			src := make([]byte, 13*test.from.Size())
			narrow(src, test.from, values)
			err := convert(make([]byte, 13*test.to.Size()), test.to, src, test.from)
			if got, want := fmt.Sprint(err), fmt.Sprintf("element %d is %s", at, test.want); test.want == "" && err != nil ||
				test.want != "" && got != want {
				t.Errorf("%v in %v to %v: %s, want %q", test.value, test.from, test.to, got, want)
			}
		}
	}
}

// FuzzSafetensors checks that the tensors of every accepted file are disjoint and within it.
func FuzzSafetensors(f *testing.F) {
	for _, test := range badFiles {
		f.Add(test.data)
	}
	whole, err := os.ReadFile("testdata/every_type.safetensors")
	expect.OK(f, err)
	f.Add(whole)
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := hostile.Parse(t, data, read)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		n := int64(binary.LittleEndian.Uint64(data)) + 8
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(data[8:n], &keys); err != nil {
			t.Errorf("read, and not JSON: %v", err)
		}
		for _, name := range s.Names() {
			info, ok := s.Tensor(name)
			if !ok {
				t.Fatalf("%q is not there", name)
			}
			if err := s.ReadAt(name, make([]byte, info.Bytes), 0); err != nil {
				t.Error(err)
			}
			n += info.Bytes
		}
		if n != int64(len(data)) {
			t.Errorf("the tensors have %d bytes of %d", n, len(data))
		}
	})
}
