package hf

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"restyle/gguf"
	"restyle/hf/hub"
	"restyle/internal/expect"
	"restyle/tensor"
)

const commit = "1111111111111111111111111111111111111111"

// repository is a hub that has the one model owner/name and needs no network. The hub's own failures are tested in
// package hub.
type repository struct {
	files   map[string][]byte
	api     func() (status int, code string) // nil: the listing
	body    func(b []byte) io.Reader         // changes weights on the way; nil: sends their bytes
	asked   int                              // requests of the listing
	weights int                              // requests of weights
}

// repositoryOf returns a repository with the files of a directory and other files that many repositories have.
func repositoryOf(t *testing.T, dir string) *repository {
	r := &repository{files: map[string][]byte{}}
	for _, name := range []string{"README.md", "original/consolidated.00.pth", "original/params.json",
		"consolidated.safetensors",
		"pytorch_model.bin", "onnx/model.safetensors", "vision.safetensors"} {
		r.files[name] = []byte("not wanted")
	}
	for name, text := range map[string]string{"tokenizer.json": "{}", "tokenizer_config.json": `{"chat_template":"x"}`,
		"special_tokens_map.json": `{"a":1}`} {
		r.files[name] = []byte(text)
	}
	for _, name := range list(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		expect.OK(t, err)
		r.files[name] = data
	}
	return r
}

func (r *repository) open(t *testing.T) *hub.Hub {
	return &hub.Hub{Endpoint: "https://hub.localhost", Cache: t.TempDir(), Client: &http.Client{Transport: r}}
}

// RoundTrip answers a request as the hub does.
func (r *repository) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Request: request}
	var body io.Reader = strings.NewReader("")
	path := request.URL.Path
	if file, ok := strings.CutPrefix(path, "/owner/name/resolve/"+commit+"/"); ok {
		data := r.files[file]
		body = bytes.NewReader(data)
		if strings.HasSuffix(file, ".safetensors") || strings.HasSuffix(file, ".gguf") {
			r.weights++
			if r.body != nil {
				body = r.body(data)
			}
		}
		var from int
		if fmt.Sscanf(request.Header.Get("Range"), "bytes=%d-", &from); from > 0 {
			answer.StatusCode = 206
			answer.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			io.CopyN(io.Discard, body, int64(from))
		}
		answer.Body = io.NopCloser(body)
		return answer, nil
	}
	r.asked++
	switch {
	case r.api != nil:
		status, code := r.api()
		answer.StatusCode = status
		answer.Header.Set("X-Error-Code", code)
	case strings.HasSuffix(path, "/revision/main"):
		body = strings.NewReader(`{"sha":"` + commit + `"}`)
	default:
		var list []map[string]any
		for _, name := range slices.Sorted(maps.Keys(r.files)) {
			data := r.files[name]
			e := map[string]any{"type": "file", "path": name, "size": len(data),
				"oid": fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...)))}
			if strings.HasSuffix(name, ".safetensors") {
				e["lfs"] = map[string]any{"oid": fmt.Sprintf("%x", sha256.Sum256(data)), "size": len(data)}
			}
			list = append(list, e)
		}
		text, _ := json.Marshal(list)
		body = bytes.NewReader(text)
	}
	answer.Body = io.NopCloser(body)
	return answer, nil
}

