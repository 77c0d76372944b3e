package parity

import (
	"fmt"
	"slices"
	"strings"

	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// packing compares several sequences in one row, and the same sequences as rows of their own.
func (m *modelFolder) packing() error {
	t, err := m.tensors("packing.safetensors")
	if err != nil {
		return err
	}
	defer t.st.Close()
	packed := m.packed(t)
	rows := t.rows("rows.")
	if t.err != nil || len(packed.IDs) == 0 || len(rows) == 0 {
		return t.err
	}
	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: max(tokens(rows), t.length()), Train: true})
	if err != nil {
		return err
	}
	defer l.Close()

	j := m.j
	one, err := m.compute(l, packed)
	if err != nil {
		return err
	}
	m.compare("packed logits", t.key("packed.logits"),
		byNorm(one.logits, first(t.floats("packed.logits"), len(one.logits))), limitOutput)
	m.compare("packed loss", t.key("packed.loss"), byNorm([]float64{one.loss.Mean()}, t.floats("packed.loss")),
		limitOutput)
	j.compareBoth("packed loss", "packing.loss", one.loss.Mean(), limitOutput)
	j.compareBoth("packed gradient norm", "packing.grad_norm", normOfAll(one.grads), limitOutput)
	j.compare("trained tokens", "packing.trained_tokens", float64(one.loss.Targets), exact)
	m.compareGradients(t, "packed.", one.grads)

	if s := m.c.RoPEScaling; s != nil && (s.Kind == model.RoPEDynamic || s.Kind == model.RoPELong) {
		rows = []model.Batch{model.Join(rows...)} // one pass, because the longest of them decides how all are turned
	}
	losses, err := m.gradient(l, rows)
	if err != nil {
		return err
	}
	grads, err := m.gradients(l)
	if err != nil {
		return err
	}
	m.compare("rows' loss", t.key("rows.loss"), byNorm([]float64{mean(losses)}, t.floats("rows.loss")), limitOutput)
	j.compare("rows' loss", "packing.loss_rows", mean(losses), limitOutput)
	m.compareGradients(t, "rows.", grads)

	// If sequences can see each other, the result must be the same as for one sequence.
	leaky, err := m.leaky(t, l)
	if err != nil {
		return err
	}
	j.compare("loss of one long sequence", "packing.loss_if_sequences_see_each_other", leaky.Mean(), limitOutput)
	j.strikeAll("packing.grad_error.", yardstick)
	j.strikeAll("packing.largest_difference", yardstick)
	return t.err
}

// first returns the first n numbers, or all if there are fewer.
func first(x []float32, n int) []float32 { return x[:min(n, len(x))] }

// length returns the number of tokens in the packed row, including padding.
func (t *tensors) length() int {
	ids, _ := t.ints("packed.input_ids")
	return len(ids)
}

// packed reads the packed row, without the padding at its end, and compares the recorded positions of its sequences
// with the starts.
func (m *modelFolder) packed(t *tensors) model.Batch {
	ids, _ := t.ints("packed.input_ids")
	labels, _ := t.ints("packed.labels")
	starts, _ := t.ints("packed.cu_seqlens")
	for _, name := range []string{"packed.input_ids", "packed.labels", "packed.cu_seqlens"} {
		if t.has(name) {
			m.strike(t.key(name), input)
		}
	}
	if len(starts) < 2 || len(labels) != len(ids) || starts[0] != 0 || !slices.IsSorted(starts) ||
		starts[len(starts)-1] > int64(len(ids)) {
		if t.err == nil {
			t.err = fmt.Errorf("packed.cu_seqlens %v does not fit %d ids and %d labels", starts, len(ids), len(labels))
		}
		return model.Batch{}
	}
	n := len(ids)
	live := int(starts[len(starts)-1])
	b := model.Batch{IDs: int32s(ids[:live]), Labels: int32s(labels[:live]), CuSeqlens: int32s(starts)}

	// As recorded: padding is a sequence of its own.
	sequence, position := make([]int64, n), make([]int64, n)
	var lengths []float64
	for i := range len(starts) {
		end := n
		if i+1 < len(starts) {
			end = int(starts[i+1])
			lengths = append(lengths, float64(starts[i+1]-starts[i]))
		}
		for at := int(starts[i]); at < end; at++ {
			sequence[at], position[at] = int64(i), int64(at)-starts[i]
		}
	}
	recorded, _ := t.ints("packed.may_see")
	see := make([]int64, len(recorded))
	for q := range n {
		if len(see) != n*n {
			break
		}
		for k := 0; k <= q; k++ {
			if sequence[q] == sequence[k] {
				see[q*n+k] = 1
			}
		}
	}
	for _, list := range []struct {
		name string
		ours []int64
	}{{"packed.sequence_ids", sequence}, {"packed.position_ids", position}, {"packed.may_see", see}} {
		got, _ := t.ints(list.name)
		m.compare("where sequences are", t.key(list.name), differ(len(got) > 0 && slices.Equal(got, list.ours)), exact)
	}
	m.compare("where sequences are", m.j.key("packing.lengths"), farthest(lengths, m.j.numbers("packing.lengths")), exact)
	m.compare("where sequences are", m.j.key("packing.padding"), differ(float64(n-live) == m.j.number("packing.padding")),
		exact)
	return b
}

