package infer

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/tensor"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// TestPrecompile checks that an engine on a GPU compiles its kernels before it reads the weights. The driver here is a
// stand-in that launches no kernel.
func TestPrecompile(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	cudatest.Set(t, "MEMORY=1073741824")
	cache := cudatest.Cache(t)
	t.Setenv("RESTYLE_CACHE", cache)
	dev, err := kernels.Open("cuda", kernels.Options{Fused: kernels.All(), OwnProducts: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	e, err := Open(t.Context(), dev, "testdata/tiny/base", OpenOptions{})
	if err == nil {
		defer e.Close()
	}
	for _, source := range []string{"op_rmsnorm", "op_attention", "op_attention_decode", "product_one_row", "op_swiglu"} {
		if files, _ := filepath.Glob(filepath.Join(cache, source+"-sm_90a-*.cubin")); files == nil {
			t.Errorf("%s is not compiled, %v", source, err)
		}
	}
}

// TestAnswersCompileNothing asks an engine questions of every length up to its context, greedily and by sampling, some
// after an earlier question. No answer may compile a kernel: that would be a pause of seconds in a conversation. Nor do
// questions of all these lengths add to the products that are timed. The driver is a stand-in whose kernels do nothing.
func TestAnswersCompileNothing(t *testing.T) {
	const context = 80
	for _, libraries := range [][]string{{"libcuda", "libnvrtc"}, {"libcuda", "libnvrtc", "libcublasLt"}} {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
				cudatest.Use(t, libraries...)
				cudatest.Set(t, "MEMORY=1073741824 IDLE=1")
				cache := cudatest.Cache(t)
				t.Setenv("RESTYLE_CACHE", cache)
				dev, err := kernels.Open("cuda", kernels.Options{Fused: fused})
				if err != nil {
					t.Fatal(err)
				}
				e, err := Open(t.Context(), dev, "testdata/tiny/base", OpenOptions{DType: dtype, Context: context})
				if err != nil {
					t.Fatal(err)
				}
				compiled := func() int {
					files, err := filepath.Glob(filepath.Join(cache, "*.cubin"))
					if err != nil {
						t.Fatal(err)
					}
					return len(files)
				}
				ahead, timed := compiled(), 0
				if err := dev.ChooseProducts(t.Context(), func(_, of int) { timed = of }); err != nil {
					t.Fatal(err)
				}
				most := 4
				if fused["swiglu"] && dtype.Half() {
					most-- // gates and ups, which SwiGLU follows in restyle's own kernel
				}
				if most *= len(libraries) - 2; timed != most {
					t.Errorf("%v: %d products are timed, not the %d of the longest prompt", libraries, timed, most)
				}
				for n := 1; n < context-2; n++ {
					for _, temperature := range []float64{0, 1} {
						if n%2 > 0 {
							e.ResetCache()
						}
						g, err := e.Start(make([]int32, n), Options{Sampling: Sampling{Temperature: temperature}, MaxTokens: 2,
							IgnoreEnd: true})
						if err != nil {
							t.Fatal(err)
						}
						for g.Next(t.Context()) {
						}
						if g.Err() != nil {
							t.Fatal(g.Err())
						}
						if now := compiled(); now != ahead || now == 0 {
							t.Fatalf("%v, fused %v, %v: a prompt of %d tokens compiles %d kernels after %d", libraries, fused,
								dtype, n, now-ahead, ahead)
						}
					}
				}
				if err := errors.Join(e.Close(), dev.Close()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestRehearse_CoversAllLengths compares a rehearsal with prompts of all lengths and answers at all positions, for a
// model whose products use every tile, on GPUs of different sizes. The rehearsal must find every kernel.
func TestRehearse_CoversAllLengths(t *testing.T) {
	c, err := hf.ParseConfig([]byte(`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1000,
		"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 2, "num_attention_heads": 14,
		"num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}`))
	if err != nil {
		t.Fatal(err)
	}
	const context = 1200
	tiles := map[string]bool{}
	for _, multiprocessors := range []int{8, 24, 132} {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			var b kernels.Builds
			record := func(f func(m *model.Model) error) string {
				t.Helper()
				err := b.Rehearse(cuda.Properties{Major: 9, SMs: multiprocessors, Memory: 1 << 37},
					kernels.Options{Fused: fused}, func(d *kernels.Device) error {
						m, err := model.New(d, c, model.Options{DType: tensor.BF16})
						if err != nil {
							return err
						}
						return errors.Join(f(m), m.Close())
					})
				if err != nil {
					t.Fatal(err)
				}
				return b.String()
			}
			ahead := record(func(m *model.Model) error { return Rehearse(m, context) })
			all := record(func(m *model.Model) error {
				cache, err := m.NewKVCache(context)
				for n := 1; n < 800 && err == nil; n++ {
					cache.Trim(0)
					_, err = m.Extend(cache, make([]int32, n%5*100+1))
					if _, _, e := m.Greedy(cache, make([]int32, n)); err == nil {
						err = e
					}
				}
				return errors.Join(err, cache.Close())
			})
			if more, found := strings.CutPrefix(all, ahead); !found || more != "" {
				t.Errorf("%d multiprocessors, fused %v: the rehearsal lacks\n%s", multiprocessors, fused, more)
			}
			tile := regexp.MustCompile(`-DTILE_N=(\d+) .*-DSTAGES=(\d+) .*-DTURNS=(\d)`)
			for _, match := range tile.FindAllStringSubmatch(all, -1) {
				tiles[strings.Join(match[1:], " ")] = true
			}
		}
	}
	if len(tiles) != 6 {
		t.Errorf("the products use the tiles %v", tiles)
	}
}

// TestRehearse_OfEachKind checks that a mixture's experts and its ordinary MLPs are both compiled ahead, for prompts of
// every length.
func TestRehearse_OfEachKind(t *testing.T) {
	c := model.Config{Vocab: 50, Dim: 16, Layers: 4, Heads: 2, KVHeads: 1, HeadDim: 8, Inner: 24, MaxPositions: 64,
		NormEps: 1e-5, RoPETheta: 1e4, Tied: true,
		Mixture: &model.Mixture{Experts: 4, PerToken: 2, Inner: 8, Dense: []int{0, 3}}}
	var b kernels.Builds
	if err := b.Rehearse(cuda.Properties{SMs: 132, Major: 9}, kernels.Options{Fused: kernels.All()},
		func(d *kernels.Device) error {
			m, err := model.New(d, c, model.Options{DType: tensor.BF16})
			if err != nil {
				return err
			}
			return errors.Join(Rehearse(m, 20), m.Close())
		}); err != nil {
		t.Fatal(err)
	}
}