func TestOpenFromHub(t *testing.T) {
	small := []string{"config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json",
		"tokenizer_config.json"}
	for source, weights := range map[string][]string{
		"testdata/tied": {"model.safetensors"},
		"testdata/sharded": {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
			"model-00003-of-00003.safetensors", indexName},
	} {
		t.Run(source, func(t *testing.T) {
			r := repositoryOf(t, source)
			h := r.open(t)
			done := map[string]int64{}
			h.Progress = func(p hub.Progress) { done[p.Name] = p.Done }
			fetch := func(name string) (dir, revision string, err error) {
				c, err := Open(t.Context(), h, name)
				if err != nil {
					return "", "", err
				}
				if c.Name != name {
					t.Errorf("%s is called %s", name, c.Name)
				}
				return c.label, c.Revision, c.Close()
			}
			dir, revision, err := fetch("owner/name")
			if err != nil || revision != commit {
				t.Fatal(dir, revision, err)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(small), weights...)))
			if diff := cmp.Diff(want, list(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			for _, name := range want {
				if done[name] != int64(len(r.files[name])) {
					t.Errorf("progress of %s ended at %d of %d", name, done[name], len(r.files[name]))
				}
			}
			c, d, params := load(t, dir, tensor.F32)
			sameWeights(t, source, d, params)
			if c.Tokenizer.ChatTemplate != "x" {
				t.Errorf("%+v", c.Tokenizer)
			}
			// The second time, no weights are sent. Offline, nothing is requested.
			sent, asked := r.weights, r.asked
			if again, _, err := fetch("owner/name@" + commit); err != nil || again != dir || r.weights != sent {
				t.Error(again, err, r.weights-sent)
			}
			h.Offline = true
			if again, revision, err := fetch("owner/name"); err != nil || again != dir || revision != commit ||
				r.asked != asked {
				t.Error(again, revision, err, r.asked-asked)
			}
			if again, revision, err := fetch(dir); err != nil || again != dir || revision != "" {
				t.Error("a directory: ", again, revision, err)
			}
			// A missing file that Python did not want is not an error; missing weights are.
			os.Remove(filepath.Join(dir, "special_tokens_map.json"))
			if _, _, err := fetch("owner/name"); err != nil {
				t.Error(err)
			}
			os.Remove(filepath.Join(dir, weights[0]))
			if _, _, err := fetch("owner/name"); err == nil || !strings.Contains(err.Error(), weights[0]) ||
				!strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
				t.Error(err)
			}
		})
	}
}