// leaky returns the loss of the whole packed row, including padding, as one sequence.
func (m *modelFolder) leaky(t *tensors, l *model.Model) (model.Loss, error) {
	ids, _ := t.ints("packed.input_ids")
	labels, _ := t.ints("packed.labels")
	return l.Loss(model.Batch{IDs: int32s(ids), Labels: int32s(labels)})
}

func int32s(x []int64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// accumulation compares one step of several micro-batches.
func (m *modelFolder) accumulation() error {
	t, err := m.tensors("accumulation.safetensors")
	if err != nil {
		return err
	}
	defer t.st.Close()
	var micro []model.Batch
	for i := 0; t.has(fmt.Sprintf("micro.%d.input_ids", i)); i++ {
		rows := t.rows(fmt.Sprintf("micro.%d.", i))
		if t.err != nil {
			return t.err
		}
		micro = append(micro, model.Join(rows...))
	}
	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: max(1, tokens(micro)), Train: true})
	if err != nil {
		return err
	}
	defer l.Close()

	j := m.j
	losses, err := m.gradient(l, micro)
	if err != nil {
		return err
	}
	grads, err := m.gradients(l)
	if err != nil {
		return err
	}
	var counts, sums []float64
	for _, l := range losses {
		counts = append(counts, float64(l.Targets))
		sums = append(sums, l.Sum)
	}
	m.compare("trained tokens", j.key("accumulation.trained_tokens"),
		farthest(counts, j.numbers("accumulation.trained_tokens")), exact)
	m.compare("accumulated loss", j.key("accumulation.loss_sum"), relatives(sums, j.numbers("accumulation.loss_sum")),
		limitOutput)
	m.compare("accumulated loss", t.key("loss"), byNorm([]float64{mean(losses)}, t.floats("loss")), limitOutput)
	j.compareBoth("accumulated loss", "accumulation.loss", mean(losses), limitOutput)
	j.compareBoth("accumulated gradient norm", "accumulation.grad_norm", normOfAll(grads), limitOutput)
	m.compareGradients(t, "", grads)
	j.strikeAll("accumulation.grad_error.", yardstick)

	// A common mistake, made on purpose: the mean of the micro-batches' means.
	wrong, first := 0.0, true
	for i, b := range micro {
		if losses[i].Targets == 0 {
			continue
		}
		there, err := l.Gradient(b, 1/float32(len(micro)*losses[i].Targets), model.Gradients{Overwrite: first})
		if err != nil {
			return err
		}
		loss, err := l.Read(there)
		if err != nil {
			return err
		}
		first = false
		wrong += loss.Mean() / float64(len(micro))
	}
	if grads, err = m.gradients(l); err != nil {
		return err
	}
	j.compare("mean of means", "accumulation.mean_of_means_is_wrong.loss", wrong, limitOutput)
	j.compare("mean of means", "accumulation.mean_of_means_is_wrong.grad_norm", normOfAll(grads), limitOutput)
	return t.err
}

// training compares steps of AdamW with clipping, warmup and a cosine schedule.
func (m *modelFolder) training() error {
	t, err := m.tensors("training.safetensors")
	if err != nil {
		return err
	}
	defer t.st.Close()
	j := m.j
	rows := t.rows("")
	steps := int(j.input("training.optimizer.steps"))
	if t.err != nil {
		return t.err
	}
	if steps < 1 || len(rows)%steps != 0 {
		return fmt.Errorf("%d rows do not make %d steps", len(rows), steps)
	}
	each := len(rows) / steps

	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: tokens(rows), Train: true})
	if err != nil {
		return err
	}
	defer l.Close()
	start, err := m.weights(l)
	if err != nil {
		return err
	}
	var rates []float64
	rate := optim.Cosine(j.input("training.optimizer.lr"), int(j.input("training.optimizer.warmup_steps")), steps)
	for step := range steps {
		rates = append(rates, rate(step))
	}
	m.compare("learning rates", j.key("training.lr"), byRMS(rates, j.numbers("training.lr")), limitRate)
	if err := m.train(l, rows, rates); err != nil {
		return err
	}
	after, err := l.Loss(model.Join(rows[:each]...))
	if err != nil {
		return err
	}
	j.compare("loss after training", "training.first_batch_loss_after", after.Mean(), limitOutput)
	m.compareNoDecay(l.Params())
	return m.compareFinal(t, l, start)
}

