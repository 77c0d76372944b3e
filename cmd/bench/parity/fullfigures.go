package parity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

const embedding = "model.embed_tokens.weight"

// fill makes the weights of a model, and the first time compares them with what is recorded of them.
func (m *fullFolder) fill(l *model.Llama) error {
	bits := make([]uint16, 0)
	floats := make([]float32, 0)
	for _, p := range l.Params() {
		s := newStream(m.seed, p.Name)
		sum := sha256.New()
		first := make([]float32, 4)
		err := inPieces(p.W.Len(), func(at, n int) error {
			bits = slices.Grow(bits[:0], n)[:n]
			inParts(n, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					bits[i] = s.weight(at + i)
				}
			})
			raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(bits))), 2*n)
			if !m.hashed {
				sum.Write(raw)
				for i := range first[:min(4, n)] {
					if at == 0 {
						first[i] = tensor.ToF32(bits[i])
					}
				}
			}
			part := p.W.Part(at, n)
			if part.DType == tensor.BF16 {
				m.d.UploadBytes(part, raw)
				return m.d.Err()
			}
			floats = slices.Grow(floats[:0], n)[:n]
			inParts(n, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					floats[i] = tensor.ToF32(bits[i])
				}
			})
			m.d.Upload(part, floats)
			return m.d.Err()
		})
		if err != nil {
			return err
		}
		if !m.hashed {
			m.compareWeight(p, hex.EncodeToString(sum.Sum(nil)), first)
		}
	}
	m.hashed = m.hashed || len(l.Params()) == m.c.TensorCount()
	if m.o.mistake.weights != nil {
		m.o.mistake.weights(m.d, l)
	}
	return nil
}

func (m *fullFolder) compareWeight(p model.Param, sum string, first []float32) {
	at := "weights." + p.Name + "."
	if !m.j.has(at + "sha256") {
		m.missing(m.j.key(at + "sha256"))
		return
	}
	if m.j.has(at+"sha256") && m.fates[m.j.key(at+"sha256")] == compared {
		return // by a smaller model of the same weights
	}
	var want string
	var shape []int
	m.j.get(at+"sha256", &want)
	m.j.get(at+"shape", &shape)
	m.compare("weights", m.j.key(at+"sha256"), differ(sum == want), exact)
	m.compare("weights", m.j.key(at+"shape"), differ(slices.Equal(shape, p.W.Shape)), exact)
	// Written with the digits that float32 needs, which as float64 is not quite the same number.
	stored := m.j.numbers(at + "first")
	same := len(stored) == len(first)
	for i := range stored {
		same = same && float32(stored[i]) == first[i]
	}
	m.compare("weights", m.j.key(at+"first"), differ(same), exact)
}

// forward compares one row: its logits and hidden states.
func (m *fullFolder) forward(l *model.Llama, t tensor.DType, r int) error {
	in, at := m.inputs, fmt.Sprintf("forward.rows.%d.", r)
	hidden := map[string][]float32{}
	l.Watch = func(name string, h tensor.Tensor) { hidden[name], _ = m.d.Floats(h) }
	defer func() { l.Watch = nil }()
	var lse []float64
	sampled := make([]float32, 0, len(in.LogitPositions[r])*len(in.VocabIDs))
	tops := make([]int32, len(in.LogitPositions[r]))
	topLogits := make([]float32, len(tops))
	err := l.Logits(m.batch(m.rows[r]), func(position int, logits []float32) {
		lse = append(lse, logSumExp(logits))
		if i := slices.Index(in.LogitPositions[r], position); i >= 0 {
			for _, id := range in.VocabIDs {
				sampled = append(sampled, logits[id])
			}
			tops[i], _ = topTwo(logits)
			topLogits[i] = logits[tops[i]]
		}
	})
	if err != nil {
		return err
	}
	j := m.j
	stored := j.numbers(at + "logits")
	m.compareHidden(t, r, hidden, m.layers())
	if t == tensor.BF16 {
		m.compare("logsumexp, absolute", j.key(at+"logsumexp"), farthest(lse, j.numbers(at+"logsumexp")), fullLogSumExpBF16)
		m.compare("logits", j.key(at+"logits"), byNorm(sampled, stored), timesBF16*m.rowLimit("bfloat16.logits_error", r))
		return nil
	}
	m.compare("logsumexp, absolute", j.key(at+"logsumexp"), farthest(lse, j.numbers(at+"logsumexp")), fullLogSumExp)
	m.compare("logits", j.key(at+"logits"), byNorm(sampled, stored), fullLogits)
	m.compare("logits, each / rms", j.key(at+"logits"), byRMS(sampled, stored), fullEach)
	var want []int32
	j.get(at+"argmax", &want)
	m.compare("argmax", j.key(at+"argmax"), differing(tops, want), exact)
	m.compare("argmax's logit, absolute", j.key(at+"argmax_logit"), farthest(topLogits, j.numbers(at+"argmax_logit")), fullArgmaxLogit)
	for _, state := range []struct{ figure, name string }{{"last_block_norm", m.layers()[m.c.Layers]}, {"final_norm", "norm"}} {
		norms := make([]float64, len(m.rows[r].IDs))
		for p := range norms {
			norms[p] = norm(hidden[state.name][p*m.c.Dim:][:m.c.Dim])
		}
		m.compare("hidden states, norms", j.key(at+state.figure), relatives(norms, j.numbers(at+state.figure)), fullNorm)
	}
	if !m.o.Quick {
		for len(m.own.hidden) < len(m.rows) {
			m.own.hidden = append(m.own.hidden, nil)
		}
		m.own.hidden[r] = hidden
	}
	return nil
}

