package parity

import (
	"math"
	"slices"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

const embedding = "model.embed_tokens.weight"

// gradients compares the loss of all rows and its gradients.
func (m *fullFolder) gradients(l *model.Model, t tensor.DType) error {
	j := m.j
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
		// either may be that far from the exact value
		j.compare("loss beside PyTorch's", "bfloat16.loss", mean(losses), 2*limitLossBF16)
		var all []float64
		for _, loss := range losses {
			all = append(all, loss.Sum)
		}
		m.compare("loss beside PyTorch's", j.key("bfloat16.loss_sum"), relatives(all, j.numbers("bfloat16.loss_sum")),
			2*limitLossBF16)
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
	// A norm's error is at most the error of the vector. Our vector's error may be twice PyTorch's, so the two norms may
	// differ by three times PyTorch's error.
	j.compare("gradient norm beside PyTorch's", "bfloat16.grad_norm", norm(norms), (timesBF16+1)*whole)
	return nil
}

// compareGradient compares the recorded samples of one gradient, and returns its norm.
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
		m.compare("gradient, sampled", j.key(at+"value"), byNorm(values, stored),
			timesBF16Small*j.limit("bfloat16.grad_error."+p.Name))
	}
	j.compare("gradient norm, each", at+"norm", length, limits[0])
	m.compare("gradient, signed sum / norm", j.key(at+"dot"), math.Abs(dot-j.number(at+"dot"))/j.number(at+"norm"),
		limits[1])
	// rows of tokens that occur have far larger gradients than others
	if half := len(values) / 2; p.Name == embedding && len(stored) == len(values) {
		m.compare("gradient values, each / rms", j.key(at+"value"), byRMS(values[half:], stored[half:]), limits[2])
		values, stored = values[:half], stored[:half]
	}
	m.compare("gradient values, each / rms", j.key(at+"value"), byRMS(values, stored), limits[2])
	return length, nil
}

// sample returns the flat indices of a gradient's recorded elements. For the embedding, half of them are in rows of
// tokens that occur.
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

// keep stores the gradients of float32 in half the memory, as BF16.
func (m *fullFolder) keep(l *model.Model) (err error) {
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

// wholeApart returns the distance of a gradient from float32's, ‖g - truth‖, and ‖truth‖.
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
