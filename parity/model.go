package parity

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// longestRecorded is more than the positions in any recorded row of a small model.
const longestRecorded = 128

var modelFiles = []string{
	"golden.json", "golden.safetensors", "packing.safetensors", "accumulation.safetensors", "training.safetensors",
	"greedy.json", "greedy_beyond.json", "greedy_cached.json", "rope.safetensors",
	"vocab.json", "prompts.json", // the last lists the prompts for greedy.json
	"config.json", "generation_config.json", "model.safetensors", "model-*-of-*.safetensors",
	"model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
}

func isModel(f *folder) bool { return f.hasFile("golden.safetensors") && f.hasFile("config.json") }

// A modelFolder is a small model and the recorded results of that model.
type modelFolder struct {
	*folder
	g  *tensors // golden.safetensors
	j  *values  // golden.json
	ck *hf.Checkpoint
	c  model.Config
}

func compareModel(f *folder) (err error) {
	m := modelFolder{folder: f}
	if m.g, err = f.tensors("golden.safetensors"); err != nil {
		return err
	}
	defer m.g.st.Close()
	if m.j, err = f.values("golden.json"); err != nil {
		return err
	}
	if m.ck, err = hf.OpenModel(f.dir); err != nil {
		if m.j.hasAny("rope.") && otherFamily(err) {
			f.strikeAll("", unsupported)
			return nil
		}
		return err
	}
	defer m.ck.Close()
	m.c = f.config(m.ck.Config)
	if s := m.c.RoPEScaling; !m.c.LearnedPositions && (s == nil || s.Kind != model.RoPEDynamic) {
		// Frequencies do not depend on it, and transformers continues beyond it.
		m.c.MaxPositions = max(m.c.MaxPositions, longestRecorded)
	}
	m.configuration()
	parts := []struct {
		file    string
		compare func() error
	}{
		{"packing.safetensors", m.packing},
		{"accumulation.safetensors", m.accumulation},
		{"training.safetensors", m.training},
		{"greedy.json", m.greedy},
		{"greedy_beyond.json", m.greedyBeyond},
		{"rope.safetensors", m.rope},
	}
	for _, fused := range f.o.Fused {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		f.d.SetFused(fused)
		f.computedIn(tensor.F32, fused)
		own, err := m.forward(tensor.F32, nil)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if section, _, _ := strings.Cut(p.file, "."); f.hasFile(p.file) || m.j.hasAny(section+".") {
				if err := p.compare(); err != nil {
					return fmt.Errorf("%s: %w", p.file, err)
				}
			}
		}
		f.computedIn(tensor.BF16, fused)
		if _, err := m.forward(tensor.BF16, own); err != nil {
			return err
		}
		if f.hasFile("greedy.json") {
			if err := m.greedyBF16(); err != nil {
				return err
			}
		}
	}
	return m.g.err
}

// computedIn sets how the following rows are computed: the type, and the fused operations.
func (f *folder) computedIn(t tensor.DType, fused kernels.Fused) {
	name := fused.String()
	switch name {
	case "none":
		name = "unfused"
	case "all":
		name = "fused"
	}
	f.run = map[tensor.DType]string{tensor.F32: "fp32", tensor.BF16: "bf16", tensor.F16: "fp16"}[t] + ", " + name
}

func (f *folder) config(c model.Config) model.Config {
	if f.o.mistake.config != nil {
		f.o.mistake.config(&c)
	}
	return c
}

// open loads the model.
func (m *modelFolder) open(o model.Options) (*model.Model, error) {
	l, err := model.New(m.d, m.c, o)
	if err != nil {
		return nil, err
	}
	base := slices.DeleteFunc(slices.Clone(l.Params()), func(p model.Param) bool { return p.Adapter })
	if err := m.ck.Load(context.Background(), m.d, base, nil); err != nil {
		l.Close()
		return nil, err
	}
	if m.o.mistake.weights != nil {
		m.o.mistake.weights(m.d, l)
	}
	return l, nil
}

