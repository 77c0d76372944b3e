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
	if err != nil || info.Size() > 12<<20 {
		t.Errorf("%+v, %v: the repository is to stay small", info, err)
	}
	const bytesPerParameter = 2
	if size := fmt.Sprintf(" %d million parameters", info.Size()/bytesPerParameter/1e6); !strings.Contains(StarterScope, size) {
		t.Errorf("%q: the model has%s", StarterScope, size)
	}
}
