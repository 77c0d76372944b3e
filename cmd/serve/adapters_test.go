package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"

	"golang.org/x/sys/unix"
)

// saveAdapter saves a random adapter of the embedded model.
func saveAdapter(t *testing.T, dir string, seed uint64, spec lora.Spec, record string) {
	t.Helper()
	c, err := models.Open(t.Context(), nil, "starter")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Adapter: spec.Of})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(seed, 4))
	for _, p := range m.Params() {
		if p.Adapter {
			values := make([]float32, p.W.Len())
			for i := range values {
				values[i] = float32(r.NormFloat64() / 20)
			}
			d.Upload(p.W, values)
		}
	}
	o := hf.AdapterOptions{}
	if record != "" {
		o.Record = json.RawMessage(record)
	}
	if err := hf.SaveAdapter(dir, spec, d, m.Params(), o); err != nil {
		t.Fatal(err)
	}
}

// adapterDirs makes a directory with adapters: one, two, in/three, whose weights are a link to blobs/three, words
// with a bad tokenizer, and one of another base; with links to what is elsewhere, and a named pipe.
func adapterDirs(t *testing.T) (dir, elsewhere string) {
	t.Helper()
	dir, elsewhere = t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	for name, rank := range map[string]int{"one": 3, "two": 16, "in/three": 40} {
		spec := lora.Spec{Rank: rank, Alpha: 8, Targets: lora.Targets{AllLinear: true}}
		if name == "two" {
			spec.Targets = lora.Targets{Names: []string{"q_proj", "down_proj"}}
		}
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		saveAdapter(t, filepath.Join(dir, name), uint64(rank), spec, "")
	}
	all := lora.Spec{Rank: 2, Alpha: 8, Targets: lora.Targets{AllLinear: true}}
	saveAdapter(t, elsewhere, 5, all, "")
	saveAdapter(t, filepath.Join(dir, "words"), 7, all, "")
	saveAdapter(t, filepath.Join(dir, "other base"), 6, all, `{"base_model":"x","base_digest":"0123456789abcdef"}`)
	if err := os.Mkdir(filepath.Join(dir, "half"), 0o777); err != nil {
		t.Fatal(err)
	}
	const weights = "adapter_model.safetensors"
	if err := os.Mkdir(filepath.Join(dir, "blobs"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "in/three", weights), filepath.Join(dir, "blobs/three")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "words/tokenizer.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{elsewhere: "link", filepath.Join(elsewhere, weights): "half/" + weights,
		"../../blobs/three": "in/three/" + weights} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(filepath.Join(elsewhere, "adapter_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "half", "adapter_config.json"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir, elsewhere
}

// TestRootFS_HasChatTemplates lists an adapter's further chat templates, in --adapter-dir and outside it.
func TestRootFS_HasChatTemplates(t *testing.T) {
	const templates, file = "additional_chat_templates", "rag.jinja"
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, d := range []string{filepath.Join(dir, "blobs"), filepath.Join(dir, "in"), filepath.Join(dir, "out")} {
		expect.OK(t, os.Mkdir(d, 0o777))
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "blobs", file), nil, 0o666))
	expect.OK(t, os.WriteFile(filepath.Join(elsewhere, file), nil, 0o666))
	expect.OK(t, os.Symlink("../blobs", filepath.Join(dir, "in", templates)))
	expect.OK(t, os.Symlink(elsewhere, filepath.Join(dir, "out", templates)))
	root, err := os.OpenRoot(dir)
	expect.OK(t, err)
	defer root.Close()
	for of, want := range map[string]int{"in": 1, "out": 0} {
		if got, err := fs.Glob(rootFS{root, of}, templates+"/*.jinja"); err != nil || len(got) != want {
			t.Errorf("%s: %q, %v, want %d", of, got, err, want)
		}
	}
}

