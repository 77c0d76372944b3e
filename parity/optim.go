package parity

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/quant"
	"restyle/tensor"
)

// An optimFile is a recording of optimizers on tensors without a model: bitsandbytes' AdamW8bit and, in the CPU's file,
// PyTorch's AdamW. Cases are gradients of many steps. Runs are cases with a type, a learning rate and a weight decay.
type optimFile struct {
	*tensors
	// cuda reports that bitsandbytes' CUDA kernels made the recording, which Config.BNB follows. On a CPU, bitsandbytes
	// uses another algorithm, and we have nothing to compare with it.
	cuda      bool
	snapshots []int
	config    optim.Config
	runs      []string
}

// isOptim reports whether a directory has bitsandbytes' dynamic maps.
func isOptim(f *folder) bool {
	return slices.ContainsFunc(f.files, func(file string) bool {
		if filepath.Ext(file) != ".safetensors" {
			return false
		}
		st, err := hf.OpenSafetensors(f.path(file))
		if err != nil {
			return false
		}
		defer st.Close()
		_, signed := st.Tensor("qmap.signed")
		return signed
	})
}

func compareOptim(f *folder) error {
	for _, file := range f.files {
		if filepath.Ext(file) != ".safetensors" {
			continue // a log of the recording, for people
		}
		t, err := f.tensors(file)
		if err != nil {
			return err
		}
		err = t.compareOptimiser()
		if err = errors.Join(err, t.err, t.st.Close()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (t *tensors) compareOptimiser() error {
	if !t.f.d.IsCPU() { // as long as a GPU has no AdamW
		t.f.strikeAll(t.file+" ", unsupported)
		return nil
	}
	o, err := newOptimFile(t)
	if err != nil {
		return err
	}
	t.f.run = "cuda"
	if !o.cuda {
		t.f.run = "cpu"
	}
	o.maps()
	for _, kind := range []string{"signed", "unsigned"} {
		for _, dtype := range []string{"fp32", "bf16"} {
			if err := o.blockwise(kind, dtype); err != nil {
				return err
			}
		}
	}
	if !o.cuda {
		err := o.torch()
		t.f.strikeAll(t.file+" ", unsupported)
		return err
	}
	for _, run := range o.runs {
		if err := o.run(run, o.compareState); err != nil {
			return err
		}
	}
	if o.has("nonfinite.grads") {
		return o.steps("nonfinite", "fp32", 1e-3, 0.01, []int{1, 2, 3}, o.compareState)
	}
	return nil
}

func newOptimFile(t *tensors) (*optimFile, error) {
	meta := t.st.Metadata
	o := &optimFile{tensors: t, cuda: meta["device"] == "cuda", config: optim.Config{Bits: 8, Master: optim.NoMaster,
		BNB: true}}
	var err error
	number := func(name, text string) float64 {
		v, e := strconv.ParseFloat(text, 64)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("metadata: %s %q is no number", name, text))
		}
		return v
	}
	b1, b2, _ := strings.Cut(meta["betas"], ",")
	o.config.Beta1, o.config.Beta2, o.config.Eps = number("betas", b1), number("betas", b2), number("eps", meta["eps"])
	for s := range strings.SplitSeq(meta["snapshots"], ",") {
		o.snapshots = append(o.snapshots, int(number("snapshots", s)))
	}
	o.runs = strings.Split(meta["runs"], ",")
	if block := meta["block"]; block != strconv.Itoa(kernels.QuantBlockSize) {
		err = errors.Join(err, fmt.Errorf("metadata: blocks of %q elements: there are those of %d", block,
			kernels.QuantBlockSize))
	}
	return o, err
}

// maps compares the numbers that the codes represent.
func (o *optimFile) maps() {
	for name, signed := range map[string]bool{"qmap.signed": true, "qmap.unsigned": false} {
		o.f.compare("maps", o.key(name), farthest(quant.DynamicMap(signed), o.floats(name)), exact)
	}
}

// blockwise compares encoding and decoding, without an optimizer.
func (o *optimFile) blockwise(kind, dtype string) error {
	under := func(name string) string { return "blockwise." + kind + "." + dtype + "." + name }
	x, back := o.floats(under("x")), o.floats(under("back"))
	absmax, codes := o.floats(under("absmax")), o.bytes(under("codes"))
	n := len(codes)
	if n == 0 || len(x) != n || len(back) != n || len(absmax) != kernels.QuantBlocks(n) {
		return fmt.Errorf("%s* are not of one size", under(""))
	}
	o.f.strike(o.key(under("x")), input)
	d := o.f.d
	a, err := d.NewArena("blocks", 16*n+4096)
	if err != nil {
		return err
	}
	defer a.Close()
	values, coded, scale := a.New("x", tensor.F32, n), a.New("codes", tensor.U8, n),
		a.New("absmax", tensor.F32, len(absmax))
	d.UploadBytes(coded, codes)
	d.Upload(scale, absmax)
	d.Dequantize(values, coded, scale, kind == "signed")
	ours, err := d.Floats(values)
	if err != nil {
		return err
	}
	if dtype == "bf16" {
		for i, v := range ours {
			ours[i] = tensor.RoundBF16(v)
		}
	}
	o.f.compare("blocks decoded", o.key(under("back")), farthest(ours, back), exact)
	if !o.cuda { // another quantizer, whose codes cannot be compared
		o.f.strike(o.key(under("codes")), input)
		o.f.strike(o.key(under("absmax")), input)
		return nil
	}
	d.Upload(values, x)
	d.Quantize(coded, scale, values, kind == "signed")
	o.compareCodes("blocks' codes", under("codes"), coded)
	o.compareUlps("blocks' scales", under("absmax"), scale)
	return nil
}

// run runs a case as specified by a name such as "n4096/bf16/2e-05/0.01".
func (o *optimFile) run(run string, compare func(snapshot) error) error {
	part := strings.Split(run, "/")
	if len(part) != 4 {
		return fmt.Errorf("metadata: run %q is not CASE/DTYPE/LR/DECAY", run)
	}
	rate, err1 := strconv.ParseFloat(part[2], 64)
	decay, err2 := strconv.ParseFloat(part[3], 64)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("metadata: run %q: %w", run, err)
	}
	return o.steps(part[0], part[1], rate, decay, o.snapshots, func(s snapshot) error {
		s.weights = run
		return compare(s)
	})
}

