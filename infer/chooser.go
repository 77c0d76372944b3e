package infer

import (
	"errors"
	"fmt"
	"slices"

	"restyle/kernels"
	"restyle/tokenizer"
)

// A Chooser chooses the tokens of one answer from the model's logits, one after another, and turns them into text. It
// is the part of an answer that does not depend on how the model computes: Choose, then Take, until that gives a
// Reason.
type Chooser struct {
	o       Options
	sampler *Sampler
	ends    map[int32]bool
	stops   stops
	decode  func(id int32) string // nil if there is no tokenizer
	flush   func() string
	taken   int
	masked  []float32 // logits that the constraint has changed
}

// vocabulary is what answers of a model have in common.
type vocabulary struct {
	size      int // number of rows of the embedding
	ends      map[int32]bool
	Rules     Rules                                                      // of generation_config.json
	tokenizer *tokenizer.Tokenizer                                       // nil if there is none
	stream    func() (decode func(id int32) string, flush func() string) // nil if there is no tokenizer
}

func (codec Codec) vocabulary(size int) vocabulary {
	v := vocabulary{size: size, ends: map[int32]bool{}, Rules: codec.Rules, tokenizer: codec.Tokenizer}
	for _, id := range codec.Ends {
		v.ends[id] = true
	}
	if codec.Tokenizer != nil {
		v.stream = func() (func(int32) string, func() string) {
			s := codec.Tokenizer.Stream(true)
			return s.Add, s.Flush
		}
	}
	return v
}

// NewChooser returns a Chooser for the answer to a prompt, of a model whose logits are [vocab]. An empty prompt is an
// error, and so are ids outside the vocabulary and options that are out of range. A codec without a tokenizer gives no
// text.
func NewChooser(codec Codec, vocab int, prompt []int32, o Options) (*Chooser, error) {
	return codec.vocabulary(vocab).chooser(prompt, o)
}

func (v vocabulary) chooser(prompt []int32, o Options) (*Chooser, error) {
	switch {
	case len(prompt) == 0:
		return nil, errors.New("the prompt is empty: give at least one token")
	case o.MaxTokens < 0:
		return nil, fmt.Errorf("MaxTokens %d: must be a number of tokens, or 0 for as many as fit", o.MaxTokens)
	case slices.Contains(o.Stop, ""):
		return nil, errors.New("a stop string is empty: it would end every answer before its first token")
	case len(o.Stop) > 0 && v.stream == nil:
		return nil, errors.New("stop strings need a tokenizer, but this engine has none")
	}
	if v.tokenizer != nil {
		if err := v.tokenizer.CheckRows(prompt, v.size); err != nil {
			return nil, fmt.Errorf("the prompt: %w", err)
		}
	}
	for i, id := range prompt {
		if id < 0 || int(id) >= v.size {
			return nil, fmt.Errorf("token %d of the prompt is %d, outside the vocabulary of %d: use the model's own tokenizer",
				i, id, v.size)
		}
	}
	if o.RepetitionPenalty == 0 {
		o.RepetitionPenalty = v.Rules.RepetitionPenalty
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	sampler := newSampler(o.Sampling, prompt, v.Rules, v.ends)
	c := &Chooser{o: o, sampler: sampler, ends: v.ends, stops: stops{texts: o.Stop}}
	if v.stream != nil {
		c.decode, c.flush = v.stream()
	}
	return c, nil
}

// Greedy reports whether Choose takes the token with the highest logit, whatever came before.
func (c *Chooser) Greedy() bool { return c.o.Constraint == nil && c.sampler.greedy() }

// Device returns how a device may draw the next token, which is then given to Drew instead of the logits to Choose. It
// reports false if the token depends on more than the logits: on a repetition penalty, rules, or a constraint.
func (c *Chooser) Device() (how kernels.Draw, ok bool) {
	how, ok = c.sampler.device()
	return how, ok && c.o.Constraint == nil
}

// Drew records that a device has drawn a token.
func (c *Chooser) Drew(id int32) { c.sampler.drew(id) }

// Choose chooses the next token. It does not change logits. It is an error if no token can be chosen from them: the
// model is broken.
func (c *Chooser) Choose(logits []float32) (int32, error) {
	if c.o.Constraint != nil {
		c.masked = append(c.masked[:0], logits...)
		c.o.Constraint.Mask(c.masked)
		logits = c.masked
	}
	return c.sampler.Next(logits)
}

// Take adds a token to the answer. It returns the text that the token completed, which is often a word, sometimes
// nothing, never part of a character; and a reason if the answer ends here, with all text that was held back.
// Added tells whether the token is part of the answer: one that ends it is not.
func (c *Chooser) Take(id int32) (text string, added bool, reason Reason, err error) {
	if c.ends[id] && !c.o.IgnoreEnd {
		return c.Finish(), false, Stopped, nil
	}
	if c.o.Constraint != nil {
		if err := c.o.Constraint.Accept(id); err != nil {
			return "", false, "", err
		}
	}
	c.taken++
	if c.decode != nil {
		found := false
		if text, found = c.stops.push(c.decode(id)); found {
			return text, true, Stopped, nil
		}
	}
	if c.taken == c.o.MaxTokens {
		return text + c.Finish(), true, Length, nil
	}
	return text, true, "", nil
}

// Finish returns the text that was held back, when an answer ends for another reason: an incomplete character, and what
// could have become a stop string.
func (c *Chooser) Finish() string {
	if c.flush == nil {
		return ""
	}
	show, found := c.stops.push(c.flush())
	if !found {
		show += c.stops.rest()
	}
	return show
}
