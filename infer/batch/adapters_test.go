package batch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"restyle/infer"
	"restyle/model"
)

// room places adapters of 16 columns in a room for two.
func room(taken []model.Columns) (model.Columns, bool) {
	for _, c := range []model.Columns{{From: 0, To: 16}, {From: 16, To: 32}} {
		if !slices.Contains(taken, c) {
			return c, true
		}
	}
	return model.Columns{}, false
}

// attach puts an adapter into a memory, whose tokens of it are 1000·content more.
func attach(b *Batch, m *memory, content int32) (*Adapter, error) {
	return b.Attach(codec, fmt.Sprint(content), room, func(at model.Columns) error {
		m.content[at] = content // between two steps
		return nil
	})
}

// TestAdapters_LoadedAndDroppedWhileOthersAnswer asks a model and adapters that come and go. Each answer is the same
// as without company, even if its adapter is dropped meanwhile; a dropped adapter takes no more requests.
func TestAdapters_LoadedAndDroppedWhileOthersAnswer(t *testing.T) {
	m := &memory{t: t, rows: 32, pieces: 8, tokens: make([]int32, 60*model.PoolBlock), content: map[model.Columns]int32{}}
	b := New(m, codec, vocab, Options{Context: 100, Queue: 1000})
	defer b.Close()
	var group sync.WaitGroup
	ask := func(i int, content int32, start func(Request) (*Answer, error)) {
		r := Request{Options: infer.Options{MaxTokens: 3 + i%20, Sampling: infer.Sampling{Temperature: 1, Seed: uint64(i)}}}
		for n := range 40 {
			r.Prompt = append(r.Prompt, int32(2+n/20)) // all start alike: nothing may be reused of another adapter's
		}
		a, err := start(r)
		if err != nil {
			t.Error(err)
			return
		}
		group.Go(func() {
			for a.Next(t.Context()) {
			}
			if want, _ := aloneWith(t, r, b.Context(), content); !slices.Equal(a.Result().IDs, want) || a.Err() != nil {
				t.Errorf("request %d of adapter %d: %v, want %v, %v", i, content, a.Result().IDs, want, a.Err())
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	var held []*Adapter
	full := 0
	for i := range 300 {
		content := int32(1 + i)
		switch a, err := attach(b, m, content); {
		case err == nil:
			held = append(held, a)
			ask(i, content, a.Start)
			ask(i, content, a.Start)
		case !errors.Is(err, ErrNoRoom):
			t.Fatal(err)
		default:
			full++
			ask(i, 0, b.Start)
		}
		if len(held) > 0 && random.IntN(2) == 0 {
			held[0].Drop()
			if _, err := held[0].Start(Request{Prompt: []int32{5}}); !errors.Is(err, ErrDropped) {
				t.Errorf("after Drop: %v", err)
			}
			held = held[1:]
		}
		if i%10 == 0 {
			group.Wait()
		}
	}
	group.Wait()
	if full == 0 || full == 300 {
		t.Errorf("%d of 300 adapters found no room", full)
	}
}

// TestAdapters_RefusedOnesChangeNothing fails while an adapter is stored, by an error and by a panic, and then stores
// others in all of the room.
func TestAdapters_RefusedOnesChangeNothing(t *testing.T) {
	m := &memory{t: t, rows: 32, pieces: 8, tokens: make([]int32, 8*model.PoolBlock), content: map[model.Columns]int32{}}
	b := New(m, codec, vocab, Options{})
	defer b.Close()
	broken := errors.New("broken")
	for want, fail := range map[string]func(model.Columns) error{
		"broken":                             func(model.Columns) error { return broken },
		"storing the adapter failed: broken": func(model.Columns) error { panic(broken) },
	} {
		if _, err := b.Attach(codec, "x", room, fail); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for i, want := range []error{nil, nil, ErrNoRoom} {
		if _, err := attach(b, m, int32(i)); !errors.Is(err, want) {
			t.Errorf("adapter %d: %v", i, err)
		}
	}
}

// counted is a device that tells who asks for it.
type counted struct {
	sync.Mutex
	asked chan struct{}
}

func (c *counted) Lock() {
	c.asked <- struct{}{}
	c.Mutex.Lock()
}

// TestAdapters_NoneIsStoredAfterClose closes a Batch while one adapter is being stored, and another one waits for that.
func TestAdapters_NoneIsStoredAfterClose(t *testing.T) {
	m := &memory{t: t, rows: 32, pieces: 8, tokens: make([]int32, 8*model.PoolBlock)}
	device := &counted{asked: make(chan struct{}, 3)}
	b := New(m, codec, vocab, Options{Device: device})
	storing, waits, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		b.Attach(codec, "first", room, func(model.Columns) error {
			close(storing)
			for range cap(device.asked) { // of both adapters, and of Close
				select {
				case <-device.asked:
				case <-closed:
					t.Error("Close has not waited")
				}
			}
			return nil
		})
	})
	<-storing
	never := func(model.Columns) error {
		t.Error("stored after Close")
		return nil
	}
	group.Go(func() {
		_, err := b.Attach(codec, "second", func(taken []model.Columns) (model.Columns, bool) {
			close(waits)
			return room(taken)
		}, never)
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the one that waited: %v", err)
		}
	})
	<-waits
	b.Close()
	close(closed)
	if _, err := b.Attach(codec, "third", room, never); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	group.Wait()
}
