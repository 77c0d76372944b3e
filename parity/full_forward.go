package parity

import (
	"fmt"
	"math"
	"slices"

	"restyle/model"
	"restyle/tensor"
)

// forward compares one row: its logits and hidden states.
func (m *fullFolder) forward(l *model.Model, t tensor.DType, r int) error {
	in, at := m.inputs, fmt.Sprintf("forward.rows.%d.", r)
	hidden := map[string][]float32{}
	l.OnHidden = func(name string, h tensor.Tensor) { hidden[name], _ = m.d.Floats(h) }
	defer func() { l.OnHidden = nil }()
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
	m.compare("argmax's logit, absolute", j.key(at+"argmax_logit"), farthest(topLogits, j.numbers(at+"argmax_logit")),
		fullArgmaxLogit)
	for _, state := range []struct{ figure, name string }{{"last_block_norm", m.layers()[m.c.Layers]},
		{"final_norm", "norm"}} {
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

// layers returns the names of the residual stream's states, in order.
func (m *fullFolder) layers() []string {
	names := []string{"embed"}
	for i := range m.c.Layers {
		names = append(names, fmt.Sprintf("block.%d", i))
	}
	return append(names, "norm")
}

// firstBlock compares the first layer of every row, with a model that has only that layer.
func (m *fullFolder) firstBlock(l *model.Model) error {
	for r := range m.rows {
		hidden := map[string][]float32{}
		l.OnHidden = func(name string, h tensor.Tensor) { hidden[name], _ = m.d.Floats(h) }
		b := m.batch(m.rows[r])
		b.Labels = slices.Repeat([]int32{model.Ignore}, len(b.IDs)) // its logits are of no use
		if _, err := l.Loss(b); err != nil {
			return err
		}
		m.compareHidden(l.DType(), r, hidden, []string{"embed", "block.0"})
	}
	return nil
}

// compareHidden compares the recorded samples of hidden states and, in BF16, the complete states with float32's.
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
		m.compare("hidden states, norms", m.j.key(at+"position_norm"), relatives(norms, m.j.numbers(at+"position_norm")),
			fullNorm)
	}
}

// rounded converts numbers that were written with the digits of a float32.
func rounded(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// rowLimit returns a row's entry in a list of errors.
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
	m.j.compare("trained tokens", at+"trained_tokens", float64(loss.Targets), exact)
}

// greedy continues the recorded prompt. In BF16 it feeds the tokens that float32 chose.
func (m *fullFolder) greedy(l *model.Model, t tensor.DType) error {
	j := m.j
	var prompt, want []int32
	j.get("greedy.prompt", &prompt)
	j.get("greedy.continuation", &want)
	j.strike("greedy.prompt", input)
	gap := j.numbers("greedy.gap")
	c, err := l.NewKVCache(len(prompt) + len(want))
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
