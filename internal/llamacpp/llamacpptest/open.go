// Package llamacpptest opens models in llama.cpp for tests.
package llamacpptest

import (
	"errors"
	"testing"

	"restyle/internal/llamacpp"
)

// Open opens a GGUF file until the test ends. It skips the test if llama.cpp cannot be asked.
func Open(t testing.TB, path string, o llamacpp.Options) *llamacpp.Model {
	t.Helper()
	m, err := llamacpp.Open(t.Context(), path, o)
	if errors.Is(err, llamacpp.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // the context of the test has ended it
	return m
}
