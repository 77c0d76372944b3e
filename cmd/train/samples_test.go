package main

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"restyle/dataset/training"
	"restyle/infer"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/trainer"
)

// TestSamples_OfCurrentWeights generates samples, changes the weights as a step does, and generates again: nothing of
// the old weights is in the new samples, and a stop leaves no half of one.
func TestSamples_OfCurrentWeights(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	e, err := infer.Open(t.Context(), d, tinyBase, infer.OpenOptions{})
	expect.OK(t, err)
	defer e.Close()
	a := &sampler{engine: e, tokens: 20}
	for i := range 2 {
		a.add("q", []int32{10, 20, 30, 40, 50, 60, int32(70 + i)})
	}
	generate := func() []trainer.Sample {
		s, err := a.generate(t.Context())
		if err != nil || len(s) != 2 {
			t.Fatal(s, err)
		}
		return s
	}
	generate()
	for _, p := range e.Model.Params() {
		if strings.HasSuffix(p.Name, "k_proj.weight") || strings.HasSuffix(p.Name, "v_proj.weight") {
			for i := range p.W.Half() {
				p.W.Half()[i] ^= 0x8000 // its sign
			}
		}
	}
	a.prompts[0], a.prompts[1] = a.prompts[1], a.prompts[0] // the last one has all of its prompt in the cache
	got := generate()
	e.ResetCache()
	if want := generate(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if s, err := a.generate(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %+v, %v", s, err)
	}
}

// TestSamples_OfTwoDatasets reads rows of two datasets again, by their numbers over both.
func TestSamples_OfTwoDatasets(t *testing.T) {
	o, flags := newOptions(io.Discard, io.Discard)
	if _, done := flags.Parse([]string{"--data", rows(t, 10), "--data", rows(t, 20), "--data", rows(t, 30)}); done {
		t.Fatal("the flags are wrong")
	}
	in := &train{options: o}
	found, err := in.conversations(t.Context(), []training.Example{{Row: 3}, {Row: 15}, {Row: 31}})
	if err != nil || len(found) != 3 || found[0].Row != 3 || found[1].Row != 5 || found[2].Row != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}