// layers are the names of the residual stream's states in order.
func (m *fullFolder) layers() []string {
	names := []string{"embed"}
	for i := range m.c.Layers {
		names = append(names, fmt.Sprintf("block.%d", i))
	}
	return append(names, "norm")
}

// firstBlock compares the first block of every row with a model that has no other.
func (m *fullFolder) firstBlock(l *model.Llama) error {
	for r := range m.rows {
		hidden := map[string][]float32{}
		l.Watch = func(name string, h tensor.Tensor) { hidden[name], _ = m.d.Floats(h) }
		b := m.batch(m.rows[r])
		b.Labels = slices.Repeat([]int32{model.Ignore}, len(b.IDs)) // no use in its logits
		if _, err := l.Loss(b); err != nil {
			return err
		}
		m.compareHidden(l.DType(), r, hidden, []string{"embed", "block.0"})
	}
	return nil
}

// compareHidden compares what is stored of hidden states, and in BF16 the whole with float32's.
func (m *fullFolder) compareHidden(t tensor.DType, r int, hidden map[string][]float32, names []string) {
	dim := m.c.Dim
	for _, name := range names {
		at := fmt.Sprintf("forward.rows.%d.hidden.%s.", r, name)
		h := hidden[name]
		if len(h) != len(m.rows[r].IDs)*dim {
			m.fail("hidden states", m.j.key(at+"values"), "the model has no such state")
			continue
		}
		norms := []float64{}
		var values []float32
		for _, p := range m.inputs.HiddenPositions[r] {
			row := h[p*dim:][:dim]
			norms = append(norms, norm(row))
			for _, c := range m.inputs.HiddenColumns {
				values = append(values, row[c])
			}
		}
		stored := m.j.numbers(at + "values")
		if t == tensor.BF16 {
			limit := m.rowLimit("bfloat16.hidden_error."+name, r)
			times := float64(timesBF16)
			if len(values) < smallTensor {
				times = timesBF16Small
			}
			m.compare("hidden states, sampled", m.j.key(at+"values"), byNorm(values, rounded(stored)), times*limit)
			if m.own.hidden != nil {
				m.property("hidden states", at, byNorm(h, m.own.hidden[r][name]), timesBF16*limit)
			}
			continue
		}
		m.compare("hidden states, each / rms", m.j.key(at+"values"), byRMS(values, rounded(stored)), fullEach)
		m.j.compare("hidden states, norms", at+"norm", norm(h), fullNorm)
		m.compare("hidden states, norms", m.j.key(at+"position_norm"), relatives(norms, m.j.numbers(at+"position_norm")), fullNorm)
	}
}

