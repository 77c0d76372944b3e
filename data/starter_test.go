package data

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestStarterModel checks that the model is complete, or that the error says what is missing.
func TestStarterModel(t *testing.T) {
	files, err := StarterModel()
	if err != nil {
		if !strings.Contains(err.Error(), "model.safetensors") || !strings.Contains(err.Error(), StarterName) ||
			strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
		t.Skip(err)
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
		"recipe.json"} {
		text, err := fs.ReadFile(files, name)
		if err != nil || !json.Valid(text) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	info, err := fs.Stat(files, "model.safetensors")
	if err != nil || info.Size() > 24_000_000 {
		t.Errorf("%+v, %v: the repository is to stay small", info, err)
	}
	const bytesPerParameter = 2
	size := fmt.Sprintf(" %d million parameters", info.Size()/bytesPerParameter/1e6)
	if !strings.Contains(StarterScope, size) {
		t.Errorf("%q: the model has%s", StarterScope, size)
	}
}

// TestExamples checks that there are enough examples, and that each fits into a line of a terminal.
func TestExamples(t *testing.T) {
	all, err := Examples()
	if err != nil || len(all) != len(known) || len(all) < 12 {
		t.Errorf("%d examples of %d kinds, %v", len(all), len(known), err)
	}
	for _, q := range all {
		if text := q.Instruction + ": " + q.Input; len(text) > 100 || strings.Contains(text, "\n") {
			t.Errorf("%q is too long", text)
		}
	}
}