// configuration compares what follows from only config.json.
func (m *modelFolder) configuration() {
	for _, note := range []string{"about", "variant", "seed"} {
		m.j.strike(note, input)
	}
	m.j.strikeAll("libraries.", input)
	m.j.strikeAll("trained.", input)
	if !m.c.LearnedPositions {
		m.compare("inv_freq", m.g.key("rope.inv_freq"),
			relatives(m.c.InvFreq(m.longestRow()), float64s(m.g.floats("rope.inv_freq"))), limitInvFreq)
	}
	m.ropeNotes()
	for _, at := range []string{"rope_branches.", "rope.branches."} {
		if m.j.hasAny(at) {
			m.branches(at)
		}
	}
}

// branches compares how many frequencies are kept, divided and blended.
func (m *modelFolder) branches(at string) {
	plain := m.c
	plain.RoPEScaling = nil
	counts := map[string]int{}
	for i, f := range m.c.InvFreq(1) {
		switch ratio := plain.InvFreq(1)[i] / f; {
		case ratio == 1:
			counts["kept"]++
		case m.c.RoPEScaling != nil && relative(ratio, m.c.RoPEScaling.Factor) < 1e-12:
			counts["divided"]++
		default:
			counts["blended"]++
		}
	}
	for _, branch := range []string{"kept", "blended", "divided"} {
		m.j.compare("RoPE branches", at+branch, float64(counts[branch]), exact)
	}
}

// A pass is what a model computes from one batch.
type pass struct {
	loss   model.Loss
	hidden map[string][]float32
	logits []float32
	grads  map[string][]float32

	routing map[int]routing // by layer
}

// compute runs a batch forward and backward, and then again for its logits.
func (f *folder) compute(l *model.Model, b model.Batch) (*pass, error) {
	p := &pass{hidden: map[string][]float32{}}
	l.OnHidden = func(name string, h tensor.Tensor) { p.hidden[name], _ = f.d.Floats(h) } // the device keeps any error
	f.watchRouting(l, p)
	losses, err := f.gradient(l, []model.Batch{b})
	if err != nil {
		return nil, err
	}
	p.loss = losses[0]
	l.OnHidden, l.OnRouting = nil, nil
	if p.grads, err = f.gradients(l); err != nil {
		return nil, err
	}
	err = l.Logits(f.batch(b), func(_ int, logits []float32) { p.logits = append(p.logits, logits...) })
	return p, err
}

// stored returns a parameter's values, or its gradient's, in the order in which files store them.
func stored(p model.Param, x []float32) []float32 {
	if !p.Transposed {
		return x
	}
	rows, cols := p.W.Dim(0), p.W.Dim(1)
	out := make([]float32, len(x))
	for i, v := range x {
		out[i%cols*rows+i/cols] = v
	}
	return out
}

// gradients returns all gradients of a model by name.
func (f *folder) gradients(l *model.Model) (map[string][]float32, error) {
	grads := map[string][]float32{}
	for _, p := range l.Params() {
		if !p.Trainable() {
			continue
		}
		g, err := f.d.Floats(p.Grad)
		if err != nil {
			return nil, err
		}
		grads[p.Name] = stored(p, g)
	}
	return grads, nil
}

// normOfAll returns the norm of all gradients as one vector, which is the norm of their norms.
func normOfAll(grads map[string][]float32) float64 {
	var norms []float64
	for _, g := range grads {
		norms = append(norms, norm(g))
	}
	slices.Sort(norms)
	return norm(norms)
}

// forward compares one forward and backward pass. In BF16, own is the same pass in float32, after its own comparison
// has passed: it replaces gradients that are not stored.
func (m *modelFolder) forward(t tensor.DType, own *pass) (*pass, error) {
	rows := m.g.rows("")
	if m.g.err != nil || len(rows) == 0 {
		return nil, m.g.err
	}
	b := model.Join(rows...)
	p, err := m.pass(model.Options{DType: t, MaxTokens: len(b.IDs), Train: true}, b, m.open)
	if err != nil {
		return nil, err
	}
	m.routing(p, t)
	if t == tensor.BF16 {
		m.forwardBF16(p, own)
		return p, nil
	}
	m.forwardF32(p, b)
	return p, m.auxiliary(b)
}

