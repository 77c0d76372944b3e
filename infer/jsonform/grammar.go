package jsonform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"restyle/infer"
)

var forbidden = float32(math.Inf(-1))

// A Grammar holds the documents of a schema in the tokens of a vocabulary. It is safe for concurrent use, and what it
// finds out for one answer helps the next.
type Grammar struct {
	vocabulary *Vocabulary
	first      []int32
	start      *node

	mu      sync.Mutex // for what follows
	machine *machine
	path    []config
}

// Around is what an answer has besides the document.
type Around struct {
	First         []int32 // tokens that it starts with, which may be special ones
	Before, After string  // text before and after the document
}

// Compile compiles a JSON schema. An error names the keyword that is not supported, and where.
func Compile(schema []byte, v *Vocabulary, around Around) (*Grammar, error) {
	v.compiling.Lock()
	defer v.compiling.Unlock()
	a, err := compile(schema, v.ascii, around)
	if err != nil {
		return nil, err
	}
	m := newMachine(a)
	g := &Grammar{vocabulary: v, first: slices.Clone(around.First), machine: m}
	g.start = m.node([]item{{state: a.leaves[0].start}}, m.deep)
	g.path = make([]config, v.depth+1)
	return g, nil
}

// New returns the constraint of one answer.
func (g *Grammar) New() infer.Constraint {
	return &constraint{g: g, at: config{top: g.start}}
}

// A constraint is where an answer is.
type constraint struct {
	g       *Grammar
	done    int // of Grammar.first
	at      config
	last    []byte // the token after at, by which Prepare advances
	ready   bool
	allowed []uint64 // the tokens that may come, once ready
	spent   int      // items that masks have gone through beyond cheap
}

// ErrCostly is the error for an answer whose grammar takes too much time.
var ErrCostly = errors.New("the schema takes too long to follow: make its patterns simpler, with fewer optional and " +
	"repeated parts that may be at the same place")

// Prepare implements infer.Constraint.
func (c *constraint) Prepare(ctx context.Context) {
	if c.ready {
		return
	}
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.allowed == nil {
		c.allowed = make([]uint64, g.vocabulary.words)
	}
	if c.done < len(g.first) {
		clear(c.allowed)
		c.allow(g.first[c.done])
		c.ready = true
		return
	}
	c.advance()
	m := meter{ctx: ctx, slow: &g.vocabulary.slow}
	defer m.end()
	g.allow(c.allowed, c.at, &m)
	if g.machine.complete(c.at) {
		for _, id := range g.vocabulary.ends {
			c.allow(id)
		}
	}
	c.spent += max(0, m.spent-cheap)
	c.ready = !m.gone
}

// advance moves on by the last token. g.mu is locked.
func (c *constraint) advance() {
	for i, b := range c.last {
		if !c.g.machine.next(&c.at, b) {
			panic(fmt.Sprintf("jsonform: a mask allowed token %q, whose byte %d, %q, does not fit the schema", c.last, i, b))
		}
	}
	c.last = nil
}

func (c *constraint) allow(id int32) { c.allowed[id/64] |= 1 << (id % 64) }

// Mask implements infer.Constraint.
func (c *constraint) Mask(logits []float32) {
	c.Prepare(context.Background())
	apply(logits, c.allowed)
}

// Accept implements infer.Constraint. After Mask it never waits: other answers may be preparing for a long time.
func (c *constraint) Accept(id int32) error {
	c.Prepare(context.Background())
	g := c.g
	c.ready = false
	if c.spent > maxSpent {
		return ErrCostly
	}
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
	if c.allowed[id/64]>>(id%64)&1 == 0 {
		return fmt.Errorf("token %q cannot come here: it does not fit the schema", text)
	}
	c.last = text
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
