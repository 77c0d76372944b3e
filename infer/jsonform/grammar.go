package jsonform

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"restyle/infer"
)

var forbidden = float32(math.Inf(-1))

// A Grammar is the documents of a schema in the tokens of a vocabulary. It is safe for concurrent use, and what it
// finds out for one answer helps the next.
type Grammar struct {
	vocabulary *Vocabulary
	first      []int32
	start      *node

	mu      sync.Mutex // for what follows
	machine *machine
	path    []config
	allowed []uint64
}

// Around is what an answer has besides the document.
type Around struct {
	First         []int32 // tokens that it begins with, which may be special ones
	Before, After string  // text before and after the document
}

// Compile compiles a JSON schema. An error names the keyword that is not supported, and where.
func Compile(schema []byte, v *Vocabulary, around Around) (*Grammar, error) {
	a, err := compile(schema, v.ascii, around)
	if err != nil {
		return nil, err
	}
	m := newMachine(a)
	g := &Grammar{vocabulary: v, first: slices.Clone(around.First), machine: m}
	g.start = m.node([]item{{state: a.leaves[0].start}}, m.deep)
	g.path = make([]config, v.depth+1)
	g.allowed = make([]uint64, v.words)
	return g, nil
}

// AnyObject returns the grammar of all JSON objects, as response_format json_object asks for.
func AnyObject(v *Vocabulary) (*Grammar, error) {
	return Compile([]byte(`{"type": "object"}`), v, Around{})
}

// New returns the constraint of one answer.
func (g *Grammar) New() infer.Constraint {
	return &constraint{g: g, at: config{top: g.start}}
}

// A constraint is where an answer is.
type constraint struct {
	g    *Grammar
	done int // of Grammar.first
	at   config
}

// Mask implements infer.Constraint.
func (c *constraint) Mask(logits []float32) {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.done < len(g.first) {
		keep := g.first[c.done]
		for i := range logits {
			if int32(i) != keep {
				logits[i] = forbidden
			}
		}
		return
	}
	ends := make([]float32, len(g.vocabulary.ends))
	for i, id := range g.vocabulary.ends {
		if int(id) < len(logits) {
			ends[i] = logits[id]
		}
	}
	g.allow(g.allowed, c.at)
	apply(logits, g.allowed)
	if g.machine.complete(c.at) {
		for i, id := range g.vocabulary.ends {
			if int(id) < len(logits) {
				logits[id] = ends[i]
			}
		}
	}
}

// Accept implements infer.Constraint.
func (c *constraint) Accept(id int32) error {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.done < len(g.first) {
		if id != g.first[c.done] {
			return fmt.Errorf("token %d does not begin the answer: %d does", id, g.first[c.done])
		}
		c.done++
		return nil
	}
	text := g.vocabulary.text(id)
	if text == nil {
		return fmt.Errorf("token %d cannot be part of JSON", id)
	}
	at := c.at
	for i, b := range text {
		if !g.machine.next(&at, b) {
			return fmt.Errorf("token %q cannot come here: its byte %d, %q, does not fit the schema", text, i, b)
		}
	}
	c.at = at
	return nil
}

// Check reports whether a text is a document of the grammar, with what is around it.
func (g *Grammar) Check(text string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := config{top: g.start}
	for i := range len(text) {
		if !g.machine.next(&at, text[i]) {
			return fmt.Errorf("byte %d, %q, does not fit the schema", i, text[i])
		}
	}
	if !g.machine.complete(at) {
		return errors.New("it is not complete")
	}
	return nil
}