// pass computes a batch with a model, and compares the bits that come out with each --recompute.
func (m *modelFolder) pass(o model.Options, b model.Batch,
	open func(model.Options) (*model.Model, error)) (first *pass, err error) {
	for _, o.Recompute = range []model.Recompute{model.RecomputeNone, model.RecomputeAttention, model.RecomputeLayer} {
		l, err := open(o)
		if err != nil {
			return nil, err
		}
		p, err := m.compute(l, b)
		if closed := l.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = p
			continue
		}
		m.property("bits with --recompute", string(o.Recompute), float64(first.bitsApart(p)), exact)
	}
	return first, nil
}

// bitsApart counts the tensors in which the bits of two passes differ.
func (p *pass) bitsApart(q *pass) int {
	n := 0
	count := func(a, b []float32) {
		if !slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }) {
			n++
		}
	}
	count(p.loss.Tokens, q.loss.Tokens)
	count(p.logits, q.logits)
	for name := range p.grads {
		count(p.grads[name], q.grads[name])
	}
	return n
}

// output compares logits and losses in float32.
func (m *modelFolder) output(p *pass, b model.Batch) {
	g, j := m.g, m.j
	m.compare("logits", g.key("logits"), byNorm(p.logits, m.live("logits")), limitOutput)
	m.compare("loss", g.key("loss"), byNorm([]float64{p.loss.Mean()}, g.floats("loss")), limitOutput)
	m.compare("token_loss", g.key("token_loss"), byNorm(spread(p.loss, b), m.live("token_loss")), limitOutput)
	j.compareBoth("loss", "forward.loss", p.loss.Mean(), limitOutput)
	j.compare("trained tokens", "forward.trained_tokens", float64(p.loss.Targets), exact)
	j.compareBoth("logits, norm", "forward.logits_norm", norm(p.logits), limitOutput)
	j.strike("forward.logits_error", yardstick)
}

func (m *modelFolder) forwardF32(p *pass, b model.Batch) {
	g, j := m.g, m.j
	m.output(p, b)
	m.compare("logits, each / rms", g.key("logits"), byRMS(p.logits, m.live("logits")), limitEach)
	names := []string{"embed"}
	for i := range m.c.Layers {
		names = append(names, fmt.Sprintf("block.%d", i))
	}
	for _, name := range append(names, "norm") {
		truth := m.live("hidden." + name)
		m.compare("hidden states", g.key("hidden."+name), byNorm(p.hidden[name], truth), limitOutput)
		m.compare("hidden states, each / rms", g.key("hidden."+name), byRMS(p.hidden[name], truth), limitEach)
	}

	whole := normOfAll(p.grads)
	j.compareBoth("gradient norm", "forward.grad_norm", whole, limitOutput)
	if j.hasAny("forward.grad_norm_of_each_float64.") { // instead of the gradients
		for _, spec := range m.c.Params() {
			j.compare("gradient norm", "forward.grad_norm_of_each_float64."+spec.Name, norm(p.grads[spec.Name]), limitOutput)
		}
		return
	}
	m.compare("gradient norm", g.key("grad_norm"), byNorm([]float64{whole}, g.floats("grad_norm")), limitOutput)
	m.compareGradients(g, "", p.grads)
	j.strikeAll("forward.grad_error.", yardstick)
}

// compareGradients compares all gradients with a file's.
func (m *modelFolder) compareGradients(t *tensors, prefix string, grads map[string][]float32) {
	whole := normOfAll(grads)
	for _, spec := range m.c.Params() {
		name := prefix + "grad." + spec.Name
		m.compare(prefix+"gradient", t.key(name), besideWhole(grads[spec.Name], t.floats(name), whole), limitOutput)
	}
}