// train takes a step of AdamW at each of the learning rates, and compares the losses and the norms of the gradients.
func (m *modelFolder) train(l *model.Model, rows []model.Batch, rates []float64) error {
	j := m.j
	betas := j.numbers("training.optimizer.betas")
	j.strike("training.optimizer.betas", input)
	if len(betas) != 2 {
		return fmt.Errorf("betas %v are not two", betas)
	}
	o, err := optim.New(m.d, l.Params(), optim.Config{
		Beta1: betas[0], Beta2: betas[1], Eps: j.input("training.optimizer.eps"),
		Decay: j.input("training.optimizer.weight_decay"), Bits: 32, Master: optim.NoMaster,
	})
	if err != nil {
		return err
	}
	defer o.Close()
	clip, each := j.input("training.optimizer.clip"), len(rows)/len(rates)
	var losses, norms, counts []float64
	for step, rate := range rates {
		loss, err := m.gradient(l, []model.Batch{model.Join(rows[step*each:][:each]...)})
		if err != nil {
			return err
		}
		r, err := o.Step(rate, clip)
		if err != nil {
			return err
		}
		losses, norms, counts = append(losses, mean(loss)), append(norms, r.Norm), append(counts, float64(loss[0].Targets))
	}
	m.compare("target tokens", j.key("training.trained_tokens"),
		farthest(counts, j.numbers("training.trained_tokens")), exact)
	m.compareSteps("loss", losses)
	m.compareSteps("grad_norm", norms)
	return nil
}

// compareSteps compares a value of each training step with PyTorch's float32 and, if recorded, float64.
func (m *modelFolder) compareSteps(name string, ours []float64) {
	path := "training." + name
	m.compare(name+" of training", m.j.key(path), relatives(ours, m.j.numbers(path)), limitOutput)
	if path += "_float64"; m.j.has(path) {
		m.compare(name+" of training", m.j.key(path), relatives(ours, m.j.numbers(path)), limitOutput)
	}
}

// compareNoDecay compares the names of the parameters without weight decay.
func (m *modelFolder) compareNoDecay(params []model.Param) {
	const path = "training.not_decayed"
	var ours, recorded []string
	for _, p := range params {
		if !p.Decay {
			ours = append(ours, p.Name)
		}
	}
	m.j.get(path, &recorded)
	slices.Sort(ours)
	slices.Sort(recorded)
	m.compare("parameters without decay", m.j.key(path), differ(slices.Equal(ours, recorded)), exact)
}

// weights returns all parameters of a model by name.
func (f *folder) weights(l *model.Model) (map[string][]float32, error) {
	weights := map[string][]float32{}
	for _, p := range l.Params() {
		w, err := f.d.Floats(p.W)
		if err != nil {
			return nil, err
		}
		weights[p.Name] = stored(p, w)
	}
	return weights, nil
}

// compareFinal compares the parameters after training, and how far they moved.
func (m *modelFolder) compareFinal(t *tensors, l *model.Model, start map[string][]float32) error {
	end, err := m.weights(l)
	if err != nil {
		return err
	}
	rates := 0.0 // their sum is about as far as Adam can move a parameter
	for _, rate := range m.j.numbers("training.lr") {
		rates += rate
	}
	for _, spec := range m.c.Params() {
		got, from, want := end[spec.Name], start[spec.Name], t.floats("final."+spec.Name)
		limit, limitWay := limitFinal, limitWay
		if isKeyBias(spec.Name) {
			limit, limitWay = limitFinalKeyBias, limitWayKeyBias
		}
		key := t.key("final." + spec.Name)
		if strings.HasSuffix(spec.Name, "c_attn.bias") && len(got) == len(want) {
			// Without RoPE, a key bias adds the same to all scores of a query. Its gradient is only rounding, and Adam makes
			// whole steps of that.
			keys := func(x []float32) []float32 { return x[len(x)/3 : len(x)/3*2] }
			m.property("key biases without a gradient", spec.Name, farthest(keys(got), keys(want)), 2*rates)
			rest := func(x []float32) []float32 { return slices.Concat(x[:len(x)/3], x[len(x)/3*2:]) }
			got, from, want = rest(got), rest(from), rest(want)
		}
		m.compare("final parameters", key, byNorm(got, want), limit)
		m.compare("way of the parameters", key, over(apart(got, want), apart(want, from)), limitWay)
	}
	m.j.strikeAll("training.final_error.", yardstick)
	m.j.strikeAll("training.way_error.", yardstick)
	m.j.strike("training.largest_element_difference", yardstick)
	return t.err
}

func isKeyBias(name string) bool { return strings.HasSuffix(name, "k_proj.bias") }
