package models

import (
	"os"
	"path/filepath"
	"testing"

	"restyle/data"
	"restyle/hf/hub"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestOpen checks that the name of the embedded model means it, if this build has it, also beside a directory of that
// name, and that it has the files for chatting and training.
func TestOpen(t *testing.T) {
	tiny, err := filepath.Abs("../../infer/testdata/tiny/base")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS(data.StarterName, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	offline := &hub.Hub{Offline: true, Cache: t.TempDir()}
	other, err := Open(t.Context(), offline, "./"+data.StarterName)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Embedded || other.Name != "./"+data.StarterName {
		t.Errorf("%+v", other)
	}
	c, err := Open(t.Context(), offline, data.StarterName)
	if _, absent := data.StarterModel(); absent != nil {
		if err == nil || err.Error() != absent.Error() {
			t.Errorf("%v, want %v", err, absent)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.Embedded || c.Name != data.StarterName || c.Config.ParamCount() > 12_000_000 || len(c.Generation.EOS) == 0 ||
		c.Tokenizer.ChatTemplate == "" {
		t.Errorf("%t, %s, %d parameters, %+v, %+v", c.Embedded, c.Name, c.Config.ParamCount(), c.Generation, c.Tokenizer)
	}
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.BF16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := c.Load(t.Context(), d, m.Params(), nil); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"tokenizer.json", "generation_config.json", "tokenizer_config.json",
		"chat_template.jinja", "recipe.json"} {
		if _, err := c.ReadFile(name); err != nil {
			t.Error(err)
		}
	}
}
