package parity

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"restyle/hf"
	"restyle/model"
	"restyle/tensor"
)

func isRoPE(f *folder) bool { return f.hasFile("frequencies.jsonl") }

// compareRoPE compares the frequencies of configurations, and the configurations that have to be refused.
func compareRoPE(f *folder) error {
	if f.hasFile("variants.json") {
		v, err := f.values("variants.json") // what the models next to it were made from
		if err != nil {
			return err
		}
		v.strikeAll("", input)
	}
	err := f.eachLine("frequencies.jsonl", f.frequencies)
	if err != nil || !f.hasFile("bad.jsonl") {
		return err
	}
	return f.eachLine("bad.jsonl", f.bad)
}

// A ropeLine is a configuration, and what transformers computes from it, or that it is to be refused.
type ropeLine struct {
	Config    json.RawMessage
	Must, Key string
	InvFreq   map[string][]float64 `json:"inv_freq"` // by the positions of the pass; "any": for every number of them
	Attention *float64             `json:"attention_factor"`
}

func (f *folder) ropeLine(file string, n int, line []byte) (v ropeLine, key func(string) string, err error) {
	_, key, err = f.fields(file, n, line, "name", "config", "key", "fails_at", "error", "unusable", "warnings", "why",
		"transformers_computes", "rotary_dim")
	if err == nil {
		err = json.Unmarshal(line, &v)
	}
	return v, key, err
}

// otherFamily reports whether a model is refused because of its model_type: Phi-3's are recorded for their positions.
func otherFamily(err error) bool { return err != nil && strings.Contains(err.Error(), "model_type") }

func (f *folder) frequencies(n int, line []byte) error {
	v, key, err := f.ropeLine("frequencies.jsonl", n, line)
	if err != nil {
		return err
	}
	c, err := hf.ParseConfig(v.Config)
	switch {
	case otherFamily(err):
		f.strike(key("inv_freq"), unsupported)
		f.strike(key("attention_factor"), unsupported)
		return nil
	case err != nil:
		f.fail("frequencies", key("inv_freq"), err.Error())
		return nil
	}
	return f.compareFrequencies(f.config(c), v, key)
}

func (f *folder) compareFrequencies(c model.Config, v ropeLine, key func(string) string) error {
	worst := 0.0
	for at, want := range v.InvFreq {
		length, err := strconv.Atoi(at)
		if err != nil && at != "any" {
			return err
		}
		worst = max(worst, relatives(c.InvFreq(length), want))
	}
	if v.InvFreq != nil {
		f.compare("inv_freq", key("inv_freq"), worst, limitInvFreq)
	}
	if v.Attention != nil {
		f.compare("attention factor", key("attention_factor"), relative(c.RoPEScaling.Attention(), *v.Attention),
			limitAttention)
	}
	return nil
}

// bad compares what becomes of a mistake: an error that names the key, or the numbers that follow all the same.
func (f *folder) bad(n int, line []byte) error {
	v, key, err := f.ropeLine("bad.jsonl", n, line)
	if err != nil {
		return err
	}
	c, err := hf.ParseConfig(v.Config)
	switch {
	case otherFamily(err):
		f.strike(key("must"), unsupported)
	case v.Must == "refuse":
		f.compare("refused by its key", key("must"), differ(err != nil && strings.Contains(err.Error(), v.Key)), exact)
	default:
		f.compare("accepted", key("must"), differ(err == nil), exact)
		if err == nil {
			return f.compareFrequencies(c, v, key)
		}
	}
	for _, k := range []string{"inv_freq", "attention_factor"} { // what transformers computes all the same
		if f.has(key(k)) {
			f.strike(key(k), input)
		}
	}
	return nil
}

// ropeNotes enters what is recorded about RoPE in golden.json.
func (m *modelFolder) ropeNotes() {
	if !m.j.hasAny("rope.") {
		return
	}
	for _, note := range []string{"type", "rotary_dim", "border", "cached_prompt"} {
		m.j.strike("rope."+note, input)
	}
	for _, of := range []string{"cached_difference.", "one_pass_difference", "history."} {
		m.j.strikeAll("rope."+of, yardstick) // how far its own ways of computing are apart
	}
	m.j.compare("attention factor", "rope.attention_factor", m.c.RoPEScaling.Attention(), limitAttention)
}

// longestRow returns the number of positions in the pass of golden.safetensors.
func (m *modelFolder) longestRow() (n int) {
	for _, b := range m.g.rows("") {
		n = max(n, len(b.IDs))
	}
	return n
}

