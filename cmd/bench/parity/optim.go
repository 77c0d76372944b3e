package parity

import (
	"path/filepath"
	"slices"

	"restyle/hf"
)

// isOptim recognises bitsandbytes' dynamic maps.
func isOptim(f *folder) bool {
	return slices.ContainsFunc(f.files, func(file string) bool {
		if filepath.Ext(file) != ".safetensors" {
			return false
		}
		st, err := hf.OpenSafetensors(f.path(file))
		if err != nil {
			return false
		}
		defer st.Close()
		_, signed := st.Tensor("qmap.signed")
		return signed
	})
}

// compareOptim enters the tensors of 8-bit optimisers as not supported yet.
func compareOptim(f *folder) error {
	for _, file := range f.files {
		if filepath.Ext(file) != ".safetensors" {
			continue // a transcript of the recording, for people
		}
		t, err := f.tensors(file)
		if err != nil {
			return err
		}
		f.strikeAll(file+" ", unsupported)
		t.st.Close()
	}
	return nil
}