// routed reports whether a parameter's gradient may come from a single token, so that the rounding of one router logit
// decides how large PyTorch's own error is.
func routed(name string) bool {
	return strings.Contains(name, ".experts.") || strings.HasSuffix(name, "block_sparse_moe.gate.weight") ||
		strings.HasSuffix(name, ".mlp.gate.weight")
}

// outputBF16 compares logits and loss in BF16.
func (m *modelFolder) outputBF16(p *pass) {
	g, j := m.g, m.j
	limit := limitLossBF16
	if j.has("bfloat16.loss_error") { // both round the same weights, which by itself can move the loss further than that
		limit = max(limit, timesBF16*j.limit("bfloat16.loss_error"))
	}
	m.compare("loss", g.key("loss"), byNorm([]float64{p.loss.Mean()}, g.floats("loss")), limit)
	// either may be that far from the exact value
	j.compare("loss beside PyTorch's", "bfloat16.loss", p.loss.Mean(), 2*limitLossBF16)
	m.compare("logits", g.key("logits"), byNorm(p.logits, m.live("logits")), timesBF16*j.limit("bfloat16.logits_error"))
}

func (m *modelFolder) forwardBF16(p, own *pass) {
	g, j := m.g, m.j
	m.outputBF16(p)

	stored := !j.hasAny("forward.grad_norm_of_each_float64.")
	all, few := normOfAll(own.grads), 0.0 // few is the largest error of an expert's gradient
	for _, spec := range m.c.Params() {
		if routed(spec.Name) {
			few = max(few, j.limit("bfloat16.grad_error."+spec.Name))
		}
	}
	ours, theirs := 0.0, 0.0 // the squared errors of all gradients
	for _, spec := range m.c.Params() {
		grad, truth := p.grads[spec.Name], own.grads[spec.Name]
		if stored {
			truth = g.floats("grad." + spec.Name)
		}
		limit := j.limit("bfloat16.grad_error." + spec.Name)
		theirs += math.Pow(limit*norm(truth), 2)
		ours += math.Pow(apart(grad, truth), 2)
		switch {
		case routed(spec.Name):
			limit = max(timesBF16Small*limit, timesBF16*few)
		case len(grad) < smallTensor:
			limit *= timesBF16Small
		default:
			limit *= timesBF16
		}
		m.property("gradient", spec.Name, besideWhole(grad, truth, all), limit)
	}
	whole := math.Sqrt(theirs) / all
	if j.has("bfloat16.grad_error_whole") {
		whole = j.limit("bfloat16.grad_error_whole")
	}
	m.property("gradient, whole", "", math.Sqrt(ours)/all, timesBF16*whole)
	// A norm's error is at most the error of the vector. Our vector's error may be twice PyTorch's, so the two norms may
	// differ by three times PyTorch's error.
	j.compare("gradient norm beside PyTorch's", "bfloat16.grad_norm", normOfAll(p.grads), (timesBF16+1)*whole)
}

// live returns the rows of a tensor [B, T, …] that are not padding, in the order of the batch.
func (m *modelFolder) live(name string) []float32 {
	all := m.g.floats(name)
	mask, _ := m.g.ints("attention_mask")
	return livePart(all, mask)
}

func livePart(all []float32, mask []int64) []float32 {
	if len(mask) == 0 || len(all)%len(mask) != 0 {
		return nil
	}
	width := len(all) / len(mask)
	var list []float32
	for i, on := range mask {
		if on != 0 {
			list = append(list, all[i*width:][:width]...)
		}
	}
	return list
}

// spread puts the losses of the target tokens at the positions in the batch that predict them, and zeros elsewhere.
func spread(l model.Loss, b model.Batch) []float32 {
	out := make([]float32, len(b.IDs))
	n := 0
	for i := range len(b.CuSeqlens) - 1 {
		for t := b.CuSeqlens[i]; t+1 < b.CuSeqlens[i+1]; t++ {
			if b.Labels[t+1] != model.Ignore && n < len(l.Tokens) {
				out[t] = l.Tokens[n]
				n++
			}
		}
	}
	return out
}

func float64s(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
