package parity

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/model"
	"restyle/tensor"
)

// greedyRun is one continuation in greedy.json. Each step takes the token with the largest logit, even if it is an end
// token.
type greedyRun struct {
	at                         string // its path in the file
	prompt, continuation       []int32
	gap                        []float64
	text                       string
	ids, gaps, texts, smallest string // their names in the ledger
}

func (m *modelFolder) greedyRuns(file string) ([]greedyRun, *values, error) {
	j, err := m.values(file)
	if err != nil {
		return nil, nil, err
	}
	var runs []greedyRun
	for i := 0; j.hasAny(fmt.Sprintf("runs.%d.", i)); i++ {
		at := fmt.Sprintf("runs.%d.", i)
		r := greedyRun{at: at, gap: j.numbers(at + "gap"), ids: j.key(at + "continuation"), gaps: j.key(at + "gap"),
			texts: j.key(at + "text"), smallest: j.key(at + "smallest_gap")}
		j.get(at+"prompt", &r.prompt)
		j.get(at+"continuation", &r.continuation)
		if j.has(at + "text") { // without a vocabulary there is none
			j.get(at+"text", &r.text)
		}
		j.strike(at+"prompt", input)
		if len(r.prompt) == 0 || len(r.continuation) == 0 {
			return nil, nil, fmt.Errorf("%s: run %d has no prompt or no continuation", file, i)
		}
		runs = append(runs, r)
	}
	return runs, j, nil
}

// cachedRuns returns the name of the file with the continuations by a KV cache.
func (m *modelFolder) cachedRuns() string {
	if m.hasFile("greedy_cached.json") {
		return "greedy_cached.json" // others than without one: keys stay as they were, whatever the length
	}
	return "greedy.json"
}

// greedy continues each prompt with a KV cache, token by token, and compares the logits with the logits of one pass
// over the whole sequence, or of a pass for each token if that makes a difference.
func (m *modelFolder) greedy() error {
	file := m.cachedRuns()
	runs, j, err := m.greedyRuns(file)
	if err != nil || len(runs) == 0 {
		return err
	}
	pieces, err := m.pieces()
	if err != nil {
		return err
	}
	l, c, err := m.openCached(runs, tensor.F32)
	if err != nil {
		return err
	}
	defer l.Close()
	defer c.Close()
	for _, r := range runs {
		var ids []int32
		var gaps []float64
		c.Trim(0)
		logits, err := l.Extend(c, r.prompt)
		for range r.continuation {
			if err != nil {
				return err
			}
			best, gap := topTwo(logits)
			ids, gaps = append(ids, best), append(gaps, gap)
			logits, err = l.Extend(c, ids[len(ids)-1:])
		}
		m.compareRun(r, j, pieces, ids, gaps)
		if file != "greedy.json" {
			continue
		}
		at := len(r.prompt) - 1
		var all []float64
		var tops []int32
		err = l.Logits(model.OneSequence(append(slices.Clone(r.prompt), r.continuation...)),
			func(position int, logits []float32) {
				if position >= at && len(all) < len(r.gap) {
					best, gap := topTwo(logits)
					all, tops = append(all, gap), append(tops, best)
				}
			})
		if err != nil {
			return err
		}
		m.compare("greedy ids, uncached", r.ids, differing(tops, r.continuation), exact)
		m.compare("greedy gaps, uncached", r.gaps, farthest(all, r.gap), limitGap)
	}
	if file != "greedy.json" {
		return m.greedyUncached()
	}
	return nil
}

// compareRun compares one continuation, and the gaps between the two largest logits.
func (m *modelFolder) compareRun(r greedyRun, j *values, pieces *pieces, ids []int32, gaps []float64) {
	m.compare("greedy ids", r.ids, differing(ids, r.continuation), exact)
	m.compare("greedy gaps", r.gaps, farthest(gaps, r.gap), limitGap)
	m.compare("greedy gaps", r.smallest, math.Abs(slices.Min(gaps)-j.number(r.at+"smallest_gap")), limitGap)
	if pieces != nil {
		m.compare("greedy text", r.texts, differ(pieces.text(append(slices.Clone(r.prompt), ids...)) == r.text), exact)
	}
}

// greedyBeyond continues prompts beyond the positions of the model: each token comes from a pass over the last block
// tokens, whose positions begin at 0.
func (m *modelFolder) greedyBeyond() error {
	runs, j, err := m.greedyRuns("greedy_beyond.json")
	if err != nil {
		return err
	}
	j.compare("block", "block", float64(m.c.MaxPositions), exact)
	pieces, err := m.pieces()
	if err != nil {
		return err
	}
	return m.uncached(runs, j, pieces, m.c.MaxPositions)
}

// differing counts the ids that differ.
func differing(ids, want []int32) float64 {
	if len(ids) != len(want) {
		return math.Inf(1)
	}
	n := 0.0
	for i := range ids {
		n += differ(ids[i] == want[i])
	}
	return n
}

