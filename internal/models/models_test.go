package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/data"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// TestOpen checks that the name of the embedded model means it, if this build has it, also next to a directory of that
// name, and that it has the files for chatting and training.
func TestOpen(t *testing.T) {
	tiny, err := filepath.Abs("../../infer/testdata/tiny/base")
	expect.OK(t, err)
	t.Chdir(t.TempDir())
	expect.OK(t, os.CopyFS(data.StarterName, os.DirFS(tiny)))
	offline := &hub.Hub{Offline: true, Cache: t.TempDir()}
	other, err := Open(t.Context(), offline, "./"+data.StarterName)
	expect.OK(t, err)
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
	expect.OK(t, err)
	defer c.Close()
	if !c.Embedded || c.Name != data.StarterName || c.Config.ParamCount() > 12_000_000 || len(c.Generation.EOS) == 0 ||
		c.Tokenizer.ChatTemplate == "" {
		t.Errorf("%t, %s, %d parameters, %+v, %+v", c.Embedded, c.Name, c.Config.ParamCount(), c.Generation, c.Tokenizer)
	}
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.BF16})
	expect.OK(t, err)
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

// TestOpen_UnfinishedRun opens what a run leaves that was stopped before it had a model, and then one of a model.
func TestOpen_UnfinishedRun(t *testing.T) {
	dir := t.TempDir()
	last := filepath.Join(dir, "checkpoints", "step-000020")
	expect.OK(t, os.WriteFile(filepath.Join(dir, "run.json"), []byte(`{"finished": false}`), 0o666))
	_, err := Open(t.Context(), nil, dir)
	expect.Error(t, err, dir+" has a training run that has not finished", "--resume")
	for _, name := range []string{"best-000030", "step-000010", "step-000020"} {
		expect.OK(t, os.MkdirAll(filepath.Join(dir, "checkpoints", name), 0o777))
	}
	_, err = Open(t.Context(), nil, dir)
	expect.Error(t, err, "--resume, or give its last checkpoint, "+last)
	expect.OK(t, os.CopyFS(dir, os.DirFS("../../infer/testdata/tiny/base")))
	c, err := Open(t.Context(), nil, dir)
	expect.OK(t, err)
	c.Close()
}

// TestOpenTuned_OnTheHub opens an adapter and its base in the hub's cache.
func TestOpenTuned_OnTheHub(t *testing.T) {
	const tiny = "../../infer/testdata/tiny/base"
	adapter := adapterOn(t, "owner/base")
	expect.InCache(t, map[string]string{"owner/base": tiny, "owner/adapter": adapter})
	for _, name := range []string{"owner/adapter", "owner/adapter@main"} {
		c, a, err := OpenTuned(t.Context(), nil, name, "")
		expect.OK(t, err)
		defer c.Close()
		defer a.Close()
		if c.Name != "owner/base" || c.Revision == "" || a.Name != name {
			t.Errorf("%s: base %s at %q, adapter %s", name, c.Name, c.Revision, a.Name)
		}
	}
	if _, _, err := OpenTuned(t.Context(), nil, "owner/adapter", "owner/none"); err == nil ||
		!strings.Contains(err.Error(), "the base of adapter owner/adapter: ") {
		t.Error(err)
	}
	c, err := Open(t.Context(), nil, "owner/adapter")
	if want := "owner/adapter is an adapter, not a whole model: chat and bench"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, %v: want %q", c, err, want)
	}
}

// adapterOn writes an adapter of q_proj of the tiny model, and names its base.
func adapterOn(t *testing.T, base string) string {
	t.Helper()
	c, err := hf.OpenModel("../../infer/testdata/tiny/base")
	expect.OK(t, err)
	defer c.Close()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	spec := lora.Spec{Rank: 2, Alpha: 2, Targets: lora.Targets{Names: []string{"q_proj"}}}
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Adapter: spec.Of})
	expect.OK(t, err)
	defer m.Close()
	m.InitAdapters(1)
	dir := t.TempDir()
	expect.OK(t, hf.SaveAdapter(dir, spec, d, m.Params(), hf.AdapterOptions{BaseModel: base}))
	return dir
}
