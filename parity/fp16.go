package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"restyle/hf"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

func isScaler(f *folder) bool { return f.hasFile("scaler.json") }

// compareScaler compares loss scales after each step of runs that consist only of which steps overflow.
func compareScaler(f *folder) error {
	j, err := f.values("scaler.json")
	if err != nil {
		return err
	}
	j.strikeAll("libraries.", input)
	for i := 0; j.hasAny(fmt.Sprintf("cases.%d.", i)); i++ {
		at := fmt.Sprintf("cases.%d.", i)
		j.strike(at+"name", input)
		s := &optim.Scaler{Scale: float32(j.input(at + "init_scale")), Growth: j.input(at + "growth_factor"),
			Backoff: j.input(at + "backoff_factor"), Interval: int(j.input(at + "growth_interval"))}
		var scales, good []float64
		for _, overflow := range j.numbers(at + "overflow") {
			s.Update(overflow != 0)
			scales, good = append(scales, float64(s.Scale)), append(good, float64(s.Good))
		}
		j.strike(at+"overflow", input)
		f.compare("loss scales", j.key(at+"scale_after"), farthest(scales, j.numbers(at+"scale_after")), exact)
		f.compare("good steps", j.key(at+"good_steps_after"), farthest(good, j.numbers(at+"good_steps_after")), exact)
	}
	return nil
}

func isScaling(f *folder) bool { return f.hasFile("scaling.json") && f.hasFile("scaling.safetensors") }

// A scaledRun is a recorded run of steps in F16 with loss scaling.
type scaledRun struct {
	modelFolder
	t       *tensors
	rows    []model.Batch
	each    int // rows per micro-batch
	micro   int // micro-batches per step
	planted map[int]fault
}

// A fault is what spoils the gradient of a step: a factor of its loss, or the value of an element.
type fault struct {
	Step   int
	Factor float64
	Tensor string
	Index  int
	Value  string
}

// compareScaling compares a run with a planted fault in some steps, in F16 and, without a scale, in F32.
func compareScaling(f *folder) (err error) {
	s := scaledRun{modelFolder: modelFolder{folder: f}, planted: map[int]fault{}}
	if s.t, err = f.tensors("scaling.safetensors"); err != nil {
		return err
	}
	defer s.t.st.Close()
	if s.j, err = f.values("scaling.json"); err != nil {
		return err
	}
	if s.ck, err = hf.OpenModel(f.dir); err != nil {
		return err
	}
	defer s.ck.Close()
	s.c = f.config(s.ck.Config)
	if err := s.inputs(); err != nil {
		return err
	}
	for _, fused := range f.o.Fused {
		f.d.SetFused(fused)
		for _, t := range []tensor.DType{tensor.F32, tensor.F16} {
			f.computedIn(t, fused)
			if err := s.run(t); err != nil {
				return err
			}
		}
	}
	return s.t.err
}

// inputs reads the rows and the planted faults.
func (s *scaledRun) inputs() error {
	for _, note := range []string{"about", "variant", "seed"} {
		s.j.strike(note, input)
	}
	for _, prefix := range []string{"libraries.", "planted.", "optimizer.", "scaler."} {
		s.j.strikeAll(prefix, input)
	}
	for _, prefix := range []string{"underflow.", "final_error."} {
		s.j.strikeAll(prefix, yardstick)
	}
	var all struct{ Planted []fault }
	data, err := s.read(s.j.file)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return err
	}
	for _, p := range all.Planted {
		s.planted[p.Step] = p
	}
	_, shape := s.t.ints("input_ids")
	s.rows = s.t.rows("")
	if s.t.err != nil || len(shape) != 4 {
		return errors.Join(s.t.err, fmt.Errorf("input_ids are %v, not [step, micro-batch, row, token]", shape))
	}
	s.micro, s.each = shape[1], shape[2]
	return nil
}

// results are the lists over the steps of a run.
type results struct{ loss, norm, largest, scale, skipped, scaleAfter, goodAfter, counts []float64 }

// run takes the recorded steps and compares them. In F16 there is a Scaler; in F32 steps with a planted fault are left
// out.
func (s *scaledRun) run(t tensor.DType) error {
	l, err := s.open(model.Options{DType: t, MaxTokens: tokens(s.rows), Train: true})
	if err != nil {
		return err
	}
	defer l.Close()
	betas := s.j.numbers("optimizer.betas")
	if len(betas) != 2 {
		return fmt.Errorf("betas %v are not two", betas)
	}
	rate := s.j.input("optimizer.lr")
	o, err := optim.New(s.d, l.Params(), optim.Config{Beta1: betas[0], Beta2: betas[1], Bits: 32, Master: optim.FP32,
		Eps: s.j.input("optimizer.eps"), Decay: s.j.input("optimizer.weight_decay")})
	if err != nil {
		return err
	}
	defer o.Close()
	start, masters, err := s.masters(l, o, t)
	if err != nil {
		return err
	}
	if t == tensor.F16 {
		o.Scaler = &optim.Scaler{Scale: float32(s.j.input("scaler.init_scale")), Growth: s.j.input("scaler.growth_factor"),
			Backoff: s.j.input("scaler.backoff_factor"), Interval: int(s.j.input("scaler.growth_interval"))}
	}
	var r results
	for step := range len(s.rows) / (s.micro * s.each) {
		if err := s.step(l, o, step, &r); err != nil {
			return err
		}
	}
	if t == tensor.F32 {
		s.compareExactRun(r)
		return nil
	}
	s.compareRun(r)
	s.j.compare("steps of the optimizer", "optimizer_steps", float64(o.Steps()), exact)
	for name, x := range masters {
		got, err := s.d.Floats(x)
		if err != nil {
			return err
		}
		want := s.t.floats("final." + name)
		way := apart(want, start[name])
		turned := over(math.Sqrt(turnedF16)*2*rate, way)
		s.compare("way of the masters", s.t.key("final."+name), over(apart(got, want), way),
			math.Hypot(timesF16Way*s.j.limit("way_error."+name), turned))
	}
	return nil
}

