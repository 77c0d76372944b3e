package opcheck

import (
	"math"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// TestTimings checks that each timing is unique, and counts what it moves and computes.
func TestTimings(t *testing.T) {
	seen := map[string]bool{}
	ops := map[string]bool{}
	for _, x := range Timings() {
		if seen[x.ID()] {
			t.Errorf("two timings are %s", x.ID())
		}
		seen[x.ID()], ops[x.Op+" "+x.Pass] = true, true
		if !(x.Bytes > 0) || !(x.FLOPs >= 0) || len(x.Forms) == 0 || len(x.reference.inputs) == 0 {
			t.Errorf("%s: %v bytes, %v FLOPs, %d forms", x.ID(), x.Bytes, x.FLOPs, len(x.Forms))
		}
		quantized := len(x.Forms) == 2 && x.Forms[0].Name == x.Type.String()
		if len(x.Forms) == 2 && !quantized &&
			(x.Forms[0].Name != "standard" || x.Forms[1].Name != "fused" || !x.Forms[1].Fused) {
			t.Errorf("%s: %+v", x.ID(), x.Forms)
		}
	}
	// Of these, the other pass is part of this one, or timed under another name.
	onlyOne := map[string]string{"linear": "forward", "ffn gelu": "forward", "ffn swiglu": "forward",
		"linear_activation": "backward", "crossentropy": "forward"}
	for _, op := range append([]string{"linear", "ffn gelu", "ffn swiglu"}, kernels.FusedOps...) {
		for _, pass := range []string{"forward", "backward"} {
			if one := onlyOne[op]; !ops[op+" "+pass] && (one == "" || one == pass) {
				t.Errorf("%s %s is not timed", op, pass)
			}
		}
	}
}

// small returns timings of each kind of reference, of small sizes.
func small() (all []*Timing) {
	const t = tensor.F32
	m := kernels.AttentionSpec{CuSeqlens: sequences(2, 9), Heads: 4, KVHeads: 2, HeadDim: 8}
	all = timedAttention("small", t, m)
	m.Bidirectional = true
	all = append(all, timedAttention("small", t, m)...)
	all = append(all, timedCase{"small", addRMSNormCase(t, 9, 16), addRMSNormCase(t, 2, 16), 1, [2]float64{}}.timings()...)
	all = append(all, timedCase{"small", crossEntropyCase(t, 9, 300, nil, true), crossEntropyCase(t, 2, 300, nil, true), 1,
		[2]float64{}}.timings()...)
	return append(all, timedExpertsGated(t, []int{3, 0, 9}, 24, 40), timedGated("small", t, 3, 24, 40, true),
		timedGated("small", t, 3, 24, 40, false),
		timedQuantized("small", tensor.INT8, t, 1, 200, 300), timedQuantized("small", tensor.INT4, t, 3, 200, 300),
		timedINT8("small", t, 3, 200, 300), timedPaged(t, []run{{39, 1}, {39, 1}}, kernels.AttentionSpec{Heads: 4, KVHeads: 2,
			HeadDim: 32}), timedPaged(t, []run{{0, 17}}, kernels.AttentionSpec{Heads: 2, KVHeads: 2, HeadDim: 32}))
}

// TestTimed_WrongResultIsSeen checks that forms of small sizes agree with the formula, and that a wrong result is seen.
func TestTimed_WrongResultIsSeen(t *testing.T) {
	d := open(t)
	for _, x := range small() {
		r, err := x.Place(d)
		expect.OK(t, err)
		defer r.Close()
		for _, x := range r.sets { // a backward pass needs what the forward pass computed
			if lse := x["lse"]; r.t.Pass == "backward" && lse.Ok() && lse.F32()[0] == 0 {
				t.Error("there was no forward pass")
			}
		}
		for _, f := range x.Forms {
			if err := r.Work(f)(3); err != nil {
				t.Error(err)
			}
			greatest, mean, err := r.Errors(f)
			// In F32 sums of some hundred terms lose a few units of 2⁻²⁴ of the largest; an element may be a few times the root
			// mean square. INT4 may round small activations to 2⁻¹⁵, INT8 × INT8 rounds all of them to about a percent.
			limit := map[string]float64{"INT4": 3e-5, "INT8 × INT8": 0.05}[f.Name]
			if limit == 0 {
				limit = 1e-5
			}
			if err != nil || !(greatest < limit) || !(mean < limit/5) || !(greatest >= mean) {
				t.Errorf("%s %s: %g and %g, %v", x.ID(), f.Name, greatest, mean, err)
			}
			right := f.run
			f.run = func(d *kernels.Device, x Tensors) {
				right(d, x)
				for _, name := range []string{"dqkv", "dh", "y", "logits"} {
					if v := x[name]; v.Ok() && (r.t.Pass == "forward" || name[0] == 'd') {
						v.F32()[0] = 1.5*v.F32()[0] + 1
						return
					}
				}
				t.Error("nothing to spoil")
			}
			if greatest, _, err := r.Errors(f); err != nil || !(greatest > limit) {
				t.Errorf("%s %s: a wrong element is off by %g, %v", x.ID(), f.Name, greatest, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTimed_StandardFormsTakeMore checks that the standard forms take more memory, by what lies between their steps.
func TestTimed_StandardFormsTakeMore(t *testing.T) {
	d := open(t)
	x := timedGated("small", tensor.F32, 64, 64, 4096, false)
	r, err := x.Place(d)
	expect.OK(t, err)
	defer r.Close()
	var bytes []int
	for _, f := range x.Forms {
		n, err := r.Memory(f)
		expect.OK(t, err)
		bytes = append(bytes, n)
	}
	// Gates and ups are in memory either way, and silu(gate) only in the standard form.
	if least := 4 * 64 * (64 + 2*4096 + 4096); bytes[1] < least || bytes[0]-bytes[1] != 4*64*4096 {
		t.Errorf("%d bytes", bytes)
	}
	if len(r.sets) != maxSets {
		t.Errorf("%d sets", len(r.sets))
	}
	for i, s := range r.sets[1:] {
		if !slices.Equal(s["x"].F32(), r.sets[0]["x"].F32()) || s["x"].Addr == r.sets[0]["x"].Addr {
			t.Errorf("set %d is not a copy", i+1)
		}
	}
	if w := r.sets[0]["w"].F32(); slices.ContainsFunc(w, func(v float32) bool {
		return v == 0 ||
			math.Abs(float64(v)) > 2
	}) {
		t.Error("the weights are not filled")
	}
}

// TestTimed_FormsStoreTheirOwn checks that a form does not store what only another form keeps.
func TestTimed_FormsStoreTheirOwn(t *testing.T) {
	d := open(t)
	x := timedActivation(3, 16, 24, kernels.SiLU)
	r, err := x.Place(d)
	expect.OK(t, err)
	defer r.Close()
	for _, i := range []int{1, 0} { // fused, standard
		expect.OK(t, r.Work(x.Forms[i])(1))
		pre, err := r.first(r.sets[1-i]["pre"], 3*24)
		expect.OK(t, err)
		stored := slices.ContainsFunc(pre, func(v float64) bool { return v != 0 })
		if standard := i == 0; stored != standard {
			t.Errorf("%s: the product alone is stored: %v", x.Forms[i].Name, stored)
		}
	}
}
