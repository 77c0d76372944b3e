package infer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// rowsOf are kinds of rows of logits: what makes a normally distributed one special.
var rowsOf = map[string]func(r *rand.Rand, row []float32){
	"plain": func(*rand.Rand, []float32) {},
	"flat":  func(_ *rand.Rand, row []float32) { scale(row, 0.1) },
	"steep": func(_ *rand.Rand, row []float32) { scale(row, 8) },
	"ties": func(_ *rand.Rand, row []float32) {
		for i, x := range row {
			row[i] = float32(math.Round(float64(x)))
		}
	},
	"equal": func(_ *rand.Rand, row []float32) { scale(row, 0) },
	"huge": func(r *rand.Rand, row []float32) {
		row[r.IntN(len(row))], row[r.IntN(len(row))] = -math.MaxFloat32, math.MaxFloat32
	},
	"wide": func(_ *rand.Rand, row []float32) {
		for i, x := range row {
			row[i] = float32(math.Copysign(math.Exp(8*math.Abs(float64(x))), float64(x)))
		}
	},
	"-Inf": func(r *rand.Rand, row []float32) {
		for range 2 * len(row) {
			row[r.IntN(len(row))] = float32(math.Inf(-1))
		}
	},
	"NaN":  func(r *rand.Rand, row []float32) { row[r.IntN(len(row))] = float32(math.NaN()) },
	"+Inf": func(r *rand.Rand, row []float32) { row[r.IntN(len(row))] = float32(math.Inf(1)) },
	"none": func(_ *rand.Rand, row []float32) { scale(row, float32(math.Inf(-1))) },
}

func scale(row []float32, by float32) {
	for i, x := range row {
		row[i] = by * max(x, -x)
	}
}

// TestSampler_OnADevice checks that a GPU draws the tokens that a Sampler chooses, or leaves the choice to it: always
// if that is an error, and else seldom. With RESTYLE_LONG there are more rows, and also long ones.
func TestSampler_OnADevice(t *testing.T) {
	d, err := kernels.Open(cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "emulated"), kernels.Options{})
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	if d.IsCPU() {
		t.Skip("a CPU leaves all choices to the sampler")
	}
	vocabularies, times := []int{1, 37, 1032}, 10
	if os.Getenv("RESTYLE_LONG") != "" {
		vocabularies, times = []int{1, 2, 37, 1000, 1026, 5003, 49152, 128256, 151669}, 100
	}
	for _, vocab := range vocabularies {
		for _, kind := range slices.Sorted(maps.Keys(rowsOf)) {
			t.Run(fmt.Sprintf("%s of %d", kind, vocab), func(t *testing.T) { drawRows(t, d, kind, vocab, times) })
		}
	}
}

// drawRows draws from as many rows of a kind as there are samplings.
func drawRows(t *testing.T, d *kernels.Device, kind string, vocab, rows int) {
	r := rand.New(rand.NewPCG(uint64(vocab), uint64(len(kind))))
	a, err := d.NewArena("rows", 4*rows*(vocab+1+kernels.DrawWords)+1024)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	logits, words, samplers := make([]float32, rows*vocab), []int32(nil), make([]*Sampler, rows)
	for i := range logits {
		logits[i] = float32(2 * r.NormFloat64())
	}
	one := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	for i := range samplers {
		rowsOf[kind](r, logits[i*vocab:][:vocab])
		s := Sampling{Temperature: one(0.7, 0.7, 1, 3, 0.01, 1e-44, 0), TopP: one(0, 0.95, 0.95, 0.5, 0.01, 0.999, 1),
			TopK: int(one(0, 0, 1, 5, 40, float64(vocab-1))), MinP: one(0, 0, 0.05, 1, 1e-9), Seed: r.Uint64()}
		if samplers[i], err = NewSampler(s, nil); err != nil {
			t.Fatal(err)
		}
		how, _ := samplers[i].device()
		words = how.Append(words)
	}
	ids, x, draws := a.New("ids", tensor.I32, rows), a.New("logits", tensor.F32, rows, vocab),
		a.New("draws", tensor.I32, rows, kernels.DrawWords)
	d.Upload(x, logits)
	d.UploadI32(draws, words)
	d.Draw(ids, x, draws)
	got, left := make([]byte, 4*rows), 0
	if err := d.DownloadBytes(got, ids); err != nil {
		t.Fatal(err)
	}
	for i, s := range samplers {
		id := int32(binary.NativeEndian.Uint32(got[4*i:]))
		want, err := s.Next(logits[i*vocab:][:vocab])
		switch {
		case id == -1 && err == nil:
			left++
		case id == -1:
		case err != nil || id != want:
			t.Errorf("row %d, %+v: the device draws %d, the sampler %d, %v", i, s.Sampling, id, want, err)
		}
	}
	t.Logf("%d of %d choices are left to the sampler", left, rows)
	if crowded := kind == "equal" || kind == "ties"; left > rows/50 && !crowded {
		t.Errorf("%d of %d choices are left to the sampler", left, rows)
	}
}
