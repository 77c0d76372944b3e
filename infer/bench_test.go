package infer

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// BenchmarkDecode generates tokens with two layers and the head of Llama-3.2-1B in bf16, after a prompt of 64 tokens.
// Every token reads all weights once, so memory bandwidth is the limit. The benchmark reports the bytes of weights,
// keys and values read per second, next to those of a copy on as many threads, measured in turns with it.
func BenchmarkDecode(b *testing.B) {
	const threads = 2
	dev, err := kernels.Open("cpu", kernels.Options{Threads: threads, Fused: kernels.All()})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	c := model.Config{
		Family: "llama", Vocab: 128256, Dim: 2048, Inner: 8192, Layers: 2, Heads: 32, KVHeads: 8, HeadDim: 64,
		MaxPositions: 4096, NormEps: 1e-5, RoPETheta: 500000, Tied: true, PadID: -1,
	}
	m, err := model.New(dev, c, model.Options{DType: tensor.BF16})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(1, 2))
	weights := 0
	for _, p := range m.Params() {
		values := make([]float32, p.W.Len())
		for i := range values {
			values[i] = (r.Float32() - 0.5) / 16
		}
		dev.Upload(p.W, values)
		weights += p.W.Bytes()
	}
	e, err := New(m, 2048, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	prompt := make([]int32, 64)
	g, err := e.Start(prompt, Options{IgnoreEnd: true})
	if err != nil {
		b.Fatal(err)
	}
	if !g.Next(b.Context()) { // reads the prompt
		b.Fatal(g.Err())
	}
	var decoding, copying time.Duration
	var read, copied float64
	from, to := make([]byte, 256<<20), make([]byte, 256<<20)
	for b.Loop() {
		start := time.Now()
		if !g.Next(b.Context()) {
			b.Fatal(g.Result(), g.Err())
		}
		decoding += time.Since(start)
		read += float64(weights + 2*2*c.Layers*len(e.cached)*c.KVHeads*c.HeadDim)
		start = time.Now()
		copyOn(threads, to, from)
		copying += time.Since(start)
		copied += float64(2 * len(to))
	}
	speed, bound := read/decoding.Seconds()/1e9, copied/copying.Seconds()/1e9
	b.ReportMetric(speed, "GB/s")
	b.ReportMetric(bound, "copy-GB/s")
	b.ReportMetric(100*speed/bound, "%ofcopy")
	b.ReportMetric(decoding.Seconds()*1e3/float64(b.N), "ms/token")
}

func copyOn(threads int, to, from []byte) {
	var wg sync.WaitGroup
	part := len(to) / threads
	for i := range threads {
		wg.Go(func() { copy(to[i*part:(i+1)*part], from[i*part:(i+1)*part]) })
	}
	wg.Wait()
}
