package serve

import (
	"crypto/rand"
	"encoding/binary"
	"math"

	"restyle/chat/toolcalls"
	"restyle/infer"
	"restyle/infer/jsonform"
)

// What a request may ask for at most, besides the limits of Options.
const (
	maxChoices = 64   // answers of a request
	maxStops   = 32   // stop strings; OpenAI has 4, but programs that complete code send more
	maxStop    = 1024 // bytes of one
	maxTop     = 20   // most probable tokens with their log probabilities
)

// mostProbable is a nucleus of only the most probable token, which clients ask for by 0. The GPU can still draw from
// it.
const mostProbable = 1e-9

// A question is one request to a model, whichever API it came by.
type question struct {
	model    *Model
	prompts  [][]int32
	options  infer.Options // of the first answer: each has the next seed
	n        int           // answers to each prompt
	logprobs bool
	top      int
	key      string
	streamed bool
	usage    bool              // streams end with the number of tokens
	grammar  *jsonform.Grammar // of the answers; nil: any text
	tools    toolcalls.Set
	form     toolcalls.Form // of calls, if there are tools
	oneCall  bool           // an answer calls one tool at most
}

// choices returns the number of answers.
func (q *question) choices() int { return len(q.prompts) * q.n }

// sampling reads how to choose tokens. What a request leaves out is what the model's authors suggest, as in vLLM; if
// they suggest nothing, it is what OpenAI documents: temperature 1 and all tokens. A temperature is the client's own
// choice: with it, nothing of what they suggest is taken, as in chat.
func (b *body) sampling(m *Model) (s infer.Sampling) {
	s.Temperature = 1
	if by := m.Codec.Suggested; by != nil && !b.has("temperature") {
		s = *by
	}
	number(b, "temperature", &s.Temperature, 0, 100)
	if s.Temperature < 1e-5 {
		s.Temperature = 0 // what libraries send that leave out zeros
	}
	if number(b, "top_p", &s.TopP, 0, 1) {
		s.TopP = max(s.TopP, mostProbable) // 0 is all tokens in a Sampling only
	}
	number(b, "min_p", &s.MinP, 0, 1)
	number(b, "repetition_penalty", &s.RepetitionPenalty, math.SmallestNonzeroFloat32, 100)
	if number(b, "top_k", &s.TopK, -1, math.MaxInt32) {
		s.TopK = max(s.TopK, 0) // -1 is vLLM's name for all
	}
	var seed int64
	if number(b, "seed", &seed, math.MinInt64, math.MaxInt64) {
		s.Seed = uint64(seed)
	} else {
		var random [8]byte
		rand.Read(random[:])
		s.Seed = binary.LittleEndian.Uint64(random[:])
	}
	return s
}

// has reports whether a field is there and not null.
func (b *body) has(name string) bool {
	raw, there := b.fields[name]
	return there && string(raw) != "null"
}

// question reads what all APIs have in common: the model, and how it answers. The first of maxTokens that is there
// is the maximum number of tokens; stop is the field of stop strings.
func (s *Server) question(b *body, key, stop string, maxTokens ...string) *question {
	q := &question{n: 1, key: key}
	var name string
	b.read("model", &name)
	b.read("stream", &q.streamed)
	m, err := s.model(name)
	if err != nil {
		b.fail(err)
		return q
	}
	q.model = m
	q.options.Sampling = b.sampling(m)
	for i := len(maxTokens) - 1; i >= 0; i-- { // so that the first one counts
		number(b, maxTokens[i], &q.options.MaxTokens, 1, math.MaxInt32)
	}
	b.read("ignore_eos", &q.options.IgnoreEnd)
	q.options.Stop = b.texts(stop)
	if len(q.options.Stop) > maxStops {
		b.fail(refuse(stop, "at most %d texts, not %d", maxStops, len(q.options.Stop)))
	}
	for _, text := range q.options.Stop {
		if text == "" || len(text) > maxStop {
			b.fail(refuse(stop, "a text of from 1 to %d bytes, not of %d", maxStop, len(text)))
		}
	}
	return q
}

// choicesField reads how many answers there are. All wait at once before the first of them runs.
func (s *Server) choicesField(b *body, q *question) {
	number(b, "n", &q.n, 1, maxChoices)
	switch n := q.choices(); {
	case n > maxChoices:
		b.fail(refuse("n", "at most %d answers in one request, not %d", maxChoices, n))
	case 0 < s.options.Queue && s.options.Queue < n:
		b.fail(refuse("n", "at most %d answers in one request, as many as may wait (--queue), not %d", s.options.Queue, n))
	}
}

// streamOptions reads whether a stream ends with the number of tokens.
func (b *body) streamOptions(q *question) {
	var o struct {
		IncludeUsage bool `json:"include_usage"`
	}
	if b.read("stream_options", &o) && !q.streamed {
		b.fail(refuse("stream_options", "only with stream"))
	}
	q.usage = o.IncludeUsage
}
