package parity

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/model"
	"restyle/tensor"
)

var loraFiles = []string{"lora.json", "lora.safetensors", "adapter_config.json", "adapter_model.safetensors",
	"config.json", "generation_config.json", "model.safetensors"}

func isLoRA(f *folder) bool { return f.hasFile("lora.safetensors") && f.hasFile("lora.json") }

// PEFT's names of parameters: this, the module, and the end of one of its two matrices.
const peftPrefix, endA, endB = "base_model.model.", ".lora_A.weight", ".lora_B.weight"

// A loraFolder is a small model, an adapter, and what PEFT computed from both.
type loraFolder struct {
	modelFolder
	a      *hf.Adapter
	temp   string                          // the directory of merged models
	merged map[tensor.DType]*hf.Checkpoint // the base with the adapter merged in
	base   []float32                       // logits of the base, of the present run
}

func compareLoRA(f *folder) (err error) {
	m := loraFolder{modelFolder: modelFolder{folder: f}, merged: map[tensor.DType]*hf.Checkpoint{}}
	if m.g, err = f.tensors("lora.safetensors"); err != nil {
		return err
	}
	defer m.g.st.Close()
	if m.j, err = f.values("lora.json"); err != nil {
		return err
	}
	if m.ck, err = hf.OpenModel(f.dir); err != nil {
		return err
	}
	defer m.ck.Close()
	if m.a, err = hf.OpenAdapter(f.dir); err != nil {
		return err
	}
	defer m.a.Close()
	m.c = f.config(m.ck.Config)
	if f.o.mistake.spec != nil {
		f.o.mistake.spec(&m.a.Spec)
	}
	rows := m.g.rows("")
	if m.g.err != nil || len(rows) == 0 {
		return m.g.err
	}
	b := model.Join(rows...)
	if err := errors.Join(m.configuration(), f.ctx.Err()); err != nil {
		return err
	}
	if m.temp, err = os.MkdirTemp("", "restyle-parity-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.merge(); err != nil {
		return err
	}
	for _, fused := range f.o.Fused {
		f.d.SetFused(fused)
		for _, compare := range []func(model.Batch) error{m.initial, m.forward, m.training, m.trained, m.forwardBF16} {
			f.computedIn(tensor.F32, fused)
			if err := errors.Join(f.ctx.Err(), compare(b)); err != nil {
				return err
			}
		}
	}
	return m.g.err
}

// close closes and removes the merged models.
func (m *loraFolder) close() error {
	var errs []error
	for _, ck := range m.merged {
		errs = append(errs, ck.Close())
	}
	return errors.Join(errors.Join(errs...), os.RemoveAll(m.temp))
}

// options returns the options of a model with adapters.
func (m *loraFolder) options(t tensor.DType, b model.Batch) model.Options {
	return model.Options{DType: t, MaxTokens: len(b.IDs), Trainable: m.a.Spec.Whole, Adapter: m.a.Spec.Of}
}

// own returns the parameters that an adapter brings: its matrices, and the parameters of modules_to_save.
func (m *loraFolder) own(l *model.Model) (list []model.Param) {
	for _, p := range l.Params() {
		if p.Adapter || m.a.Spec.Whole(p.Name) {
			list = append(list, p)
		}
	}
	return list
}

// put sets the adapter's parameters to the recorded ones with a prefix. If there is none, B is zero, and a module that
// is trained whole is as in the base.
func (m *loraFolder) put(l *model.Model, prefix string) error {
	for _, p := range m.own(l) {
		x := make([]float32, p.W.Len())
		if name := prefix + peftPrefix + p.Name; prefix != "init." || m.g.has(name) {
			if x = m.g.floats(name); m.g.has(name) {
				m.strike(m.g.key(name), input)
			}
		} else if !p.Adapter {
			continue
		}
		if len(x) != p.W.Len() {
			return fmt.Errorf("%s%s has %d numbers, and the model needs shape %v", prefix, p.Name, len(x), p.W.Shape)
		}
		if m.o.mistake.adapter != nil {
			x = m.o.mistake.adapter(p.Name, x)
		}
		if x != nil {
			m.d.Upload(p.W, x)
		}
	}
	return m.d.Err()
}