// TestOpenFromHubFaults opens repositories that are not models, and weights whose download fails. No weights may be
// requested if they cannot be used.
//
//nolint:lll // JSON in one piece
func TestOpenFromHubFaults(t *testing.T) {
	const first = "model-00001-of-00003.safetensors"
	set := func(name, text string) func(*repository) {
		return func(r *repository) { r.files[name] = []byte(text) }
	}
	without := func(names ...string) func(*repository) {
		return func(r *repository) {
			maps.DeleteFunc(r.files, func(name string, _ []byte) bool {
				return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(name, n) })
			})
		}
	}
	api := func(status int, code string) func(*repository) {
		return func(r *repository) { r.api = func() (int, string) { return status, code } }
	}
	body := func(f func(b []byte) io.Reader) func(*repository) {
		return func(r *repository) { r.body = f }
	}
	cut := func(b []byte, n int) io.Reader {
		return io.MultiReader(bytes.NewReader(b[:n]), readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
	}
	tries := 0
	for _, test := range []struct {
		name    string
		edit    func(*repository)
		ref     string // default owner/name
		want    string
		weights bool // whether they were requested
	}{
		{name: "no config", edit: without("config.json"), want: "has no config.json: give a model"},
		{name: "another kind of model", edit: set("config.json", `{"model_type":"bert"}`),
			want: `model owner/name@main: config.json: model_type "bert"`},
		{name: "only pickles", edit: without(".safetensors"),
			want: "model owner/name@main has no model.safetensors, only pytorch_model.bin, a pickle"},
		{name: "only GGUF", edit: func(r *repository) {
			without(".safetensors", ".bin", ".pth")(r)
			set("x-q4.gguf", "x")(r)
		}, want: "has only GGUF files: name one by its type, such as owner/name:q4"},
		{name: "no GGUF", edit: func(*repository) {}, ref: "owner/name:Q4_K_M", want: "no GGUF file of type Q4_K_M: it has none"},
		{name: "another GGUF", edit: set("x-Q8_0.gguf", "x"), ref: "owner/name:Q4_K_M", want: "it has Q8_0"},
		{name: "several GGUFs", edit: func(r *repository) {
			set("x-Q8_0.gguf", "x")(r)
			set("y.Q8_0.gguf", "x")(r)
		}, ref: "owner/name:q8_0", want: "several GGUF files of type q8_0, x-Q8_0.gguf and y.Q8_0.gguf"},
		{name: "only others", edit: without("model-0", "model.safetensors", ".bin", ".pth"),
			want: "only consolidated.safetensors, which may be an adapter"},
		{name: "no weights", edit: without(".safetensors", ".bin", ".pth"), want: "has no weights"},
		{name: "a shard missing", edit: without(first), want: "lacks " + first + ", which its index names"},
		{name: "index of nothing", edit: set(indexName, `{}`), want: indexName + " of model owner/name@main: weight_map"},
		{name: "index leads out", edit: set(indexName, `{"weight_map":{"a":"../x.safetensors"}}`), want: "../x.safetensors"},
		{name: "gated", edit: api(401, "GatedRepo"), want: "gated: ask for access"},
		{name: "not there", edit: api(404, "RepoNotFound"), want: "does not exist"},
		{name: "no such revision", edit: api(404, "RevisionNotFound"), ref: "owner/name@v2", want: `no revision "v2"`},
		{name: "down", edit: api(503, ""), want: "gave up after 6 tries"},
		{name: "not a name", edit: func(*repository) {}, ref: "./models/none", want: `there is no directory "./models/none"`},
		{name: "offline", edit: func(*repository) {}, want: "not in the cache"},
		{name: "weights of another size", edit: body(func(b []byte) io.Reader {
			return bytes.NewReader(append(slices.Clone(b), 0))
		}),
			want: "more than the 3656 bytes of the listing", weights: true},
		{name: "weights of another hash", edit: body(func(b []byte) io.Reader { b = slices.Clone(b); b[99] ^= 1; return bytes.NewReader(b) }),
			want: "damaged: its hash is", weights: true},
		{name: "cut off once", edit: body(func(b []byte) io.Reader {
			if tries++; tries == 2 {
				return cut(b, 100)
			}
			return bytes.NewReader(b)
		}), weights: true},
		{name: "cut off for ever", edit: body(func(b []byte) io.Reader { return cut(b, 1) }),
			want: "gave up after 6 tries: the download broke off after 1 of", weights: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the bubble's clock makes the waits between tries short
				r := repositoryOf(t, "testdata/sharded")
				delete(r.files, "onnx/model.safetensors") // its name contains the names that are deleted above
				test.edit(r)
				h := r.open(t)
				h.Offline = test.name == "offline"
				if test.ref == "" {
					test.ref = "owner/name"
				}
				c, err := Open(t.Context(), h, test.ref)
				if test.want == "" {
					expect.OK(t, err)
					defer c.Close()
					_, d, params := load(t, c.label, tensor.F32)
					sameWeights(t, "testdata/sharded", d, params)
				} else if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if (r.weights > 0) != test.weights {
					t.Errorf("weights were asked for %d times", r.weights)
				}
			})
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestOpen_GGUFFromHub opens the file of a type, in one part or two, and nothing else in the repository.
func TestOpen_GGUFFromHub(t *testing.T) {
	whole := newGGUFFile(t, ggufModelConfig("llama", ""), "llama", types{"": gguf.Q8_0}).encode(t)
	r := &repository{files: map[string][]byte{"README.md": []byte("x"), "m-Q8_0.gguf": whole, "m-Q4_0.gguf": []byte("x")}}
	c, err := Open(t.Context(), r.open(t), "owner/name:q8_0")
	expect.OK(t, err)
	defer c.Close()
	if c.Name != "owner/name:q8_0" || c.Revision != commit || c.Config.Family != "llama" || r.weights != 1 {
		t.Errorf("%q at %q, a %s, by %d downloads of weights", c.Name, c.Revision, c.Config.Family, r.weights)
	}
}

// TestFindAdapter downloads adapters, and nothing from a repository without a readable one.
func TestFindAdapter(t *testing.T) {
	peft := adapterWeights(layer0+"q_proj"+endA, layer0+"q_proj"+endB, false, tensor.F32)
	mlx := adapterWeights(layer0+"q_proj.lora_a", layer0+"q_proj.lora_b", true, tensor.F32)
	read := func(dir string) map[string][]byte { return repositoryOf(t, dir).files }
	for _, c := range []struct {
		name, config string
		weights      map[string]weight
		edit         func(files map[string][]byte)
		ref, want    string
	}{
		{name: "PEFT", config: peftConfig(""), weights: peft},
		{name: "a commit", config: peftConfig(""), weights: peft, ref: "owner/name@" + commit},
		{name: "mlx-lm", config: mlxConfig, weights: mlx},
		{name: "with its base's config.json", config: peftConfig(""), weights: peft,
			edit: func(files map[string][]byte) { files["config.json"] = []byte("{}") }},
		{name: "DoRA", config: peftConfig(`,"use_dora":true`), weights: peft,
			want: "model owner/name@main: adapter_config.json: use_dora is true"},
		{name: "a pickle", config: peftConfig(""), weights: peft, edit: func(files map[string][]byte) {
			files["adapter_model.bin"] = files[adapterWeightsName]
			delete(files, adapterWeightsName)
		}, want: "model owner/name@main: it has no adapter_model.safetensors, only adapter_model.bin, a pickle"},
		{name: "no weights", config: peftConfig(""), weights: peft,
			edit: func(files map[string][]byte) { delete(files, adapterWeightsName) }, want: "get that from where the adapter"},
		{name: "gone", config: peftConfig(""), weights: peft, ref: "owner/none",
			want: `no directory "owner/none", and the hub`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &repository{files: read(writeAdapter(t, c.config, c.weights))}
			r.files[adapterRecordName] = []byte(`{"base_model":"owner/base"}`)
			if c.edit != nil {
				c.edit(r.files)
			}
			h := r.open(t)
			name := "owner/name"
			if c.ref != "" {
				name = c.ref
			}
			if name == "owner/none" {
				r.api = func() (int, string) { return 404, "RepoNotFound" }
			}
			dir, err := FindAdapter(t.Context(), h, name)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || r.weights > 0 {
					t.Errorf("%v, want %q; %d downloads of weights", err, c.want, r.weights)
				}
				return
			}
			expect.OK(t, err)
			want := []string{adapterConfigName, adapterWeightsName, adapterRecordName, "special_tokens_map.json",
				"tokenizer.json", "tokenizer_config.json"}
			if c.name == "mlx-lm" {
				want[1] = adapterMLXName
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, list(t, dir)); diff != "" || r.weights != 1 {
				t.Errorf("%d downloads of weights, files (-want +got):\n%s", r.weights, diff)
			}
			open(t, dir)
			if _, err := Open(t.Context(), h, "owner/name"); !errors.Is(err, ErrAdapter) {
				t.Errorf("as a model: %v", err)
			}
			h.Offline = true
			if again, err := FindAdapter(t.Context(), h, name); err != nil || again != dir {
				t.Errorf("offline: %q, %v", again, err)
			}
			if same, err := FindAdapter(t.Context(), h, dir); err != nil || same != dir {
				t.Errorf("a directory: %q, %v", same, err)
			}
		})
	}
	model := repositoryOf(t, "testdata/tied")
	model.files[adapterConfigName] = []byte(peftConfig(""))
	for _, name := range []string{"owner/name", "testdata/tied", "no-such", "owner/name:Q4_K_M"} {
		if dir, err := FindAdapter(t.Context(), model.open(t), name); dir != "" || err != nil {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
	}
}
