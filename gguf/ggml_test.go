package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
)

// TestQuantize_IsGGML compares with ggml's library in the directory that RESTYLE_LLAMACPP names, such as
// node_modules/@node-llama-cpp/linux-x64/bins/linux-x64 after npm install --ignore-scripts node-llama-cpp.
func TestQuantize_IsGGML(t *testing.T) {
	dir := os.Getenv("RESTYLE_LLAMACPP")
	if dir == "" {
		t.Skip("RESTYLE_LLAMACPP is not set")
	}
	libraries, _ := filepath.Glob(filepath.Join(dir, "libggml-base*"))
	if len(libraries) == 0 {
		t.Fatalf("%s has no libggml-base", dir)
	}
	program := filepath.Join(t.TempDir(), "quantize")
	if out, err := exec.Command("cc", "-O1", "-o", program, "testdata/quantize.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	const rows = 4800
	x := expect.Weights(rows)
	blocks := Types[2:10]
	var in, want bytes.Buffer
	for _, typ := range blocks {
		head := []int64{int64(typ), rows, 256, int64(typ.RowBytes(256))}
		expect.OK(t, binary.Write(&in, binary.LittleEndian, head))
		expect.OK(t, binary.Write(&in, binary.LittleEndian, x))
	}
	ggml := exec.Command(program, libraries[0])
	ggml.Stdin, ggml.Stdout, ggml.Stderr = &in, &want, os.Stderr
	expect.OK(t, ggml.Run())
	for _, typ := range blocks {
		got := make([]byte, typ.RowBytes(len(x)))
		expect.OK(t, typ.Quantize(got, x))
		_, size := typ.Block()
		for i, b := range want.Next(len(got)) {
			if got[i] != b {
				t.Errorf("%v: byte %d of block %d is %d, want %d", typ, i%size, i/size, got[i], b)
				break
			}
		}
	}
}