// masters returns the recorded weights by name, and the tensors that have the weights in full: in F16 the optimizer's
// masters, which it stores there first.
func (s *scaledRun) masters(l *model.Model, o *optim.AdamW, t tensor.DType) (start map[string][]float32,
	masters map[string]tensor.Tensor, err error) {
	start, masters = map[string][]float32{}, map[string]tensor.Tensor{}
	wide, err := s.open(model.Options{DType: tensor.F32})
	if err != nil {
		return nil, nil, err
	}
	defer wide.Close()
	if start, err = s.weights(wide); err != nil {
		return nil, nil, err
	}
	kept := map[string]tensor.Tensor{}
	for _, x := range o.State() {
		kept[x.Name] = x
	}
	for _, p := range l.Params() {
		masters[p.Name] = p.W
		if t == tensor.F16 {
			masters[p.Name] = kept[p.Name+".master"]
			s.d.Upload(masters[p.Name], start[p.Name])
		}
	}
	return start, masters, nil
}

// step takes a step and adds what came of it to r.
func (s *scaledRun) step(l *model.Model, o *optim.AdamW, step int, r *results) error {
	var micro []model.Batch
	for i := range s.micro {
		micro = append(micro, model.Join(s.rows[(step*s.micro+i)*s.each:][:s.each]...))
		r.counts = append(r.counts, float64(micro[i].Targets()))
	}
	spoiled, isPlanted := s.planted[step]
	factor, sum, largest := o.LossScale(), 0.0, 0.0
	before := map[string][]float32{}
	for _, p := range l.Params() {
		before[p.Name] = make([]float32, p.Grad.Len())
	}
	if spoiled.Factor != 0 {
		factor *= float32(spoiled.Factor)
	}
	for i, b := range micro {
		losses, err := l.Gradient(s.batch(b), factor*float32(1/float64(trained(micro))), model.Gradients{Overwrite: i == 0})
		if err != nil {
			return err
		}
		loss, err := l.Read(losses)
		if err != nil {
			return err
		}
		sum += loss.Sum
		now, err := s.gradients(l)
		if err != nil {
			return err
		}
		for name, g := range now { // only of this micro-batch
			largest = max(largest, farthest(g, before[name]))
		}
		before = now
	}
	if largest-largest == 0 { // not if one is infinite or NaN
		r.largest = append(r.largest, largest)
	}
	r.loss = append(r.loss, sum/float64(trained(micro)))
	for _, p := range l.Params() {
		if p.Name == spoiled.Tensor {
			s.d.Upload(p.Grad.View(p.Grad.Len()).Slice(spoiled.Index, spoiled.Index+1), []float32{float32(math.NaN())})
		}
	}
	if o.Scaler == nil && isPlanted { // left out where F16 skips it
		norm, err := optim.Norm(s.d, l.Params())
		if !math.IsNaN(norm) {
			r.norm = append(r.norm, norm)
		}
		return err
	}
	r.scale = append(r.scale, float64(o.LossScale()))
	res, err := o.Step(s.j.input("optimizer.lr"), s.j.input("optimizer.clip"))
	if err != nil {
		return err
	}
	r.skipped = append(r.skipped, differ(res.Taken))
	if res.Taken {
		r.norm = append(r.norm, res.Norm)
	}
	if o.Scaler != nil {
		r.scaleAfter = append(r.scaleAfter, float64(o.Scaler.Scale))
		r.goodAfter = append(r.goodAfter, float64(o.Scaler.Good))
	}
	return nil
}

// compareRun compares the run in F16.
func (s *scaledRun) compareRun(r results) {
	j := s.j
	for name, ours := range map[string][]float64{"scale": r.scale, "scale_after": r.scaleAfter,
		"good_steps_after": r.goodAfter} {
		s.compare(name, j.key("steps."+name), farthest(ours, j.numbers("steps."+name)), exact)
	}
	var skipped []bool
	j.get("steps.skipped", &skipped)
	var theirs []float64
	for _, yes := range skipped {
		theirs = append(theirs, differ(!yes))
	}
	s.compare("skipped", j.key("steps.skipped"), farthest(r.skipped, theirs), exact)
	s.compare("target tokens", j.key("trained_tokens"), farthest(r.counts, j.numbers("trained_tokens")), exact)
	s.compare("loss", j.key("steps.loss"), relatives(r.loss, j.numbers("steps.loss")), limitLossF16)
	// the steps that were not skipped; numbers leaves out null
	s.compare("grad_norm", j.key("steps.grad_norm"), relatives(r.norm, j.numbers("steps.grad_norm")), limitNormF16)
	s.compare("largest gradient", j.key("steps.largest_scaled_gradient"),
		relatives(r.largest, j.numbers("steps.largest_scaled_gradient")), limitLargestF16)
	for _, path := range []string{"loss_error", "grad_norm_error"} {
		j.strike(path, yardstick)
	}
}

// compareExactRun compares the run in F32.
func (s *scaledRun) compareExactRun(r results) {
	for name, ours := range map[string][]float64{"loss": r.loss, "grad_norm": r.norm} {
		s.compare(name, s.j.key("fp32."+name), relatives(ours, s.j.numbers("fp32."+name)), limitOutput)
	}
}
