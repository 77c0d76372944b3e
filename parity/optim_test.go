package parity

import (
	"encoding/binary"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

const ownOptim = "../optim/testdata"

// TestOwnRecordings_Optim checks the repository's own recordings: PyTorch's AdamW and bitsandbytes' maps.
func TestOwnRecordings_Optim(t *testing.T) {
	r := must(t, Options{}, ownOptim)
	if r.Counts.Compared != 15 || r.Counts.Unsupported != 0 || r.Partial {
		t.Errorf("%+v", r.Counts)
	}
}

// rewrite edits the tensors of a safetensors file, each as its bytes; nil removes a tensor.
func rewrite(t *testing.T, path string, metadata func(map[string]string), edit func(name string, data []byte) []byte) {
	t.Helper()
	st, err := hf.OpenSafetensors(path)
	expect.OK(t, err)
	var list []hf.TensorData
	for _, name := range st.Names() {
		info, _ := st.Tensor(name)
		dtype, err := tensor.ParseDType(info.DType)
		expect.OK(t, err)
		data := make([]byte, info.Bytes)
		expect.OK(t, st.ReadAt(name, data, 0))
		if data = edit(name, data); data != nil {
			write := func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			}
			list = append(list, hf.TensorData{Name: name, DType: dtype, Shape: info.Shape, Write: write})
		}
	}
	if metadata != nil {
		metadata(st.Metadata)
	}
	st.Close()
	expect.OK(t, hf.WriteSafetensors(path, st.Metadata, list))
}

// change changes the first number by more than any limit.
func change(data []byte, codes bool) []byte {
	if codes {
		data[0] += 2
		return data
	}
	f := math.Float32frombits(binary.LittleEndian.Uint32(data))
	binary.LittleEndian.PutUint32(data, math.Float32bits(1.5*f+1))
	return data
}

// TestEveryOptimFigureCounts changes each value of our own recording that counts as compared, and some of each kind of
// bitsandbytes', and checks that each change fails.
func TestEveryOptimFigureCounts(t *testing.T) {
	try := func(dir, file, figure string) {
		to := copied(t, dir)
		rewrite(t, filepath.Join(to, file), nil, func(name string, data []byte) []byte {
			if name == figure {
				return change(data, strings.Contains(name, ".state") && !strings.HasPrefix(name, "n4095") ||
					strings.HasSuffix(name, ".codes"))
			}
			return data
		})
		r, _ := compareFolder(t, to)
		if !slices.ContainsFunc(failed(r), func(at string) bool { return strings.Contains(at, figure) }) {
			t.Errorf("%s was changed, and what fails is %q", figure, failed(r))
		}
	}
	_, f := compareFolder(t, ownOptim)
	for _, name := range f.with(compared) {
		file, figure, _ := strings.Cut(name, " ")
		try(ownOptim, file, figure)
	}
	if testing.Short() {
		return
	}
	for _, figure := range []string{
		"blockwise.signed.bf16.codes", "blockwise.unsigned.fp32.absmax", "n8977.step2.state1", "n8977.bf16.step10.state2",
		"n4096.step50.absmax1", "n4096.bf16.step10.absmax2", "n4095.step10.state1", "n4096/fp32/0.001/0.step2.p",
		"n8977/bf16/2e-05/0.01.step50.p", "nonfinite.step2.state1", "nonfinite.step3.absmax2", "nonfinite.step3.p",
	} {
		try(expect.Reference(t, "golden", "optim"), "bnb_adamw8bit.safetensors", figure)
	}
}

// TestOptimMistakes checks that each of these mistakes, made on purpose, exceeds a limit.
func TestOptimMistakes(t *testing.T) {
	dir := expect.Reference(t, "golden", "optim")
	for name, edit := range map[string]func(*optim.Config){
		"our own update":  func(c *optim.Config) { c.BNB = false },
		"another β₁":      func(c *optim.Config) { c.Beta1 = 0.901 },
		"another β₂":      func(c *optim.Config) { c.Beta2 = 0.99901 },
		"moments in F32":  func(c *optim.Config) { c.Bits = 32 },
		"a hundredth eps": func(c *optim.Config) { c.Eps = 1e-6 },
	} {
		_, f := compareFolder(t, ownOptim) // a directory with a device
		d, err := kernels.Open("cpu", kernels.Options{})
		expect.OK(t, err)
		f = &folder{dir: dir, o: f.o, d: d, report: &Report{}}
		x, err := f.tensors("bnb_adamw8bit.safetensors")
		expect.OK(t, err)
		o, err := newOptimFile(x)
		expect.OK(t, err)
		edit(&o.config)
		expect.OK(t, o.run("n4096/fp32/0.001/0.01", o.compareState))
		if f.report.Failed == 0 {
			t.Errorf("%s does not show", name)
		}
		x.st.Close()
	}
}

