package gguf

import (
	"bytes"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
)

// TestEncode_EqualsGGUFPy writes what was read from the recorded files and compares the bytes. Package parity
// compares what is read with what gguf-py reads.
func TestEncode_EqualsGGUFPy(t *testing.T) {
	for _, path := range expect.Recordings(t, "*.gguf") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Open(path)
			expect.OK(t, err)
			defer f.Close()
			if got := copied(t, f); !bytes.Equal(got, []byte(expect.Read(t, path))) {
				t.Errorf("other bytes: %d of them", len(got))
			}
		})
	}
}
