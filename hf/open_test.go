package hf

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"restyle/hf/hub"
	"restyle/internal/expect"
	"restyle/tensor"
)

// TestOpenFS opens a model that is not a directory, and compares it with its directory.
func TestOpenFS(t *testing.T) {
	for _, dir := range []string{"testdata/tied", "testdata/sharded"} {
		files := fstest.MapFS{"tokenizer.json": {Data: []byte(`{"a":1}`)}}
		for _, name := range list(t, dir) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			expect.OK(t, err)
			files[name] = &fstest.MapFile{Data: text}
		}
		c, err := OpenModelFS(files, "the test's model")
		expect.OK(t, err)
		defer c.Close()
		want, d, params := load(t, dir, tensor.F32)
		if diff := cmp.Diff(want.Config, c.Config); diff != "" || !cmp.Equal(c.DTypes(), want.DTypes()) ||
			c.Name != "the test's model" {
			t.Errorf("%s: %v %s %s", dir, c.DTypes(), c.Name, diff)
		}
		_, again := newParams(t, c.Config, tensor.F32)
		expect.OK(t, c.Load(t.Context(), d, again, nil))
		for i, p := range params {
			a, _ := d.Floats(p.W)
			if b, _ := d.Floats(again[i].W); !cmp.Equal(a, b) {
				t.Errorf("%s: %s is another", dir, p.Name)
			}
		}
		// Save also writes its companions.
		out := t.TempDir()
		expect.OK(t, Save(out, c, d, params, SaveOptions{}))
		if text, err := os.ReadFile(filepath.Join(out, "tokenizer.json")); string(text) != `{"a":1}` {
			t.Errorf("%s, %v", text, err)
		}
		// Errors name the model.
		delete(files, "config.json")
		if _, err := OpenModelFS(files, "the test's model"); err == nil ||
			!strings.Contains(err.Error(), "the test's model has no config.json") {
			t.Error(err)
		}
		files["config.json"] = &fstest.MapFile{Data: c.ConfigJSON}
		for name := range files {
			if filepath.Ext(name) == ".safetensors" {
				files[name].Data = files[name].Data[:len(files[name].Data)-1]
			}
		}
		if _, err := OpenModelFS(files, "the test's model"); err == nil ||
			!strings.Contains(err.Error(), "the test's model/model") || !strings.Contains(err.Error(), "truncated") {
			t.Error(err)
		}
	}
}

// sequential is a file system whose files can be read only from the beginning to the end.
type sequential struct{ fs.FS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestOpenFSNeedsReaderAt(t *testing.T) {
	_, err := OpenModelFS(sequential{os.DirFS("testdata/tied")}, "a stream")
	if err == nil || !strings.Contains(err.Error(), "a stream/model.safetensors cannot be read in parts") {
		t.Error(err)
	}
}

// TestOpen_RefusesPipes checks that a pipe without a writer is an error, and is not waited for.
func TestOpen_RefusesPipes(t *testing.T) {
	for _, name := range []string{"config.json", "tokenizer_config.json", singleName} {
		dir := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
		os.Remove(filepath.Join(dir, name))
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o666); err != nil {
			t.Skip("no pipes here: ", err)
		}
		if _, err := OpenModel(dir); err == nil || !strings.Contains(err.Error(),
			filepath.Join(dir, name)+": not a file but a named pipe") {
			t.Error(err)
		}
	}
}