// greedyBF16 feeds the recorded continuation. BF16 need not agree where two tokens are close.
func (m *modelFolder) greedyBF16() error {
	runs, _, err := m.greedyRuns(m.cachedRuns())
	if err != nil || len(runs) == 0 {
		return err
	}
	l, c, err := m.openCached(runs, tensor.BF16)
	if err != nil {
		return err
	}
	defer l.Close()
	defer c.Close()
	for _, r := range runs {
		c.Trim(0)
		worst, err := fed(l, c, r.prompt, r.continuation, r.gap)
		if err != nil {
			return err
		}
		m.compare("largest gap at which the next token differs", r.gaps, worst, limitGapBF16)
	}
	return nil
}

// fed feeds a continuation, and returns the largest recorded gap at which another token had the largest logit.
func fed(l *model.Model, c *model.KVCache, prompt, continuation []int32, gap []float64) (worst float64, err error) {
	if len(gap) != len(continuation) {
		return math.Inf(1), nil
	}
	logits, err := l.Extend(c, prompt)
	for i, id := range continuation {
		if err != nil {
			return 0, err
		}
		if best, _ := topTwo(logits); best != id {
			worst = max(worst, gap[i])
		}
		logits, err = l.Extend(c, []int32{id})
	}
	return worst, err
}

func (m *modelFolder) openCached(runs []greedyRun, t tensor.DType) (*model.Model, *model.KVCache, error) {
	longest := 0
	for _, r := range runs {
		longest = max(longest, len(r.prompt)+len(r.continuation))
	}
	l, err := m.open(model.Options{DType: t, MaxTokens: longest})
	if err != nil {
		return nil, nil, err
	}
	c, err := l.NewKVCache(longest)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, c, nil
}

// topTwo returns the token with the largest logit, the lowest of equal ones, and how far the second logit is below.
func topTwo(logits []float32) (best int32, gap float64) {
	first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for i, x := range logits {
		switch {
		case x > first:
			best, first, second = int32(i), x, first
		case x > second:
			second = x
		}
	}
	return best, float64(first) - float64(second)
}

// pieces are the texts of a vocabulary in llama2.c's form, or of one whose tokens are characters.
type pieces struct {
	Chars      []string
	BOS        int32
	BytePieces struct {
		First int32 `json:"first_id"`
		Last  int32 `json:"last_id"`
	} `json:"byte_pieces"`
	Pieces []string
}

// pieces reads vocab.json. It returns nil if there is none: then no text is compared, which the ledger reports.
func (m *modelFolder) pieces() (*pieces, error) {
	if !m.hasFile("vocab.json") {
		return nil, nil
	}
	j, err := m.values("vocab.json")
	if err != nil {
		return nil, err
	}
	j.strikeAll("", input)
	if m.hasFile("prompts.json") {
		p, err := m.values("prompts.json")
		if err != nil {
			return nil, err
		}
		p.strikeAll("", input)
	}
	p := &pieces{}
	if j.has("chars") {
		j.get("chars", &p.Chars)
		return p, nil
	}
	j.get("bos", &p.BOS)
	j.get("byte_pieces.first_id", &p.BytePieces.First)
	j.get("byte_pieces.last_id", &p.BytePieces.Last)
	j.get("pieces", &p.Pieces)
	return p, nil
}

// text returns ids as llama2.c prints them: without a <bos> at the beginning and the space that follows it. Each
// sequence that is not UTF-8 is replaced.
func (p *pieces) text(ids []int32) string {
	if p.Chars != nil {
		text := ""
		for _, id := range ids {
			text += p.Chars[id]
		}
		return text
	}
	previous := int32(-1)
	if ids[0] == p.BOS {
		previous, ids = ids[0], ids[1:]
	}
	var b bytes.Buffer
	for _, id := range ids {
		switch {
		case id < 0 || int(id) >= len(p.Pieces):
			return ""
		case id >= p.BytePieces.First && id <= p.BytePieces.Last:
			b.WriteByte(byte(id - p.BytePieces.First))
		case previous == p.BOS:
			b.WriteString(strings.TrimPrefix(p.Pieces[id], " "))
		default:
			b.WriteString(p.Pieces[id])
		}
		previous = id
	}
	return lossy(b.Bytes())
}

// lossy decodes bytes as UTF-8. In invalid bytes, each longest part that starts a character becomes one U+FFFD, as
// Unicode recommends and Python does; Go replaces each byte.
func lossy(raw []byte) string {
	var b strings.Builder
	for at := 0; at < len(raw); {
		r, size := utf8.DecodeRune(raw[at:])
		b.WriteRune(r)
		if r == utf8.RuneError && size == 1 {
			for at+size < len(raw) && !utf8.FullRune(raw[at:at+size+1]) {
				size++
			}
		}
		at += size
	}
	return b.String()
}
