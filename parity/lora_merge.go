package parity

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"restyle/hf"
	"restyle/model"
	"restyle/tensor"
)

// trained compares the logits with the saved adapter, and with the adapter merged into the base.
func (m *loraFolder) trained(b model.Batch) error {
	l, err := m.open(m.options(tensor.F32, b))
	if err != nil {
		return err
	}
	before, err := m.weights(l)
	if err == nil {
		err = m.a.Load(context.Background(), m.d, l.Params())
	}
	after, errAfter := m.weights(l)
	if err := errors.Join(err, errAfter); err != nil {
		return errors.Join(err, l.Close())
	}
	for _, p := range m.own(l) {
		if m.o.mistake.adapter == nil {
			break
		}
		x := m.o.mistake.adapter(p.Name, after[p.Name])
		if x == nil {
			x = before[p.Name]
		}
		m.d.Upload(p.W, x)
	}
	apart, err := m.logits(l, b)
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	if l, err = model.New(m.d, m.c, model.Options{DType: tensor.F32, MaxTokens: len(b.IDs)}); err != nil {
		return err
	}
	err = m.merged[tensor.F32].Load(context.Background(), m.d, l.Params(), nil)
	var together []float32
	if err == nil {
		together, err = m.logits(l, b)
	}
	m.compare("logits, trained", m.g.key("logits.trained"), byNorm(apart, m.live("logits.trained")), limitOutput)
	m.compare("logits, merged", m.g.key("logits.merged"), byNorm(together, m.live("logits.merged")), limitOutput)
	m.property("merged logits from unmerged", "", byNorm(together, apart), limitOutput)
	return errors.Join(err, l.Close())
}

// merge merges the adapter into the base in both types, and compares the weights.
func (m *loraFolder) merge() error {
	for _, t := range []tensor.DType{tensor.F32, tensor.BF16} {
		if err := m.mergeInto(t); err != nil {
			return err
		}
	}
	return m.compareMerged()
}

// mergeInto saves the base in a type and merges the adapter into that, as export does.
func (m *loraFolder) mergeInto(t tensor.DType) error {
	l, err := m.open(model.Options{DType: tensor.F32})
	if err != nil {
		return err
	}
	dir := filepath.Join(m.temp, t.String())
	err = hf.Save(dir, m.ck, m.d, l.Params(), hf.SaveOptions{DType: t})
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	base, err := hf.OpenModel(dir)
	if err != nil {
		return err
	}
	defer base.Close()
	merge := hf.Merge{Base: base, Changes: m.a.Changes()}
	tensors, err := merge.Tensors(context.Background())
	if err != nil {
		return err
	}
	dir += " merged"
	if err := hf.SaveTensors(dir, base, tensors, hf.SaveOptions{}); err != nil {
		return err
	}
	m.merged[t], err = hf.OpenModel(dir)
	return err
}

// compareMerged compares the merged matrices. PEFT's float32 sums are in another order, so their bits are not ours, and
// only the recorded matrices can be compared. What was rounded to BF16 can be told from its hash.
func (m *loraFolder) compareMerged() error {
	changed := 0 // by safe_merge, which rounds twice
	once := true
	for _, name := range m.a.Names() {
		module, ok := strings.CutSuffix(name, endA)
		if !ok {
			continue
		}
		name := module + ".weight"
		x, err := m.sum(module)
		if err != nil {
			return err
		}
		m.property("merged float32 from the formula", name, byNorm(x.f32, x.truth), limitMerged)
		if key := "merged." + name; m.g.has(key) {
			m.compare("merged float32", m.g.key(key), byNorm(x.f32, m.g.floats(key)), limitMerged)
		}
		limit := max(limitTurned, 1/float64(len(x.bf16)))
		if key := "merged_bf16." + name; m.g.has(key) {
			m.compare("merged BF16", m.g.key(key), x.turned(m.g.floats(key)), limit)
		}
		if key := "merged_bf16_safe." + name; m.g.has(key) {
			once, twice := m.g.floats("merged_bf16."+name), m.g.floats(key)
			for i := range min(len(once), len(twice)) {
				changed += int(differ(once[i] == twice[i]))
			}
		}
		m.storedHashes(name)
		var hash string
		path := "merge.sha256_bf16." + name
		m.j.get(path, &hash)
		found := x.find(hash)
		once = once && found != nil
		m.compare("sha256 of merged BF16", m.j.key(path), x.turned(found), limit)
	}
	j := m.j
	var recorded bool
	j.get("merge.bf16_is_the_float32_sum_rounded_once", &recorded)
	m.compare("one rounding", j.key("merge.bf16_is_the_float32_sum_rounded_once"), differ(once == recorded), exact)
	j.compare("elements that two roundings change", "merge.elements_where_safe_differs", float64(changed), exact)
	for _, prefix := range []string{"merge.sha256_float32.", "merge.sha256_bf16_safe.", "merge.logits_error"} {
		j.strikeAll(prefix, yardstick)
	}
	return m.baseHashes()
}