// openAt loads the base with the recorded adapter of a prefix.
func (m *loraFolder) openAt(prefix string) func(model.Options) (*model.Model, error) {
	return func(o model.Options) (*model.Model, error) {
		l, err := m.open(o)
		if err != nil {
			return nil, err
		}
		if err := m.put(l, prefix); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
}

// configuration compares what follows from only the configurations: the modules with adapters, their names, shapes and
// scales.
func (m *loraFolder) configuration() error {
	for _, note := range []string{"about", "seed", "base.double"} {
		m.j.strike(note, input)
	}
	m.j.strikeAll("libraries.", input)
	var variant string
	m.j.get("variant", &variant)
	m.compare("the adapter's base", m.j.key("variant"), differ(variant == m.a.BaseModel), exact)
	o := m.options(tensor.F32, model.Batch{})
	o.Train = true
	if err := model.CheckOptions(m.c, o); err != nil {
		return err
	}
	var names []string
	count := 0
	for _, p := range model.ParamsOf(m.c, o) {
		if !p.Trainable() {
			continue
		}
		names = append(names, p.Name)
		count += p.W.Len()
		info, _ := m.a.Tensor(p.Name)
		m.property("shapes of the adapter", "adapter_model.safetensors "+p.Name,
			differ(slices.Equal(info.Shape, p.W.Shape) && info.DType == tensor.F32.String()), exact)
		for _, prefix := range []string{"init.", "start.", "grad.", "final."} {
			if info, ok := m.g.st.Tensor(prefix + peftPrefix + p.Name); ok {
				m.property("shapes of the adapter", prefix+p.Name, differ(slices.Equal(info.Shape, p.W.Shape)), exact)
			}
		}
		m.property("parameters without decay", p.Name, differ(p.Decay), exact)
		if module, ok := strings.CutSuffix(p.Name, endA); ok {
			_, scale, _ := m.a.Spec.Of(module)
			m.j.compare("scaling", "scaling."+module, scale, exact)
		}
	}
	slices.Sort(names)
	m.property("names of the adapter", "adapter_model.safetensors", differ(slices.Equal(names, m.a.Names())), exact)
	m.j.compare("parameters", "parameters", float64(count), exact)
	return nil
}

// initial compares the base by itself, the bounds of random numbers, ours and the recorded ones, and the model with the
// recorded ones and B of zeros.
func (m *loraFolder) initial(b model.Batch) error {
	m.base = nil
	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: len(b.IDs)})
	if err != nil {
		return err
	}
	m.base, err = m.logits(l, b)
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	m.compare("logits of the base", m.g.key("logits.base"), byNorm(m.base, m.live("logits.base")), limitOutput)

	o := m.options(tensor.F32, b)
	o.Train = true
	if l, err = m.open(o); err != nil {
		return err
	}
	defer l.Close()
	l.InitAdapters(1)
	for _, p := range m.own(l) {
		if !strings.HasSuffix(p.Name, endA) {
			continue
		}
		x, err := m.d.Floats(p.W)
		if err != nil {
			return err
		}
		if m.o.mistake.adapter != nil {
			x = m.o.mistake.adapter(p.Name, x)
		}
		key, in := m.g.key("init."+peftPrefix+p.Name), p.W.Dim(1)
		recorded := m.g.floats("init." + peftPrefix + p.Name)
		m.property("bounds of our first A", p.Name, beyond(x, in), limitBound)
		m.compare("bounds of the first A", key, beyond(recorded, in), limitBound)
		// The square of a uniform number has a standard deviation of 0.9 of its mean, and this is five of the sum's.
		limit := 5 * 0.9 / 2 / math.Sqrt(float64(len(x)))
		m.property("rms of our first A", p.Name, relative(rms(x)*math.Sqrt(3*float64(in)), 1), limit)
		m.compare("rms of the first A", key, relative(rms(recorded)*math.Sqrt(3*float64(in)), 1), limit)
	}
	if err := m.put(l, "init."); err != nil {
		return err
	}
	p, err := m.compute(l, b)
	if err != nil {
		return err
	}
	m.compare("logits with B of zeros", m.g.key("logits.base"), byNorm(p.logits, m.live("logits.base")), limitOutput)
	m.j.compare("first loss", "init.loss", p.loss.Mean(), limitOutput)
	m.j.compare("first gradient norm", "init.grad_norm", normOfAll(p.grads), limitOutput)
	for name, g := range p.grads {
		m.j.compare("first gradient norm", "init.grad_norm_of_each."+peftPrefix+name, norm(g), limitAdapter)
	}
	return nil
}