// TestServe_RoomForAdapters starts with an adapter that fits into fewer columns than some of those that there could be.
func TestServe_RoomForAdapters(t *testing.T) {
	dir := t.TempDir()
	saveAdapter(t, dir, 1, lora.Spec{Rank: 128, Alpha: 8, Targets: lora.Targets{Names: []string{"q_proj"}}}, "")
	args := []string{"starter", "--adapter", "wide=" + dir, "--adapter-dir", dir, "--listen", "127.0.0.1:0"}
	if _, out, _ := running(t, args...); !strings.Contains(out.String(), "rank 128 of 240\n") {
		t.Error(out)
	}
	for want, args := range map[string][]string{
		"the next number with room for them is 224":         append(args, "--adapter-ranks", "144"),
		"name its base as the first model, and this as --a": {dir, "--adapter-dir", dir},
		"its base model: name its base as the first model":  {dir, "--listen", "127.0.0.1:0"},
	} {
		if code, stderr := invoke(t, args...); code != cli.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestServe_Adapters serves the embedded model and adapters on it, of different ranks and layers, two of which are
// loaded while the server runs. Each answers in company as it does alone, and what may not be loaded is not.
func TestServe_Adapters(t *testing.T) {
	dir, elsewhere := adapterDirs(t)
	url, out, end := running(t, "starter", "--adapter", "one="+filepath.Join(dir, "one"), "--adapter-dir", dir,
		"--listen", "127.0.0.1:0")
	change := func(path, body string) (int, string) { return post(t, http.DefaultClient, url+"/v1/"+path, body) }
	for path, want := range map[string]string{
		elsewhere: "no such directory in --adapter-dir", "link": "no such directory", "../elsewhere": "no such directory",
		"half": "adapter_model.safetensors", "pipe": "no such directory", "pipe/x": "no such directory",
		"words": "the tokenizer of x: ", "other base": "was trained on another base than starter", "": "is missing",
	} {
		status, text := change("load_lora_adapter", fmt.Sprintf(`{"lora_name":"x","lora_path":%q}`, path))
		if status != 400 || !strings.Contains(text, want) || strings.Contains(text, "0123456") {
			t.Errorf("%q: %d %s, want %q", path, status, text, want)
		}
	}
	for name, path := range map[string]string{"two": filepath.Join(dir, "two"), "three": "in/three"} {
		status, text := change("load_lora_adapter", fmt.Sprintf(`{"lora_name":%q,"lora_path":%q}`, name, path))
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	note := "two: whether starter is the base of adapter two cannot be checked"
	if strings.Count(out.String(), note) != 1 {
		t.Errorf("not once %q: %s", note, out)
	}
	if status, text := change("load_lora_adapter", `{"lora_name":"four","lora_path":"one"}`); status != 503 ||
		!strings.Contains(text, "no room") {
		t.Errorf("without room: %d %s", status, text)
	}
	names := []string{"starter", "one", "two", "three"}
	answer := func(name string) string {
		body := `{"model":"` + name + `","max_tokens":24,"logprobs":true,"seed":4,` +
			strings.Replace(ask[1:], `,"stream":true`, "", 1)
		_, text := post(t, http.DefaultClient, url+chat, body)
		_, text, _ = strings.Cut(text, `"choices"`)
		text, _, _ = strings.Cut(text, `"created"`)
		return text
	}
	alone := map[string]string{}
	for _, name := range names {
		alone[name] = answer(name)
	}
	var group sync.WaitGroup
	for range 3 {
		for _, name := range names {
			group.Go(func() {
				if got := answer(name); got != alone[name] {
					t.Errorf("%s: in company %s, alone %s", name, got, alone[name])
				}
			})
		}
	}
	group.Wait()
	if alone["one"] == alone["two"] || alone["one"] == alone["starter"] || alone["two"] == alone["three"] {
		t.Errorf("different models answer alike: %v", alone)
	}
	if status, text := change("unload_lora_adapter", `{"lora_name":"one"}`); status != 400 ||
		!strings.Contains(text, "and stays") {
		t.Error(status, text)
	}
	if status, text := change("unload_lora_adapter", `{"lora_name":"two"}`); status != 200 {
		t.Error(status, text)
	}
	if status, text := post(t, http.DefaultClient, url+chat, `{"model":"two",`+ask[1:]); status != 404 {
		t.Error(status, text)
	}
	if status, text := change("load_lora_adapter", `{"lora_name":"again","lora_path":"two"}`); status != 200 {
		t.Error(status, text)
	}
	if again := answer("again"); again != alone["two"] {
		t.Errorf("loaded again: %s, before %s", again, alone["two"])
	}
	if code := end(); code != cli.Done {
		t.Errorf("exit code %d: %s", code, out)
	}
}