// storedHashes compares the hashes of the matrices that are recorded with what is recorded.
func (m *loraFolder) storedHashes(name string) {
	for stored, path := range map[string]string{"merged.": "merge.sha256_float32.",
		"merged_bf16.": "merge.sha256_bf16.", "merged_bf16_safe.": "merge.sha256_bf16_safe."} {
		if !m.g.has(stored + name) {
			continue
		}
		var hash string
		m.j.get(path+name, &hash)
		x := m.g.floats(stored + name)
		off := differ(hash == hashOf(x, strings.Contains(stored, "bf16")))
		m.compare("sha256 of a recorded matrix", m.g.key(stored+name), off, exact)
		m.compare("sha256 of a recorded matrix", m.j.key(path+name), off, exact)
	}
}

// baseHashes compares the dequantized weights of a base in NF4.
func (m *loraFolder) baseHashes() error {
	for path := range m.j.values {
		rest, ok := strings.CutPrefix(path, "base.sha256.")
		if !ok {
			continue
		}
		name, half := strings.CutSuffix(rest, ".bf16")
		w, _, err := m.ck.ReadF32(strings.TrimSuffix(name, ".float32"))
		if err != nil {
			return err
		}
		var hash string
		m.j.get(path, &hash)
		m.compare("sha256 of the dequantized base", m.j.key(path), differ(hash == hashOf(w, half)), exact)
	}
	return nil
}

// hashOf returns the hash of numbers as they are stored, in float32 or BF16.
func hashOf(x []float32, half bool) string {
	var data []byte
	for _, v := range x {
		if half {
			data = binary.LittleEndian.AppendUint16(data, tensor.BF16FromF32(v))
		} else {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// A sum is a merged matrix.
type sum struct {
	f32, bf16 []float32 // ours
	truth     []float64 // W + s·B·A
	truth16   []float64 // of a base that is rounded to BF16
	slack     []float64 // how far a float32 sum in another order may be from that
}

func (m *loraFolder) sum(module string) (x sum, err error) {
	name := module + ".weight"
	w, shape, err := m.ck.ReadF32(name)
	a, _, errA := m.a.ReadF32(module + endA)
	b, _, errB := m.a.ReadF32(module + endB)
	if err := errors.Join(err, errA, errB); err != nil {
		return x, err
	}
	rank, scale, _ := m.a.Spec.Of(module)
	in := shape[1]
	for i, v := range w {
		delta, size := 0.0, 0.0
		for k := range rank {
			term := scale * float64(b[i/in*rank+k]) * float64(a[k*in+i%in])
			delta, size = delta+term, size+math.Abs(term)
		}
		low := float64(tensor.RoundBF16(v))
		x.truth, x.truth16 = append(x.truth, float64(v)+delta), append(x.truth16, low+delta)
		x.slack = append(x.slack, (float64(rank+1)*size+math.Abs(low))/(1<<24))
	}
	x.f32, _, err = m.merged[tensor.F32].ReadF32(name)
	x.bf16, _, errB = m.merged[tensor.BF16].ReadF32(name)
	if other := "merged_bf16_safe." + name; m.o.mistake.merged != nil && m.g.has(other) {
		x.bf16 = m.o.mistake.merged(x.bf16, m.g.floats(other))
	}
	return x, errors.Join(err, errB)
}

// turned returns the share of our BF16 numbers that another order of the sum rounds otherwise, or +Inf if the order
// cannot explain a difference.
func (x *sum) turned(want []float32) float64 {
	if len(x.bf16) != len(want) {
		return math.Inf(1)
	}
	n := 0
	for i, v := range x.bf16 {
		apart := math.Abs(float64(v) - float64(want[i]))
		if ulps := place(v) - place(want[i]); ulps*ulps > 1 && !(apart <= 2*x.slack[i]) {
			return math.Inf(1)
		}
		n += int(differ(v == want[i]))
	}
	return float64(n) / float64(len(want))
}

// place numbers the BF16 numbers in order; the number 0 has place 0.
func place(v float32) int {
	bits := int(tensor.BF16FromF32(v))
	if bits >= 0x8000 {
		return 0x8000 - bits
	}
	return bits
}

// numberAt returns the number of a place.
func numberAt(place int) float32 {
	if place < 0 {
		place = 0x8000 - place
	}
	return tensor.BF16ToF32(uint16(place))
}

// maxUnsure limits what find tries; of five thousand elements about one is unsure.
const maxUnsure = 64

// find returns the BF16 matrix with a hash: the truth rounded, but for at most three elements that the order of the sum
// decides, because the truth is near the middle of two numbers, or terms have canceled. If there is none, it returns
// nil.
func (x *sum) find(hash string) []float32 {
	type choice struct {
		at    int
		value float32
	}
	var choices []choice
	matrix := make([]float32, len(x.truth16))
	for i, v := range x.truth16 {
		matrix[i] = tensor.RoundBF16(float32(v))
		from, to := place(float32(v-x.slack[i])), place(float32(v+x.slack[i]))
		for n := from; n <= to && len(choices) <= maxUnsure; n++ {
			if n != place(matrix[i]) {
				choices = append(choices, choice{i, numberAt(n)})
			}
		}
	}
	var try func(from, left int) bool
	try = func(from, left int) bool {
		if hashOf(matrix, true) == hash {
			return true
		}
		for n := from; left > 0 && n < len(choices); n++ {
			c := choices[n]
			was := matrix[c.at]
			if matrix[c.at] = c.value; try(n+1, left-1) {
				return true
			}
			matrix[c.at] = was
		}
		return false
	}
	if len(choices) > maxUnsure || !try(0, 3) {
		return nil
	}
	return matrix
}