// rope compares the frequencies of passes of several lengths, and logits with and without a cache.
func (m *modelFolder) rope() error {
	g, err := m.tensors("rope.safetensors")
	if err != nil {
		return err
	}
	defer g.st.Close()
	rows, longest := m.g.rows(""), m.longestRow()
	if m.g.err != nil || len(rows) == 0 {
		return m.g.err
	}
	ids, scale := rows[0].IDs, m.c.RoPEScaling.Attention()
	for _, name := range m.with(open) {
		if at, ok := strings.CutPrefix(name, g.key("inv_freq.")); ok {
			name = "inv_freq." + at
			length, err := strconv.Atoi(at)
			if err != nil {
				return err
			}
			m.compare("inv_freq", g.key(name), relatives(m.c.InvFreq(length), float64s(g.floats(name))), limitInvFreq)
		}
	}
	if factor := g.floats("attention_factor"); factor != nil {
		m.compare("attention factor", g.key("attention_factor"), relatives([]float64{scale}, float64s(factor)),
			limitAttention)
	}
	var cos, sin []float64
	for p := range longest {
		for _, f := range m.c.InvFreq(longest) {
			s, c := math.Sincos(float64(p) * f)
			cos, sin = append(cos, c*scale), append(sin, s*scale)
		}
	}
	for name, ours := range map[string][]float64{"cos": cos, "sin": sin} {
		if truth := g.floats(name); truth != nil {
			m.compare(name, g.key(name), farthest(ours, truth), limitAngle)
		}
	}
	if !g.has("uncached.logits") && !g.has("cached.logits") {
		return g.err
	}
	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: longest})
	if err != nil {
		return err
	}
	defer l.Close()
	if g.has("uncached.logits") {
		var all []float32
		for n := range ids {
			last, err := lastLogits(l, ids[:n+1])
			if err != nil {
				return err
			}
			all = append(all, last...)
		}
		m.compare("logits, uncached", g.key("uncached.logits"), byNorm(all, g.floats("uncached.logits")), limitOutput)
	}
	if g.has("cached.logits") {
		all, err := cachedLogits(l, ids, int(m.j.input("rope.cached_prompt")))
		if err != nil {
			return err
		}
		m.compare("logits, cached", g.key("cached.logits"), byNorm(all, g.floats("cached.logits")), limitOutput)
	}
	return g.err
}

// cachedLogits returns the logits of each token: the prompt's from one pass, and the following ones' with a cache, a
// token at a time.
func cachedLogits(l *model.Model, ids []int32, prompt int) (all []float32, err error) {
	if prompt < 1 || prompt > len(ids) {
		return nil, fmt.Errorf("a prompt of %d of %d tokens", prompt, len(ids))
	}
	err = l.Logits(model.OneSequence(ids[:prompt]), func(position int, logits []float32) {
		if position < prompt-1 {
			all = append(all, logits...)
		}
	})
	if err != nil {
		return nil, err
	}
	c, err := l.NewKVCache(len(ids))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for n := prompt; n <= len(ids); n++ {
		logits, err := l.Extend(c, ids[c.Len():n])
		if err != nil {
			return nil, err
		}
		all = append(all, logits...)
	}
	return all, nil
}

// lastLogits returns the logits of the last position of a pass.
func lastLogits(l *model.Model, ids []int32) (last []float32, err error) {
	err = l.Logits(model.OneSequence(ids), func(position int, logits []float32) {
		if position == len(ids)-1 {
			last = slices.Clone(logits)
		}
	})
	return last, err
}

// greedyUncached continues each prompt by a pass of its own for each token, for a model whose frequencies depend on the
// length of the pass.
func (m *modelFolder) greedyUncached() error {
	runs, j, err := m.greedyRuns("greedy.json")
	if err != nil || len(runs) == 0 {
		return err
	}
	longest := 0
	for _, r := range runs {
		longest = max(longest, len(r.prompt)+len(r.continuation))
	}
	return m.uncached(runs, j, nil, longest)
}

// uncached continues each prompt by a pass of its own for each token, over the last window tokens.
func (m *modelFolder) uncached(runs []greedyRun, j *values, pieces *pieces, window int) error {
	l, err := m.open(model.Options{DType: tensor.F32, MaxTokens: window})
	if err != nil {
		return err
	}
	defer l.Close()
	for _, r := range runs {
		all := slices.Clone(r.prompt)
		var gaps []float64
		for range r.continuation {
			logits, err := lastLogits(l, all[max(0, len(all)-window):])
			if err != nil {
				return fmt.Errorf("%d tokens: %w", len(all), err)
			}
			best, gap := topTwo(logits)
			all, gaps = append(all, best), append(gaps, gap)
		}
		m.compareRun(r, j, pieces, all[len(r.prompt):], gaps)
	}
	return nil
}
