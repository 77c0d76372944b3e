package hf

import (
	"fmt"
	"io"
	"math"
	"strings"

	"restyle/gguf"
	"restyle/model"
	"restyle/tensor"
)

// SaveGGUFAdapter saves an adapter as a GGUF file, for llama.cpp's --lora with a GGUF file of the base, whose
// configuration is c. llama.cpp scales all modules' B·A by one number over the rank. The file has the number that
// gives the adapter's own scales, also for a rank-stabilized one. It is an error if no single number fits the
// adapter, or if it has modules trained whole.
func SaveGGUFAdapter(path string, a *Adapter, c model.Config) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("adapter %s: "+format+": merge it into its base", append([]any{a.Name}, args...)...)
	}
	arch := GGUFArchitecture(c)
	if arch == "" {
		return fail("its base is a %s model, which has no form in llama.cpp here", c.Family)
	}
	alpha, first := 0.0, ""
	var sources []gguf.Source
	for _, name := range a.Names() {
		module, kind, low := cutLast(strings.TrimSuffix(name, ".weight"), ".")
		if !low || kind != "lora_A" && kind != "lora_B" {
			return fail("it has %s whole, and llama.cpp takes only low-rank changes", name)
		}
		own, expert, err := ggufName(c, module+".weight")
		if err != nil || expert >= 0 || module+".weight" == head && c.Tied {
			return fail("it changes %s, which is no matrix of its own in llama.cpp's file", module)
		}
		rank, scale, _ := a.Of(module)
		switch want := scale * float64(rank); {
		case first == "":
			alpha, first = want, module
		case math.Abs(want-alpha) > 1e-6*math.Abs(alpha):
			return fail("its scales are not in the ratio of its ranks: llama.cpp would take alpha %.6g for %s, and %.6g for %s",
				alpha, first, want, module)
		}
		info, _ := a.Tensor(name)
		d := 1
		if heads := ggufHeads(c, blockName(own)); heads > 0 && kind == "lora_B" {
			d = info.Shape[0] / heads
		}
		sources = append(sources, gguf.Source{Name: own + "." + strings.ToLower(kind), Type: gguf.F32,
			Dims: []int{info.Shape[1], info.Shape[0]}, Write: func(w io.Writer) error {
				values, shape, err := a.ReadF32(name)
				if err != nil {
					return err
				}
				data := make([]byte, 4*len(values))
				narrow(data, tensor.F32, values)
				r := &rowWriter{to: w, name: name, from: tensor.F32, as: gguf.F32, in: shape[1], d: d, step: shape[0] / d}
				_, err = r.Write(data)
				return err
			}})
	}
	return gguf.Write(path, []gguf.KV{{Key: "general.architecture", Value: arch}, {Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(alpha)},
		{Key: "general.quantization_version", Value: uint32(gguf.QuantizationVersion)}}, sources)
}

// blockName returns a tensor's name as ggufNames has it: without its end, and with N for the number of its layer.
func blockName(tensor string) string {
	stem, _, _ := cutLast(tensor, ".")
	if parts := strings.SplitN(stem, ".", 3); len(parts) == 3 {
		return "blk.N." + parts[2]
	}
	return stem
}