// TestOptimIncomplete removes and corrupts things that a recording has.
func TestOptimIncomplete(t *testing.T) {
	without := func(what string) func(name string, data []byte) []byte {
		return func(name string, data []byte) []byte {
			if name == what {
				return nil
			}
			return data
		}
	}
	meta := func(key, value string) func(map[string]string) { return func(m map[string]string) { m[key] = value } }
	for _, c := range []struct {
		without  string
		metadata func(map[string]string)
		want     string
	}{
		{without: "n600.p0", want: "missing adamw.safetensors n600.p0"},
		{without: "n600.grads", want: "n600.grads"},
		{without: "torch/n600.step2.exp_avg", want: "missing adamw.safetensors torch/n600.step2.exp_avg"},
		{without: "torch/n600/fp32/0.001/0.01.step10.p", want: "torch/n600/fp32/0.001/0.01.step10.p"},
		{without: "qmap.unsigned", want: "missing adamw.safetensors qmap.unsigned"},
		{without: "blockwise.signed.fp32.x", want: "blockwise.signed.fp32.* are not of one size"},
		{metadata: meta("betas", "0.9"), want: `betas "" is no number`},
		{metadata: meta("eps", "-1"), want: "eps -1: must be positive"},
		{metadata: meta("block", "2048"), want: `blocks of "2048" elements`},
		{metadata: meta("snapshots", "1,99999999999"), want: "n600.grads are not of 99999999999 steps"},
		{metadata: meta("device", "cuda"), want: "missing adamw.safetensors n600/fp32/0.001/0.01.step1.p"},
		{metadata: func(m map[string]string) { m["device"], m["runs"] = "cuda", "strange" },
			want: `run "strange" is not CASE/DTYPE/LR/DECAY`},
		{metadata: func(m map[string]string) { m["device"], m["runs"] = "cuda", "n600/fp32/fast/0" }, want: `parsing "fast"`},
	} {
		to := copied(t, ownOptim)
		rewrite(t, filepath.Join(to, "adamw.safetensors"), c.metadata, without(c.without))
		r, _ := compareFolder(t, to)
		if !slices.ContainsFunc(failed(r), func(at string) bool { return strings.Contains(at, c.want) }) {
			t.Errorf("it fails with %q, want %q among them", failed(r), c.want)
		}
	}
}

// TestReferenceNoExplosion checks the gradients with which bitsandbytes makes updates of 300 to 2.6 million lr.
func TestReferenceNoExplosion(t *testing.T) {
	st, err := hf.OpenSafetensors(filepath.Join(expect.Reference(t, "golden", "optim"), "bnb_adamw8bit.safetensors"))
	expect.OK(t, err)
	defer st.Close()
	grads, _, err := st.ReadF32("n8977.grads")
	expect.OK(t, err)
	const n, lr = 8977, 1e-3
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	for _, bnb := range []bool{false, true} {
		a, err := d.NewArena("test", 8*n+1024)
		expect.OK(t, err)
		p := model.Param{Name: "p", W: a.New("w", tensor.F32, n, 1), Grad: a.New("g", tensor.F32, n, 1)}
		c := optim.Default
		if bnb {
			c.BNB, c.Master = true, optim.NoMaster
		}
		o, err := optim.New(d, []model.Param{p}, c)
		expect.OK(t, err)
		worst := map[int]float64{}
		before := make([]float32, n)
		for at := 0; at < len(grads); at += n {
			d.Upload(p.Grad, grads[at:at+n])
			if _, err := o.Step(lr, 0); err != nil {
				t.Fatal(err)
			}
			after, err := d.Floats(p.W)
			expect.OK(t, err)
			for i, w := range after {
				b := i / kernels.QuantBlockSize
				worst[b] = max(worst[b], math.Abs(float64(w)-float64(before[i]))/lr)
			}
			before = after
		}
		for b, moved := range worst {
			if wild := slices.Contains(wild, b); !bnb && moved > 5 || bnb && wild && moved < 100 {
				t.Errorf("bitsandbytes %v: block %d moved by %v lr", bnb, b, moved)
			}
		}
		t.Logf("bitsandbytes %v: blocks 2, 4 and 9 move by up to %.3g, %.3g and %.3g lr", bnb, worst[2], worst[4], worst[9])
		o.Close()
		a.Close()
	}
}

// FuzzOptimMetadata checks that a comparison with any metadata of a recording ends without a panic.
func FuzzOptimMetadata(f *testing.F) {
	f.Add("cpu", "0.9,0.999", "1e-08", "1,2,10", "n600/fp32/0.001/0.01", "256")
	f.Add("cuda", "0.9,0.999", "1e-08", "1,2,10", "n600/fp32/0.001/0.01,n600/bf16/1/0", "256")
	f.Add("cuda", "nan,1", "-1", "-1,1e300", "n600/f/nan/inf,//", "0")
	f.Fuzz(func(t *testing.T, device, betas, eps, snapshots, runs, block string) {
		to := copied(t, ownOptim)
		rewrite(t, filepath.Join(to, "adamw.safetensors"), func(m map[string]string) {
			m["device"], m["betas"], m["eps"], m["snapshots"], m["runs"], m["block"] = device, betas, eps, snapshots, runs, block
		}, func(_ string, data []byte) []byte { return data })
		if r, _ := compareFolder(t, to); len(r.Rows) == 0 {
			t.Error("nothing was compared and nothing failed")
		}
	})
}