// A snapshot is what is compared after a step.
type snapshot struct {
	name, dtype string // of the case
	weights     string // name under which the weights are recorded
	step        int
	start       []float32
	w           tensor.Tensor
	state       map[string]tensor.Tensor // by the suffix of its name in Optimiser.State
}

// steps runs a case and calls compare with the snapshots.
func (o *optimFile) steps(name, dtype string, rate, decay float64, snapshots []int,
	compare func(snapshot) error) error {
	start := o.floats(name + ".p0")
	grads, _, err := o.st.ReadF32(name + ".grads")
	n := len(start)
	if err != nil {
		return err
	}
	if n == 0 || len(grads)%n != 0 || len(grads)/n < slices.Max(snapshots) {
		return fmt.Errorf("%s.grads are not of %d steps of %d elements", name, slices.Max(snapshots), n)
	}
	o.f.strike(o.key(name+".p0"), input)
	o.f.strike(o.key(name+".grads"), input)
	d, typ := o.f.d, tensor.F32
	if dtype == "bf16" {
		typ = tensor.BF16
	}
	a, err := d.NewArena("weights", 8*n+4096)
	if err != nil {
		return err
	}
	defer a.Close()
	p := model.Param{Name: name, W: a.New(name, typ, n), Grad: a.New("grad "+name, tensor.F32, n), Decay: true}
	d.Upload(p.W, start)
	c := o.config
	c.Decay = decay
	opt, err := optim.New(d, []model.Param{p}, c)
	if err != nil {
		return err
	}
	defer opt.Close()
	s := snapshot{name: name, dtype: dtype, weights: name, w: p.W, state: map[string]tensor.Tensor{}}
	if s.start, err = d.Floats(p.W); err != nil {
		return err
	}
	for _, x := range opt.State() {
		s.state[strings.TrimPrefix(x.Name, name)] = x
	}
	for s.step = 1; s.step <= slices.Max(snapshots); s.step++ {
		d.Upload(p.Grad, grads[(s.step-1)*n:][:n])
		opt.Update(rate)
		if slices.Contains(snapshots, s.step) {
			if err := compare(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareState compares weights and state with bitsandbytes'.
func (o *optimFile) compareState(s snapshot) error {
	step := fmt.Sprintf(".step%d.", s.step)
	if err := o.compareWeights(s, s.weights+step+"p", limitWayBNB); err != nil {
		return err
	}
	for _, x := range []struct{ ours, theirs string }{{".m", "state1"}, {".v", "state2"}, {".m_absmax", "absmax1"},
		{".v_absmax", "absmax2"}} {
		ours, ok := s.state[x.ours]
		if !ok {
			continue
		}
		// If the state of BF16 weights is the same as for float32, it is recorded only once.
		name := s.name + "." + s.dtype + step + x.theirs
		if !o.has(name) {
			name = s.name + step + x.theirs
		}
		if ours.DType == tensor.U8 {
			o.compareCodes("codes of moments", name, ours)
		} else {
			o.compareUlps("moments and scales", name, ours)
		}
	}
	return nil
}

// wild are the quantization blocks of a case in which an ulp in the code of v decides whether an update explodes.
var wild = []int{2, 4, 9}

// compareWeights compares how far weights moved and, in BF16, how many of them differ.
func (o *optimFile) compareWeights(s snapshot, name string, limit float64) error {
	got, err := o.f.d.Floats(s.w)
	if err != nil {
		return err
	}
	want := o.floats(name)
	if len(want) != len(got) {
		o.f.fail("weights", o.key(name), "they are not of the size of the first")
		return nil
	}
	codes := s.state[".m"].DType == tensor.U8
	var start, tame, truth []float32
	other := 0
	for i := range got {
		if !codes || !slices.Contains(wild, i/kernels.QuantBlockSize) {
			start, tame, truth = append(start, s.start[i]), append(tame, got[i]), append(truth, want[i])
			if got[i] != want[i] {
				other++
			}
		}
	}
	if s.dtype == "bf16" {
		limit = limitWayBNBBF16
		o.f.compare("share of other weights", o.key(name), float64(other)/float64(len(tame)), limitOther)
	}
	o.f.compare("way of the weights", o.key(name), over(apart(tame, truth), apart(truth, start)), limit)
	return nil
}

// torch compares PyTorch's own AdamW in float32.
func (o *optimFile) torch() error {
	ours := *o
	ours.config.Bits, ours.config.BNB = 32, false
	for _, run := range o.runs {
		if !o.has("torch/" + run + ".step1.p") {
			continue
		}
		err := ours.run(run, func(s snapshot) error {
			step := fmt.Sprintf(".step%d.", s.step)
			for x, theirs := range map[string]string{".m": "exp_avg", ".v": "exp_avg_sq"} {
				name := "torch/" + s.name + step + theirs
				got, err := o.f.d.Floats(s.state[x])
				if err != nil {
					return err
				}
				o.f.compare("moments of PyTorch", o.key(name), byNorm(got, o.floats(name)), limitOutput)
			}
			return o.compareWeights(s, "torch/"+run+step+"p", limitWayBNB)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bytes returns a tensor of codes.
func (o *optimFile) bytes(name string) []byte {
	list, _ := o.ints(name)
	codes := make([]byte, len(list))
	for i, v := range list {
		codes[i] = byte(v)
	}
	return codes
}

// compareCodes compares the fraction of codes that differ. No code may be off by more than one.
func (o *optimFile) compareCodes(figure, name string, ours tensor.Tensor) {
	want := o.bytes(name)
	got := make([]byte, ours.Len())
	if err := o.f.d.DownloadBytes(got, ours); err != nil || len(got) != len(want) {
		o.f.fail(figure, o.key(name), fmt.Sprintf("%d codes are not %d, %v", len(want), len(got), err))
		return
	}
	other := 0.0
	for i, c := range got {
		switch apart := int(c) - int(want[i]); apart {
		case 0:
		case 1, -1:
			other++
		default:
			other = math.Inf(1)
		}
	}
	o.f.compare(figure, o.key(name), other/float64(len(got)), limitCodes)
}

// compareUlps compares the largest distance of float32 values in units in the last place.
func (o *optimFile) compareUlps(figure, name string, ours tensor.Tensor) {
	want := o.floats(name)
	got, err := o.f.d.Floats(ours)
	if err != nil || len(got) != len(want) {
		o.f.fail(figure, o.key(name), fmt.Sprintf("%d numbers are not %d, %v", len(want), len(got), err))
		return
	}
	// As integers, magnitudes are in order; negative numbers' magnitudes count down.
	order := func(x float32) int64 {
		i := int64(int32(math.Float32bits(x)))
		if i < 0 {
			i = -(i & 0x7FFFFFFF)
		}
		return i
	}
	var worst int64
	for i, x := range got {
		worst = max(worst, order(x)-order(want[i]), order(want[i])-order(x))
	}
	o.f.compare(figure, o.key(name), float64(worst), limitUlps)
}