// beyond returns by how much the largest number exceeds 1/√in, relatively.
func beyond(x []float32, in int) float64 {
	return max(0, farthest(x, make([]float32, len(x)))*math.Sqrt(float64(in))-1)
}

func (m *loraFolder) logits(l *model.Model, b model.Batch) (logits []float32, err error) {
	err = l.Logits(m.batch(b), func(_ int, row []float32) { logits = append(logits, row...) })
	return logits, err
}

// forward compares a pass forward and backward from the starting point.
func (m *loraFolder) forward(b model.Batch) error {
	o := m.options(tensor.F32, b)
	o.Train = true
	p, err := m.pass(o, b, m.openAt("start."))
	if err != nil {
		return err
	}
	g, j := m.g, m.j
	m.output(p, b)
	j.compare("logits from the base's", "forward.logits_from_base", byNorm(m.base, p.logits)*norm(p.logits)/norm(m.base),
		limitOutput)
	whole := normOfAll(p.grads)
	j.compareBoth("gradient norm", "forward.grad_norm", whole, limitOutput)
	for name, grad := range p.grads {
		name = "grad." + peftPrefix + name
		m.compare("gradient", g.key(name), besideWhole(grad, g.floats(name), whole), limitAdapter)
	}
	j.strikeAll("forward.grad_error.", yardstick)
	return nil
}

// forwardBF16 compares the same pass of a BF16 base with adapters in float32.
func (m *loraFolder) forwardBF16(b model.Batch) error {
	m.run = strings.Replace(m.run, "fp32", "bf16", 1)
	o := m.options(tensor.BF16, b)
	o.Train = true
	p, err := m.pass(o, b, m.openAt("start."))
	if err != nil {
		return err
	}
	names := map[tensor.DType]string{tensor.F32: "torch.float32", tensor.BF16: "torch.bfloat16"}
	var types []string
	for _, q := range model.ParamsOf(m.c, o) {
		if name := names[q.W.DType]; q.Adapter && !slices.Contains(types, name) {
			types = append(types, name)
		}
	}
	g, j := m.g, m.j
	var recorded []string
	j.get("bfloat16.adapter_dtype", &recorded)
	m.compare("type of the adapter", j.key("bfloat16.adapter_dtype"), differ(slices.Equal(types, recorded)), exact)
	m.outputBF16(p)
	all, ours := normOfAll(p.grads), 0.0
	for name, grad := range p.grads {
		truth := g.floats("grad." + peftPrefix + name)
		ours += math.Pow(apart(grad, truth), 2)
		times := float64(timesBF16)
		if len(grad) < smallTensor {
			times = timesBF16Small
		}
		m.compare("gradient", g.key("grad."+peftPrefix+name), besideWhole(grad, truth, all),
			times*j.limit("bfloat16.grad_error."+peftPrefix+name))
	}
	m.property("gradient, whole", "", math.Sqrt(ours)/all, timesBF16*j.limit("bfloat16.grad_error_whole"))
	return nil
}

// training compares steps of AdamW from the starting point.
func (m *loraFolder) training(model.Batch) error {
	j, g := m.j, m.g
	rows := g.rows("train.")
	steps := int(j.input("training.optimizer.steps"))
	if g.err != nil {
		return g.err
	}
	if steps < 1 || len(rows)%steps != 0 {
		return fmt.Errorf("%d rows do not make %d steps", len(rows), steps)
	}
	o := m.options(tensor.F32, model.Join(rows...))
	o.Train = true
	l, err := m.openAt("start.")(o)
	if err != nil {
		return err
	}
	defer l.Close()
	start, err := m.weights(l)
	if err != nil {
		return err
	}
	if err := m.train(l, rows, slices.Repeat([]float64{j.input("training.optimizer.lr")}, steps)); err != nil {
		return err
	}
	end, err := m.weights(l)
	if err != nil {
		return err
	}
	for _, p := range m.own(l) {
		name := "final." + peftPrefix + p.Name
		got, from, want := end[p.Name], start[p.Name], g.floats(name)
		m.compare("way of the parameters", g.key(name), over(apart(got, want), apart(want, from)), limitWay)
		saved, _, err := m.a.ReadF32(p.Name)
		if err != nil {
			return err
		}
		m.compare("saved adapter", g.key(name), farthest(saved, want), exact)
	}
	for _, prefix := range []string{"training.final_error.", "training.way_error."} {
		j.strikeAll(prefix, yardstick)
	}
	return nil
}
