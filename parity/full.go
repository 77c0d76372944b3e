package parity

import (
	"fmt"
	"slices"

	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

func isFull(f *folder) bool {
	if !f.hasFile("golden.json") || !f.hasFile("config.json") || f.hasFile("golden.safetensors") {
		return false
	}
	probe := folder{dir: f.dir}
	j, err := probe.values("golden.json")
	return err == nil && j.hasAny("generator.")
}

// A fullFolder is a model at full size and the recorded results of that model.
type fullFolder struct {
	*folder
	j      *values
	c      model.Config
	seed   uint64
	rows   []model.Batch
	inputs fullInputs
	hashed bool // the weights have been compared

	l   *model.Model // the model that stages work with; nil if there is none
	own fullOwn
}

// fullInputs are the inputs in golden.json.
type fullInputs struct {
	Rows, Labels    [][]int32
	Trained         []float64 `json:"trained_tokens"`
	LogitPositions  [][]int   `json:"logit_positions"`
	HiddenPositions [][]int   `json:"hidden_positions"`
	VocabIDs        []int     `json:"vocab_ids"`
	HiddenColumns   []int     `json:"hidden_columns"`
}

// fullOwn is the complete result of our own float32 computation. The recording has only samples of it; BF16 is compared
// with the complete result.
type fullOwn struct {
	hidden []map[string][]float32   // per row
	grads  map[string]tensor.Tensor // rounded to BF16, whose error is a tenth of the error that is compared
	arena  *kernels.Arena
}

// A stage is a part of the work. Its cost is in float32 forward passes over all rows.
type stage struct {
	what string
	cost float64
	run  func() error
}

func compareFull(f *folder) (err error) {
	m := fullFolder{folder: f}
	if m.j, err = f.values("golden.json"); err != nil {
		return err
	}
	ck, err := hf.OpenConfig(f.dir)
	if err != nil {
		return err
	}
	m.c = f.config(ck.Config)
	if err := m.describe(); err != nil {
		return err
	}
	defer func() {
		m.close() // if a stage failed
		m.own.arena.Close()
	}()
	work := m.whole()
	if f.o.Quick {
		work = m.quick()
	}
	total, done := 0.0, 0.0
	for _, s := range work {
		total += s.cost
	}
	for _, s := range work {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		f.progress(s.what, done/total)
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		done += s.cost
	}
	if f.o.Quick {
		m.j.strikeAll("", leftOut)
	}
	return nil
}

// describe compares what follows from only the configuration and the seed.
func (m *fullFolder) describe() error {
	j := m.j
	for _, note := range []string{"about", "adamw.not_decayed", "inputs.rows", "inputs.labels", "inputs.logit_positions",
		"inputs.hidden_positions", "seed"} {
		j.strike(note, input)
	}
	j.strikeAll("libraries.", input)
	for _, others := range []string{"noise.", "mistakes.", "bfloat16.figures."} {
		j.strikeAll(others, yardstick)
	}
	j.get("seed", &m.seed)
	for path, v := range map[string]any{"rows": &m.inputs.Rows, "labels": &m.inputs.Labels,
		"trained_tokens":  &m.inputs.Trained,
		"logit_positions": &m.inputs.LogitPositions, "hidden_positions": &m.inputs.HiddenPositions,
		"vocab_ids": &m.inputs.VocabIDs, "hidden_columns": &m.inputs.HiddenColumns} {
		if !j.get("inputs."+path, v) {
			return fmt.Errorf("golden.json: inputs.%s cannot be used", path)
		}
	}
	in := m.inputs
	if err := in.check(m.c); err != nil {
		return fmt.Errorf("golden.json: %w", err)
	}
	var counts []float64
	for r, ids := range in.Rows {
		m.rows = append(m.rows, model.Batch{IDs: ids, Labels: in.Labels[r], CuSeqlens: []int32{0, int32(len(ids))}})
		counts = append(counts, float64(m.rows[r].Targets()))
	}
	m.compare("trained tokens", j.key("inputs.trained_tokens"), farthest(counts, in.Trained), exact)
	j.compare("trained tokens", "forward.trained_tokens", float64(trained(m.rows)), exact)
	j.compare("parameters", "parameters", float64(m.c.ParamCount()), exact)
	m.compare("inv_freq", j.key("inv_freq"), relatives(m.c.InvFreq(1), j.numbers("inv_freq")), limitInvFreq)

	j.compare("generator", "generator.scale", scale, exact)
	hash := ""
	j.get("generator.hash_of_index_0_of_stream_vocab", &hash)
	vocab, hidden := newStream(m.seed, "vocab"), newStream(m.seed, "hidden")
	m.compare("generator", j.key("generator.hash_of_index_0_of_stream_vocab"),
		differ(hash == fmt.Sprintf("%016x", vocab.hash(0))), exact)
	m.compare("generator", j.key("inputs.vocab_ids"), drawnApart(vocab, m.c.Vocab, in.VocabIDs), exact)
	m.compare("generator", j.key("inputs.hidden_columns"), drawnApart(hidden, m.c.Dim, in.HiddenColumns), exact)
	return nil
}

// check returns an error for inputs that are out of the model's range.
func (in fullInputs) check(c model.Config) error {
	n := len(in.Rows)
	if n == 0 || len(in.Labels) != n || len(in.LogitPositions) != n || len(in.HiddenPositions) != n {
		return fmt.Errorf("inputs are not of one number of rows")
	}
	inside := func(list []int, limit int) bool {
		for _, x := range list {
			if x < 0 || x >= limit {
				return false
			}
		}
		return true
	}
	for r, ids := range in.Rows {
		if len(ids) == 0 || len(in.Labels[r]) != len(ids) || !inside(in.LogitPositions[r], len(ids)) ||
			!inside(in.HiddenPositions[r], len(ids)) {
			return fmt.Errorf("inputs: row %d has positions or labels that are not there", r)
		}
	}
	if !inside(in.VocabIDs, c.Vocab) || !inside(in.HiddenColumns, c.Dim) {
		return fmt.Errorf("inputs: vocab_ids or hidden_columns are outside of the model")
	}
	return nil
}

// drawnApart counts the numbers below limit that differ from the stream's.
func drawnApart(s stream, limit int, list []int) (n float64) {
	for i, x := range list {
		n += differ(int(s.hash(i)%uint64(limit)) == x)
	}
	return n
}

// quick returns the stages of the short row's forward pass, and of the first layer of the other rows, where RoPE's
// scaling shows.
func (m *fullFolder) quick() []stage {
	var work []stage
	for _, t := range []tensor.DType{tensor.F32, tensor.BF16} {
		work = append(work, stage{"the first block", 0.3, func() error {
			c := m.c
			c.Layers = 1
			if err := m.open(c, model.Options{DType: t, MaxTokens: tokens(m.rows)}); err != nil {
				return err
			}
			if err := m.eachFused(t, func() error { return m.firstBlock(m.l) }); err != nil {
				return err
			}
			return m.close()
		}})
		if m.o.whole != nil && !slices.Contains(m.o.whole, t) {
			continue
		}
		work = append(work, stage{"weights", 0.5, func() error {
			return m.open(m.c, model.Options{DType: t, MaxTokens: len(m.rows[0].IDs)})
		}})
		work = append(work, stage{"the first row", 0.3, func() error {
			err := m.eachFused(t, func() error {
				loss, err := m.l.Loss(m.batch(m.rows[0]))
				if err != nil {
					return err
				}
				m.compareLoss(t, 0, loss)
				return m.forward(m.l, t, 0)
			})
			if err != nil {
				return err
			}
			return m.close()
		}})
	}
	return work
}

func (m *fullFolder) eachFused(t tensor.DType, f func() error) error {
	for _, fused := range m.o.Fused {
		m.d.SetFused(fused)
		m.computedIn(t, fused)
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// whole returns all stages: in float32 forward, greedy, gradients, AdamW and SGD with each set of fused operations, and
// then the same in BF16 without the steps. Weights that a step has moved are generated again.
func (m *fullFolder) whole() []stage {
	longest := 0
	for _, b := range m.rows {
		longest = max(longest, len(b.IDs))
	}
	options := model.Options{MaxTokens: longest, Train: true, Recompute: model.RecomputeLayer}
	share := func(r int) float64 { return float64(len(m.rows[r].IDs)) / float64(tokens(m.rows)) }
	var work []stage
	add := func(cost float64, what string, run func() error) { work = append(work, stage{what, cost, run}) }
	for _, t := range []tensor.DType{tensor.F32, tensor.BF16} {
		speed := map[tensor.DType]float64{tensor.F32: 1, tensor.BF16: 0.4}[t]
		add(0.3, "weights", func() error {
			options.DType = t
			return m.open(m.c, options)
		})
		for i, fused := range m.o.Fused {
			add(0, "settings", func() error {
				m.d.SetFused(fused)
				m.computedIn(t, fused)
				return nil
			})
			for r := len(m.rows) - 1; r >= 0; r-- { // the long row first, while there are no gradients
				add(speed*share(r), fmt.Sprintf("row %d forward, %v", r, t), func() error { return m.forward(m.l, t, r) })
			}
			if m.j.hasAny("greedy.") {
				add(0.2*speed, fmt.Sprintf("greedy, %v", t), func() error { return m.greedy(m.l, t) })
			}
			add(4*speed, fmt.Sprintf("gradients, %v", t), func() error { return m.gradients(m.l, t) })
			if t == tensor.BF16 {
				continue
			}
			if m.j.hasAny("adamw.") {
				for _, path := range m.adamwPaths() {
					add(1.2, "a step of AdamW", func() error { return m.adamw(m.l, path) })
					add(0.2, "weights", func() error { return m.fill(m.l) })
				}
			}
			if m.j.hasAny("sgd.") {
				add(11, "steps of SGD", func() error { return m.sgd(m.l) })
				if i+1 < len(m.o.Fused) {
					add(0.2, "weights", func() error { return m.fill(m.l) })
				}
			}
		}
		add(0, "memory", m.close)
	}
	return work
}

// open creates the model that stages work with, from generated weights.
func (m *fullFolder) open(c model.Config, o model.Options) (err error) {
	if m.l, err = model.New(m.d, c, o); err != nil {
		return err
	}
	return m.fill(m.l)
}

func (m *fullFolder) close() error {
	l := m.l
	m.l = nil
	if l == nil {
		return nil
	}
	return l.Close()
}