// TestLinks_LeadNowhereElse checks links in a model's directory. Save copies the small files, so none may be a link to
// a file elsewhere. Links within the directory and to the blobs of a hub cache are accepted, and weights may be
// anywhere.
func TestLinks_LeadNowhereElse(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private.json")
	write(t, private, `{"password":"x"}`)
	link := func(target, path string) {
		t.Helper()
		os.Remove(path)
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.Symlink(target, path)))
	}
	inBlobs := filepath.Join(t.TempDir(), "blobs", "private.json")
	expect.OK(t, os.Mkdir(filepath.Dir(inBlobs), 0o777))
	write(t, inBlobs, "{}")
	for _, name := range append(companions, "config.json") {
		dir := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
		path, aside := filepath.Join(dir, name), filepath.Join(dir, "aside")
		refused := func(what string) {
			t.Helper()
			for _, open := range []func(string) (*Checkpoint, error){OpenModel, OpenConfig} {
				if _, err := open(dir); err == nil || !strings.Contains(err.Error(), path+": a link to ") ||
					!strings.Contains(err.Error(), "outside") {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
		}
		link(private, path)
		refused("a link out of the directory")
		link(inBlobs, path)
		refused("a link to what is no hub cache")
		link("aside", path)
		link(private, aside)
		refused("a link to a link")
		link("aside/private.json", path)
		link(filepath.Dir(private), aside)
		refused("a link through a directory")
		link(filepath.Join("..", "private.json"), path)
		write(t, filepath.Join(dir, "..", "private.json"), "{}")
		refused("a link to the directory above")

		os.Remove(aside)
		write(t, aside, `{"eos_token_id":7}`)
		if name == "config.json" {
			write(t, aside, smallConfig)
		}
		link("aside", path)
		c, err := OpenModel(dir)
		if err != nil {
			t.Errorf("%s, a link in the directory: %v", name, err)
			continue
		}
		if _, err := c.ReadFile(name); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	// Open a snapshot in the hub's cache, a directory of links to the cache, and a directory whose weights are a link to
	// another place.
	made := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
	write(t, filepath.Join(made, "tokenizer.json"), "{}")
	repo := filepath.Join(t.TempDir(), "models--owner--name")
	snapshot, local, split := filepath.Join(repo, "snapshots", "0123"), t.TempDir(), t.TempDir()
	for _, name := range list(t, made) {
		blob := filepath.Join(repo, "blobs", name)
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(blob), 0o777), os.Rename(filepath.Join(made, name),
			blob)))
		link(filepath.Join("..", "..", "blobs", name), filepath.Join(snapshot, name))
		link(blob, filepath.Join(local, name))
		if name != singleName {
			expect.OK(t, os.Link(blob, filepath.Join(split, name)))
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "large.safetensors")
	expect.OK(t, os.Link(filepath.Join(repo, "blobs", singleName), elsewhere))
	link(elsewhere, filepath.Join(split, singleName))
	for _, dir := range []string{snapshot, local, split} {
		c, err := OpenModel(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		if data, err := c.ReadFile("tokenizer.json"); string(data) != "{}" {
			t.Errorf("%s: %q, %v", dir, data, err)
		}
		c.Close()
	}
}

// TestOpen_DirectoryBeforeHub checks that a directory takes precedence over a hub repository of the same name.
func TestOpen_DirectoryBeforeHub(t *testing.T) {
	t.Chdir(t.TempDir())
	model := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
	expect.OK(t, os.CopyFS("owner/name", os.DirFS(model)))
	offline := &hub.Hub{Offline: true, Cache: t.TempDir()}
	c, err := Open(t.Context(), offline, "owner/name")
	expect.OK(t, err)
	if c.Name != "owner/name" || c.Revision != "" || c.Config.Vocab != 12 {
		t.Errorf("%+v", c)
	}
	c.Close()
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HUB_CACHE", offline.Cache)
	for _, h := range []*hub.Hub{offline, nil} {
		if _, err := Open(t.Context(), h, "owner/other"); err == nil ||
			!strings.Contains(err.Error(), `no directory "owner/other"`) {
			t.Error(err)
		}
	}
}

// TestSave_NewModel saves a model whose files existed only in memory.
func TestSave_NewModel(t *testing.T) {
	files := map[string][]byte{"config.json": []byte(smallConfig), "tokenizer.json": []byte("{}"),
		"chat_template.jinja": []byte("x"), "generation_config.json": []byte(`{"eos_token_id":7}`)}
	c, err := NewModel(files)
	if err != nil || c.Tokenizer.ChatTemplate != "x" || !cmp.Equal(c.Generation.EOS, []int32{7}) {
		t.Fatal(c, err)
	}
	if _, err := c.ReadFile("tokenizer_config.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	_, d, params := load(t, writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32)), tensor.F32)
	dir := t.TempDir()
	card := []byte("---\nbase_model: x\n---\n")
	expect.OK(t, Save(dir, c, d, params, SaveOptions{Card: card}))
	want := []string{"README.md", "chat_template.jinja", "config.json", "generation_config.json", singleName,
		"tokenizer.json"}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); name != "config.json" && !bytes.Equal(got, want) {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	sameWeights(t, dir, d, params)
	// Without a new card, the existing one is kept; a new card replaces it.
	for _, next := range [][]byte{nil, []byte("another")} {
		if next != nil {
			card = next
		}
		expect.OK(t, Save(dir, c, d, params, SaveOptions{Card: next}))
		if got, _ := os.ReadFile(filepath.Join(dir, "README.md")); !bytes.Equal(got, card) {
			t.Errorf("%q, want %q", got, card)
		}
	}
	// A checkpoint of training has only the weights and their configuration.
	bare, err := NewModel(map[string][]byte{"config.json": c.ConfigJSON})
	expect.OK(t, err)
	dir = t.TempDir()
	expect.OK(t, Save(dir, bare, d, params, SaveOptions{}))
	if diff := cmp.Diff([]string{"config.json", singleName}, list(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for want, files := range map[string]map[string][]byte{
		"the new model has no config.json":   {"tokenizer.json": nil},
		"config.json: it is not a JSON":      {"config.json": nil},
		"tokenizer_config.json: it is not a": {"config.json": []byte(smallConfig), "tokenizer_config.json": []byte("x")},
	} {
		if _, err := NewModel(files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDigest(t *testing.T) {
	digest := func(dir string) string {
		t.Helper()
		c, err := OpenModel(dir)
		expect.OK(t, err)
		defer c.Close()
		sum, err := c.Digest()
		expect.OK(t, err)
		return sum
	}
	seen := map[string]string{}
	for _, source := range []string{"testdata/tied", "testdata/sharded"} {
		dir := t.TempDir()
		expect.OK(t, os.CopyFS(dir, os.DirFS(source)))
		first := digest(dir)
		cmd := exec.Command("sh", "-c", "sha256sum config.json *.safetensors | sha256sum")
		cmd.Dir = dir
		if out, err := cmd.Output(); err != nil {
			t.Log("not compared with sha256sum: ", err)
		} else if want, _, _ := strings.Cut(string(out), " "); first != want {
			t.Errorf("%s: %s, sha256sum says %s", source, first, want)
		}
		// Companions do not count; each byte of the config and the weights does.
		write(t, filepath.Join(dir, "tokenizer.json"), "{}")
		if again := digest(dir); again != first {
			t.Errorf("%s: another digest for another tokenizer", source)
		}
		seen[first] = source
		for _, name := range list(t, dir) {
			if name != "config.json" && filepath.Ext(name) != ".safetensors" {
				continue
			}
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			expect.OK(t, err)
			old := text[len(text)-1]
			if text[len(text)-1] ^= 1; name == "config.json" {
				text = append(text[:len(text)-1], old, ' ')
			}
			write(t, path, string(text))
			sum := digest(dir)
			if other := seen[sum]; other != "" {
				t.Errorf("%s changed has the digest of %s", path, other)
			}
			seen[sum] = path
		}
	}
	none, err := OpenConfig("testdata/tied")
	expect.OK(t, err)
	if sum, err := none.Digest(); err != nil || seen[sum] != "" {
		t.Error(sum, err)
	}
}

// TestLoad_Progress checks that the progress of Load grows chunk by chunk to the number of all bytes.
func TestLoad_Progress(t *testing.T) {
	config := strings.NewReplacer(`"vocab_size":12`, `"vocab_size":3001`, `"hidden_size":8`,
		`"hidden_size":800`).Replace(smallConfig)
	c, d, params := load(t, writeModel(t, config, newWeights(t, config, tensor.F32)), tensor.BF16)
	var last, want int64
	calls := 0
	for _, p := range params {
		want += int64(4 * p.W.Len()) // the bytes as stored
	}
	expect.OK(t, c.Load(t.Context(), d, params, func(done, total int64) {
		if calls++; done <= last || done > total || total != want {
			t.Errorf("%d after %d, of %d; want %d", done, last, total, want)
		}
		last = done
	}))
	if last != want || calls <= len(params) {
		t.Errorf("ended at %d of %d, after %d calls", last, want, calls)
	}
}

// TestGitLFSPointers_AreNamed checks the error for a clone without Git LFS, which has pointers in place of large files,
// both for weights and for small files.
func TestGitLFSPointers_AreNamed(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 123456\n"
	for _, name := range []string{singleName, "config.json", "tokenizer_config.json"} {
		dir := t.TempDir()
		expect.OK(t, os.CopyFS(dir, os.DirFS("testdata/tied")))
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(pointer), 0o666))
		_, err := OpenModel(dir)
		if err == nil || !strings.Contains(err.Error(), name+": it is a Git LFS pointer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpen_RefusesFile checks that a file is not accepted as a model, and its path is not looked up on the hub.
func TestOpen_RefusesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	expect.OK(t, os.WriteFile(path, []byte("x"), 0o666))
	t.Chdir(filepath.Dir(path))
	for _, name := range []string{path, "model.safetensors"} {
		if _, err := Open(t.Context(), nil, name); err == nil ||
			!strings.Contains(err.Error(), "is not a directory: give the one that holds config.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	blob := filepath.Join(t.TempDir(), "sha256-1f")
	expect.OK(t, os.WriteFile(blob, []byte("GGUF\x03"), 0o666))
	if _, err := Open(t.Context(), nil, blob); err == nil || strings.Contains(err.Error(), "directory") {
		t.Errorf("%s: %v", blob, err)
	}
}
