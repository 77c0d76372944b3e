package batch

import (
	"errors"
	"fmt"
	"slices"

	"restyle/infer"
	"restyle/model"
)

// The errors of adapters.
var (
	ErrDropped = errors.New("the adapter has been dropped")
	ErrNoRoom  = errors.New("there is no room for the adapter beside the others")
)

// A Fault is the error of a panic, or of what a Batch runs on: the fault of this program or its machine, not of a
// request.
type Fault struct {
	What string // that failed
	Why  any    // the error, or what the panic was about
}

func (f *Fault) Error() string { return fmt.Sprintf("%s failed: %v", f.What, f.Why) }

// An Adapter is a low-rank adapter on a Batch's model, which answers in the same steps. It is safe for concurrent use.
type Adapter struct {
	b       *Batch
	codec   infer.Codec
	digest  string
	columns model.Columns
	held    bool // it is attached, and not dropped; Batch.mu protects it
}

// Attach adds an adapter between two steps. Its answers use codec, and digest distinguishes it from other adapters:
// keys and values are known by the digest, among other things. place chooses columns that are not taken, or reports
// false, and set stores the factors there. If no columns are free the error is ErrNoRoom, even while only answers of
// dropped adapters have them; after Close it is ErrClosed. After an error of set, the adapters are the same as
// before.
func (b *Batch) Attach(codec infer.Codec, digest string, place func(taken []model.Columns) (model.Columns, bool),
	set func(at model.Columns) error) (*Adapter, error) {
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		return nil, ErrClosed
	}
	b.adapters = slices.DeleteFunc(b.adapters, func(a *Adapter) bool { return !a.held && !b.uses(a) })
	var taken []model.Columns
	for _, a := range b.adapters {
		taken = append(taken, a.columns)
	}
	at, ok := place(taken)
	if !ok {
		b.mu.Unlock()
		return nil, ErrNoRoom
	}
	a := &Adapter{b: b, codec: codec, digest: digest, columns: at, held: true}
	b.adapters = append(b.adapters, a)
	b.mu.Unlock()
	err := b.exclusively("storing the adapter", func() error {
		b.mu.Lock()
		stopped := b.stopped // while this waited for a step: the memory may be gone
		b.mu.Unlock()
		if stopped {
			return ErrClosed
		}
		return set(at)
	})
	if err != nil {
		a.Drop()
		return nil, err
	}
	return a, nil
}

// exclusively calls f between two steps. A panic is a Fault.
func (b *Batch) exclusively(what string, f func() error) (err error) {
	b.o.Device.Lock()
	defer b.o.Device.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = &Fault{what, r}
		}
	}()
	return f()
}

// uses reports whether an answer of an adapter runs or waits. b.mu is locked.
func (b *Batch) uses(a *Adapter) bool {
	of := func(s *sequence) bool { return s.adapter == a }
	return slices.ContainsFunc(b.running, of) || b.waiting.contains(of)
}

// Start does what Batch.Start does, for an answer with the adapter. After Drop the error is ErrDropped.
func (a *Adapter) Start(r Request) (*Answer, error) { return a.b.start(r, a) }

// Drop drops the adapter. Its answers that run or wait continue to their end; then other adapters can have its
// columns.
func (a *Adapter) Drop() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.held = false
}

// prefixKey returns what keys and values are known by, besides the tokens.
func (s *sequence) prefixKey() string {
	if s.adapter == nil {
		return s.request.Key
	}
	return s.request.Key + "\x00" + s.adapter.digest
}

// columns returns the columns of the sequence's adapter.
func (s *sequence) columns() (c model.Columns) {
	if s.adapter != nil {
		c = s.adapter.columns
	}
	return c
}
