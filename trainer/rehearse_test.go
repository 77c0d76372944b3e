package trainer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// TestRehearse checks that a rehearsal shows everything that a run with full passes launches. Compiling ahead would be
// of little use if the run still had to compile.
func TestRehearse(t *testing.T) {
	from, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	expect.OK(t, err)
	for name, change := range map[string]func(*Config){
		"default":   func(*Config) {},
		"F32":       func(s *Config) { s.DType, s.Optimizer = tensor.F32, AdamW },
		"recompute": func(s *Config) { s.Recompute = model.RecomputeLayer },
		"samples":   func(s *Config) { s.Samples, s.SampleTokens = 1, 8 },
		"filled":    func(*Config) {},
	} {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			t.Run(name+" "+fused.String(), func(t *testing.T) {
				s := tinySettings()
				s.MaxSteps = 2
				change(&s)
				plan, err := NewPlan(s, learnable(41, 1), learnable(7, 2))
				expect.OK(t, err)
				plan.PadPasses = name == "filled"
				var b kernels.Builds
				launched := func(f func(d *kernels.Device) error) string {
					t.Helper()
					expect.OK(t, b.Rehearse(cuda.Properties{Major: 9, SMs: 2, Memory: 1 << 37}, kernels.Options{Fused: fused},
						f))
					return b.String()
				}
				ahead := launched(func(d *kernels.Device) error { return Rehearse(d, from.Config, plan) })
				all := launched(func(d *kernels.Device) error {
					m, err := model.New(d, from.Config, plan.ModelOptions(from.Config))
					if err != nil {
						return err
					}
					o, err := optim.New(d, m.Params(), s.AdamW())
					if err != nil {
						return err
					}
					r := &Run{Plan: plan, Model: m, Optimizer: o, Dir: t.TempDir(), Base: from, Identity: plan.Recipe()}
					if s.Samples > 0 {
						r.GenerateSamples = func(context.Context) ([]Sample, error) {
							cache, err := m.NewKVCache(plan.Context(from.Config))
							if err != nil {
								return nil, err
							}
							for _, n := range []int{20, 1, 1} {
								if _, e := m.Extend(cache, make([]int32, n)); err == nil {
									err = e
								}
							}
							return nil, errors.Join(err, cache.Close())
						}
					}
					err = r.startFrom(context.Background(), "")
					if err == nil {
						_, err = r.Run(context.Background())
					}
					return errors.Join(err, r.Close())
				})
				if ahead == "" {
					t.Error("nothing is compiled ahead")
				}
				for missing := range strings.Lines(strings.TrimPrefix(all, ahead)) {
					// a pass of fewer tokens may use other tiles
					if plan.PadPasses || !strings.HasPrefix(missing, "product_gemm.cu ") {
						t.Errorf("not compiled ahead: %s", missing)
					}
				}
			})
		}
	}
}