// rounded are numbers that were written with the digits of a float32.
func rounded(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// rowLimit is the entry for a row in a list of errors.
func (m *fullFolder) rowLimit(path string, r int) float64 {
	m.j.strike(path, yardstick)
	if list := m.j.numbers(path); r < len(list) {
		return list[r]
	}
	return math.NaN()
}

func logSumExp(logits []float32) float64 {
	top := float64(slices.Max(logits))
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	return top + math.Log(sum)
}

func (m *fullFolder) compareLoss(t tensor.DType, r int, loss model.Loss) {
	at := fmt.Sprintf("forward.rows.%d.", r)
	limit := limitOutput
	if t == tensor.BF16 {
		limit = limitLossBF16
	}
	m.j.compare("loss", at+"loss_sum", loss.Sum, limit)
	m.j.compare("trained tokens", at+"trained_tokens", float64(loss.Trained), exact)
}

// greedy continues the recorded prompt; in BF16 it is fed what float32 chose.
func (m *fullFolder) greedy(l *model.Llama, t tensor.DType) error {
	j := m.j
	var prompt, want []int32
	j.get("greedy.prompt", &prompt)
	j.get("greedy.continuation", &want)
	j.strike("greedy.prompt", input)
	gap := j.numbers("greedy.gap")
	c, err := l.NewCache(len(prompt) + len(want))
	if err != nil {
		return err
	}
	defer c.Close()
	if t == tensor.BF16 {
		worst, err := fed(l, c, prompt, want, gap)
		m.compare("largest gap at which the next token differs", j.key("greedy.gap"), worst, fullGapBF16)
		return err
	}
	var ids []int32
	var gaps []float64
	logits, err := l.Extend(c, prompt)
	for range want {
		if err != nil {
			return err
		}
		best, gap := topTwo(logits)
		ids, gaps = append(ids, best), append(gaps, gap)
		logits, err = l.Extend(c, []int32{best})
	}
	m.compare("greedy ids", j.key("greedy.continuation"), differing(ids, want), exact)
	m.compare("greedy gaps", j.key("greedy.gap"), farthest(gaps, gap), fullGap)
	return err
}

// gradients compares the loss of all rows and its gradients.
func (m *fullFolder) gradients(l *model.Llama, t tensor.DType) error {
	j := m.j
	l.ZeroGrad()
	losses, err := m.gradient(l, m.rows)
	if err != nil {
		return err
	}
	for r, loss := range losses {
		m.compareLoss(t, r, loss)
	}
	limit := limitOutput
	if t == tensor.BF16 {
		limit = limitLossBF16
		j.strike("bfloat16.loss_error", yardstick)
		j.compare("loss beside PyTorch's", "bfloat16.loss", mean(losses), 2*limitLossBF16) // either may be that far from the truth
		var all []float64
		for _, loss := range losses {
			all = append(all, loss.Sum)
		}
		m.compare("loss beside PyTorch's", j.key("bfloat16.loss_sum"), relatives(all, j.numbers("bfloat16.loss_sum")), 2*limitLossBF16)
	}
	j.compare("loss", "forward.loss", mean(losses), limit)
	if t == tensor.F32 {
		if err := m.keep(l); err != nil {
			return err
		}
	}
	var norms, errors, truths []float64
	for _, p := range l.Params() {
		norm, err := m.compareGradient(p, t)
		if err != nil {
			return err
		}
		norms = append(norms, norm)
		if t == tensor.BF16 {
			apart, truth, err := m.wholeApart(p)
			if err != nil {
				return err
			}
			m.property("gradient", p.Name, over(apart, truth), timesBF16*j.limit("bfloat16.grad_error."+p.Name))
			errors, truths = append(errors, apart), append(truths, truth)
		}
	}
	if t == tensor.F32 {
		j.compare("gradient norm, whole", "gradients.norm", norm(norms), fullNorm)
		return nil
	}
	whole := j.limit("bfloat16.grad_error_whole")
	m.property("gradient, whole", "", norm(errors)/norm(truths), timesBF16*whole)
	j.compare("gradient norm, whole", "gradients.norm", norm(norms), fullNormBF16)
	// A norm is no farther off than the vector; ours may be twice as far as PyTorch's, and so the two three times apart.
	j.compare("gradient norm beside PyTorch's", "bfloat16.grad_norm", norm(norms), (timesBF16+1)*whole)
	return nil
}

// compareGradient compares what is stored of one gradient and returns its norm.
func (m *fullFolder) compareGradient(p model.Param, t tensor.DType) (length float64, err error) {
	j, at := m.j, "gradients.each."+p.Name+"."
	s := newStream(m.seed, p.Name)
	var squares, dot float64
	err = inPieces(p.Grad.Len(), func(from, n int) error {
		g, err := m.d.Floats(p.Grad.Part(from, n))
		squares += sums(n, func(lo, hi int) (sum float64) {
			for _, v := range g[lo:hi] {
				sum += float64(v) * float64(v)
			}
			return sum
		})
		dot += sums(n, func(lo, hi int) (sum float64) {
			for i := lo; i < hi; i++ {
				sum += s.sign(from+i) * float64(g[i])
			}
			return sum
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	length = math.Sqrt(squares)
	var index []int
	j.get(at+"index", &index)
	want := m.sample(p)
	m.compare("generator", j.key(at+"index"), differ(slices.Equal(index, want)), exact)
	values := make([]float32, len(want))
	for i, at := range want {
		v, err := m.d.Floats(p.Grad.Part(at, 1))
		if err != nil {
			return 0, err
		}
		values[i] = v[0]
	}
	stored := rounded(j.numbers(at + "value"))
	limits := [...]float64{fullNorm, fullDot, fullGradEach}
	if t == tensor.BF16 {
		limits = [...]float64{fullNormBF16, fullDotBF16, fullGradEachBF16}
		m.compare("gradient, sampled", j.key(at+"value"), byNorm(values, stored), timesBF16Small*j.limit("bfloat16.grad_error."+p.Name))
	}
	j.compare("gradient norm, each", at+"norm", length, limits[0])
	m.compare("gradient, signed sum / norm", j.key(at+"dot"), math.Abs(dot-j.number(at+"dot"))/j.number(at+"norm"), limits[1])
	if half := len(values) / 2; p.Name == embedding && len(stored) == len(values) { // rows that are read have far larger gradients than others
		m.compare("gradient values, each / rms", j.key(at+"value"), byRMS(values[half:], stored[half:]), limits[2])
		values, stored = values[:half], stored[:half]
	}
	m.compare("gradient values, each / rms", j.key(at+"value"), byRMS(values, stored), limits[2])
	return length, nil
}

// sample are the flat indices of the elements that are stored of a gradient; of the embedding half are in rows that are read.
func (m *fullFolder) sample(p model.Param) []int {
	s := newStream(m.seed, "sample."+p.Name)
	index := make([]int, 64)
	read := slices.Concat(m.inputs.Rows...)
	for i := range index {
		h := s.hash(i)
		index[i] = int(h % uint64(p.Grad.Len()))
		if p.Name == embedding && i < len(index)/2 {
			index[i] = int(read[h%uint64(len(read))])*m.c.Dim + int(h>>32%uint64(m.c.Dim))
		}
	}
	return index
}

// keep keeps the gradients of float32, in half the memory.
func (m *fullFolder) keep(l *model.Llama) (err error) {
	if m.own.arena == nil {
		cut := func(a *kernels.Arena) {
			m.own.grads = map[string]tensor.Tensor{}
			for _, p := range l.Params() {
				m.own.grads[p.Name] = a.New(p.Name, tensor.BF16, p.Grad.Shape...)
			}
		}
		if m.own.arena, err = m.d.NewArena("gradients to hold BF16's against", kernels.SizeOf(cut)); err != nil {
			return err
		}
		cut(m.own.arena)
	}
	for _, p := range l.Params() {
		err := inPieces(p.Grad.Len(), func(at, n int) error {
			g, err := m.d.Floats(p.Grad.Part(at, n))
			if err == nil {
				m.d.Upload(m.own.grads[p.Name].Part(at, n), g)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wholeApart is how far a gradient is from float32's, ‖g - truth‖, and ‖truth‖.
func (m *fullFolder) wholeApart(p model.Param) (distance, length float64, err error) {
	var d2, l2 float64
	err = inPieces(p.Grad.Len(), func(at, n int) error {
		g, err := m.d.Floats(p.Grad.Part(at, n))
		if err != nil {
			return err
		}
		truth, err := m.d.Floats(m.own.grads[p.Name].Part(at, n))
		d2 += math.Pow(apart(g, truth), 2)
		l2 += math.Pow(norm(truth), 2)
		return err
	})
	return math.Sqrt(d2), math.Sqrt(l2), err
}
