package hf

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"restyle/tensor"
)

// asModel makes the hub's repository one of a model with these files beside what many repositories have too.
func (s *fakeHub) asModel(dir string) {
	s.kind = Model
	s.files, s.lfs = map[string][]byte{}, map[string]bool{}
	for _, name := range []string{"README.md", "original/consolidated.00.pth", "original/params.json", "consolidated.safetensors",
		"pytorch_model.bin", "onnx/model.safetensors", "vision.safetensors"} {
		s.files[name] = []byte("not wanted")
	}
	for name, text := range map[string]string{"tokenizer.json": "{}", "tokenizer_config.json": `{"chat_template":"x"}`, "special_tokens_map.json": `{"a":1}`} {
		s.files[name] = []byte(text)
	}
	for _, name := range files(s.t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			s.t.Fatal(err)
		}
		s.files[name] = data
		s.lfs[name] = strings.HasSuffix(name, ".safetensors")
	}
}

func (s *fakeHub) model(h *Hub, name string) (dir, revision string, err error) {
	defer synctest.Wait()
	dir, revision, err = h.Model(s.t.Context(), name)
	s.checkError(err)
	return dir, revision, err
}

func TestHubModel(t *testing.T) {
	small := []string{"config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}
	for source, weights := range map[string][]string{
		"testdata/tied":    {"model.safetensors"},
		"testdata/sharded": {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", indexName},
	} {
		t.Run(source, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				s.asModel(source)
				h := s.open()
				done := map[string]int64{}
				h.Progress = func(p Progress) { done[p.Name] = p.Done }
				dir, revision, err := s.model(h, "owner/name")
				if err != nil || revision != commit1 {
					t.Fatal(dir, revision, err)
				}
				want := slices.Sorted(slices.Values(append(slices.Clone(small), weights...)))
				if diff := cmp.Diff(want, files(t, dir)); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
				for _, name := range want {
					if done[name] != int64(len(s.files[name])) {
						t.Errorf("progress of %s ended at %d of %d", name, done[name], len(s.files[name]))
					}
				}
				c, d, params := load(t, dir, tensor.F32)
				sameWeights(t, source, d, params)
				if c.Tokenizer.ChatTemplate != "x" {
					t.Errorf("%+v", c.Tokenizer)
				}
				// The second time nothing is sent, and offline nothing is asked.
				sent, api := s.sent, s.api
				if again, _, err := s.model(h, "owner/name@"+commit1); err != nil || again != dir || s.sent != sent {
					t.Error(again, err, s.sent-sent)
				}
				h.Offline = true
				if again, revision, err := s.model(h, "owner/name"); err != nil || again != dir || revision != commit1 || s.api != api {
					t.Error(again, revision, err, s.api-api)
				}
				// What Python did not want is not missed; weights are.
				os.Remove(filepath.Join(dir, "special_tokens_map.json"))
				if _, _, err := s.model(h, "owner/name"); err != nil {
					t.Error(err)
				}
				os.Remove(filepath.Join(dir, weights[0]))
				if _, _, err := s.model(h, "owner/name"); err == nil || !strings.Contains(err.Error(), weights[0]) || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
					t.Error(err)
				}
				if again, revision, err := s.model(h, dir); err != nil || again != dir || revision != "" {
					t.Error("a directory: ", again, revision, err)
				}
			})
		})
	}
}

// TestHubModelFaults has repositories and servers that go wrong. No weights may be asked for where they cannot be used.
func TestHubModelFaults(t *testing.T) {
	const first = "model-00001-of-00003.safetensors"
	set := func(name, text string) func(*fakeHub) {
		return func(s *fakeHub) { s.files[name] = []byte(text) }
	}
	without := func(names ...string) func(*fakeHub) {
		return func(s *fakeHub) {
			maps.DeleteFunc(s.files, func(name string, _ []byte) bool {
				return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(name, n) })
			})
		}
	}
	api := func(status int, code string) func(*fakeHub) {
		return func(s *fakeHub) {
			s.onAPI = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.Header().Set("X-Error-Code", code)
				w.WriteHeader(status)
				return true
			}
		}
	}
	body := func(edit func([]byte) []byte) func(*fakeHub) {
		return func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.Write(edit(slices.Clone(s.files[strings.TrimPrefix(r.URL.Path, "/")])))
				return true
			}
		}
	}
	for _, test := range []struct {
		name    string
		edit    func(*fakeHub)
		ref     string // default owner/name
		want    string
		weights bool // were asked for
	}{
		{name: "no config", edit: without("config.json"), want: "has no config.json: it is no model"},
		{name: "another kind of model", edit: set("config.json", `{"model_type":"bert"}`), want: `model owner/name@main: config.json: model_type "bert"`},
		{name: "only pickles", edit: without(".safetensors"), want: "model owner/name@main has no model.safetensors, only pytorch_model.bin, a pickle"},
		{name: "only GGUF", edit: func(s *fakeHub) { without(".safetensors", ".bin", ".pth")(s); set("x-q4.gguf", "x")(s) }, want: "only x-q4.gguf, which is not read"},
		{name: "only others", edit: without("model-0", "model.safetensors", ".bin", ".pth"), want: "only consolidated.safetensors, but no model.safetensors"},
		{name: "no weights", edit: without(".safetensors", ".bin", ".pth"), want: "has no weights"},
		{name: "a shard missing", edit: without(first), want: "lacks " + first + ", which its index names"},
		{name: "index of nothing", edit: set(indexName, `{}`), want: indexName + " of model owner/name@main: weight_map"},
		{name: "index leads out", edit: set(indexName, `{"weight_map":{"a":"../x.safetensors"}}`), want: "../x.safetensors"},
		{name: "gated", edit: api(401, "GatedRepo"), want: "gated: ask for access"},
		{name: "not there", edit: api(404, "RepoNotFound"), want: "does not exist"},
		{name: "no such revision", edit: api(404, "RevisionNotFound"), ref: "owner/name@v2", want: `no revision "v2"`},
		{name: "down", edit: api(503, ""), want: "gave up after 6 tries"},
		{name: "not a name", edit: func(*fakeHub) {}, ref: "./models/none", want: `there is no directory "./models/none"`},
		{name: "offline", edit: func(*fakeHub) {}, want: "is not in the cache"},
		{name: "weights of another size", edit: body(func(b []byte) []byte { return append(b, 0) }), want: "more than the 3656 bytes of the listing", weights: true},
		{name: "weights of another hash", edit: body(func(b []byte) []byte { b[99] ^= 1; return b }), want: "damaged: its hash is", weights: true},
		{name: "cut off once", edit: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool { return n == 2 && cut(s.serveCDN, w, r, 100) }
		}, weights: true},
		{name: "cut off for ever", edit: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool { return cut(s.serveCDN, w, r, 1) }
		}, want: "gave up after 6 tries: the download broke off after 6 of", weights: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				s.asModel("testdata/sharded")
				delete(s.files, "onnx/model.safetensors") // contains the names that are taken away above
				test.edit(s)
				h := s.open()
				h.Offline = test.name == "offline"
				if test.ref == "" {
					test.ref = "owner/name"
				}
				dir, _, err := s.model(h, test.ref)
				if test.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					_, d, params := load(t, dir, tensor.F32)
					sameWeights(t, "testdata/sharded", d, params)
				} else if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if (s.cdn > 0) != test.weights {
					t.Errorf("weights were asked for %d times", s.cdn)
				}
			})
		})
	}
}
