package parity

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/opcheck"
)

// recordedGELU writes a recording of one case of GELU, and returns its directory.
func recordedGELU(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ops")
	list := map[string]*rawTensor{}
	put := func(name string, values ...float64) {
		x := &rawTensor{DType: "F32", Shape: []int{1, len(values)}}
		for _, v := range values {
			x.data = binary.LittleEndian.AppendUint32(x.data, math.Float32bits(float32(v)))
		}
		list["one."+name] = x
	}
	y0, slope0 := opcheck.GELU(-1, false)
	y1, slope1 := opcheck.GELU(2, false)
	put("x", -1, 2)
	put("dy", 1, 3)
	put("y", y0, y1)
	put("dx", slope0, 3*slope1)
	expect.OK(t, os.Mkdir(dir, 0o755))
	writeRaw(t, filepath.Join(dir, "gelu.safetensors"), list)
	write(t, dir, "gelu.json", `{"op": "gelu", "cases": [{"name": "one", "dtype": "F32", "params": {"form": "erf"},
		"inputs": {"x": [1, 2], "dy": [1, 2]}, "outputs": {"y": [1, 2], "dx": [1, 2]}, "torch_error": {"y": 1e-8}}]}`)
	return dir
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
}

// TestOps checks a recording of operations: as it is, and with each thing wrong that may be.
func TestOps(t *testing.T) {
	edit := func(change func(list map[string]*rawTensor)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "gelu.safetensors")
			list := readRaw(t, path)
			change(list)
			writeRaw(t, path, list)
		}
	}
	for want, spoil := range map[string]func(t *testing.T, dir string){
		"":                                func(*testing.T, string) {},
		"gelu y gelu.safetensors one.y":   edit(func(list map[string]*rawTensor) { list["one.y"].change() }),
		"gelu dx gelu.safetensors one.dx": edit(func(list map[string]*rawTensor) { list["one.dx"].change() }),
		"passed over gelu.safetensors one.z": edit(func(list map[string]*rawTensor) {
			list["one.z"] = list["one.y"].clone()
		}),
		"case one: y is [] in the safetensors": edit(func(list map[string]*rawTensor) { delete(list, "one.y") }),
		"case one: x is [2 1] in the safetensor": edit(func(list map[string]*rawTensor) {
			list["one.x"].Shape = []int{2,
				1}
		}),
		"case one: GELUBackward: dx is": func(t *testing.T, dir string) {
			edit(func(list map[string]*rawTensor) { list["one.dx"] = list["one.dx"].half() })(t, dir)
			text, err := os.ReadFile(filepath.Join(dir, "gelu.json"))
			expect.OK(t, err)
			write(t, dir, "gelu.json", strings.Replace(string(text), `"dx": [1, 2]}`, `"dx": [1, 1]}`, 1))
		},
		"unknown kind": func(t *testing.T, dir string) { write(t, dir, "softmax.json", `{"op": "softmax"}`) },
	} {
		dir := recordedGELU(t)
		spoil(t, dir)
		r, _ := compareFolder(t, dir)
		found := slices.ContainsFunc(failed(r), func(at string) bool { return strings.Contains(at, want) })
		if found != (want != "") || want == "" && len(r.Rows) != 2 {
			t.Errorf("%q: it fails with %q", want, failed(r))
		}
	}
}

// half returns the first half of a tensor of one row.
func (x rawTensor) half() *rawTensor {
	return &rawTensor{DType: x.DType, Shape: []int{1, x.Shape[1] / 2}, data: x.data[:len(x.data)/2]}
}

// TestOpsUnsupported checks that a recorded operation that does not exist is named.
func TestOpsUnsupported(t *testing.T) {
	dir := recordedGELU(t)
	for old, name := range map[string]string{"gelu.json": "none.json", "gelu.safetensors": "none.safetensors"} {
		expect.OK(t, os.Rename(filepath.Join(dir, old), filepath.Join(dir, name)))
	}
	write(t, dir, "none.json", `{"op": "none", "cases": []}`)
	r, f := compareFolder(t, dir)
	if len(failed(r)) > 0 || len(f.with(unsupported)) != 4 {
		t.Errorf("%q, unsupported %q", failed(r), f.with(unsupported))
	}
}
