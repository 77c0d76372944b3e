package parity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"unsafe"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// A routing is what the router of a layer computed: the experts and their weights are in the order of the experts.
type routing struct {
	logits, weights []float32
	experts         []int32 // [rows, k]
}

// watchRouting keeps the routing of each layer of a pass.
func (f *folder) watchRouting(l *model.Model, p *pass) {
	p.routing = map[int]routing{}
	l.OnRouting = func(layer int, logits tensor.Tensor, r kernels.Routing) {
		var own routing // the device keeps any error
		own.logits, _ = f.d.Floats(logits)
		own.weights, _ = f.d.Floats(r.Weights)
		_ = f.d.Read(r.Experts, func(chunk []byte) error {
			own.experts = append(own.experts, unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(chunk))), len(chunk)/4)...)
			return nil
		})
		p.routing[layer] = own
	}
}

// byExpert returns the recorded choice of experts, which is in the order of the weights, in the order of the experts.
func (m *modelFolder) byExpert(layer int) (experts []int32, weights []float32) {
	all, shape := m.g.ints(fmt.Sprintf("router.%d.experts", layer))
	weights = m.live(fmt.Sprintf("router.%d.weights", layer))
	mask, _ := m.g.ints("attention_mask")
	if len(shape) == 0 || len(mask) == 0 {
		return nil, nil
	}
	k := shape[len(shape)-1]
	for i, on := range mask {
		if on == 0 {
			continue
		}
		order := make([]int, k)
		for s := range order {
			order[s] = s
		}
		row, at := all[i*k:][:k], len(experts)
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(row[a], row[b]) })
		was := slices.Clone(weights[at:][:k])
		for s, from := range order {
			experts, weights[at+s] = append(experts, int32(row[from])), was[from]
		}
	}
	return experts, weights
}

// routing compares what the routers computed.
func (m *modelFolder) routing(p *pass, t tensor.DType) {
	for _, layer := range slices.Sorted(maps.Keys(p.routing)) {
		r, name := p.routing[layer], fmt.Sprintf("router.%d.", layer)
		experts, weights := m.byExpert(layer)
		m.compare("chosen experts", m.g.key(name+"experts"), differ(slices.Equal(r.experts, experts)), exact)
		limit := limitOutput
		if t == tensor.BF16 {
			limit = timesBF16 * m.j.limit(fmt.Sprintf("bfloat16.router_logits_error.%d", layer))
		} else {
			m.compare("weights of experts", m.g.key(name+"weights"), byNorm(r.weights, weights), limitOutput)
			m.counts(layer, r)
		}
		m.compare("router logits", m.g.key(name+"logits"), byNorm(r.logits, m.live(name+"logits")), limit)
	}
}

// counts compares how many tokens each expert got, and by how much the closest choice was clear.
func (m *modelFolder) counts(layer int, r routing) {
	path := fmt.Sprintf("routing.%d.", layer)
	n, k, tokens := m.c.Mixture.Experts, m.c.Mixture.PerToken, make([]float64, m.c.Mixture.Experts)
	for _, e := range r.experts {
		tokens[e]++
	}
	margin := math.Inf(1)
	for at := 0; at < len(r.logits); at += n {
		row := slices.Clone(r.logits[at:][:n])
		slices.Sort(row)
		if k < n {
			margin = min(margin, float64(row[n-k]-row[n-k-1]))
		}
	}
	m.compare("tokens of experts", m.j.key(path+"tokens_per_expert"),
		differ(slices.Equal(tokens, m.j.numbers(path+"tokens_per_expert"))), exact)
	m.j.compare("smallest margin", path+"smallest_margin", margin, limitMargin)
}

// auxiliary compares the load-balancing loss, and the gradients with it.
func (m *modelFolder) auxiliary(b model.Batch) error {
	if !m.j.hasAny("aux.") {
		return nil
	}
	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: len(b.IDs), Train: true})
	if err != nil {
		return err
	}
	defer l.Close()
	loss, err := l.Loss(m.batch(b))
	if err != nil {
		return err
	}
	coefficient := m.j.input("aux.coefficient")
	if _, err := l.Gradient(m.batch(b), 1/float32(max(1, b.Targets())),
		model.Gradients{Overwrite: true, Balance: float32(coefficient)}); err != nil {
		return err
	}
	grads, err := m.gradients(l)
	if err != nil {
		return err
	}
	g, whole, total := m.g, normOfAll(grads), loss.Mean()+coefficient*loss.Auxiliary
	m.compare("auxiliary loss", g.key("aux_loss"), byNorm([]float64{loss.Auxiliary}, g.floats("aux_loss")), limitAuxiliary)
	m.compare("loss with it", g.key("aux.loss"), byNorm([]float64{total}, g.floats("aux.loss")), limitOutput)
	for _, of := range []struct {
		path        string
		ours, limit float64
	}{{"aux_loss", loss.Auxiliary, limitAuxiliary}, {"loss", total, limitOutput}, {"grad_norm", whole, limitOutput}} {
		m.j.compareBoth("with the auxiliary loss", "aux."+of.path, of.ours, of.limit)
	}
	m.compareGradients(g, "aux.", grads)
	m.j.strikeAll("aux.grad_error.", yardstick)
	return nil
}
