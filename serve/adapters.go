package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode"
	"unicode/utf8"

	"restyle/infer/batch"
)

// A Loader loads an adapter, by the name that requests will give it and the path that the client sends, as a model that
// shares another's weights, with a Drop. An error is the request's fault, unless it is batch.ErrNoRoom,
// batch.ErrClosed or a *batch.Fault.
type Loader func(ctx context.Context, name, path string) (Model, error)

// BatchAdapter returns a Generator of an adapter.
func BatchAdapter(a *batch.Adapter) Generator { return adapted{a} }

type adapted struct{ *batch.Adapter }

func (a adapted) Start(r batch.Request) (Answer, error) {
	answer, err := a.Adapter.Start(r)
	if err != nil {
		return nil, err // a nil *batch.Answer would be an Answer that is not nil
	}
	return answer, nil
}

// Stats returns zeros: the model whose weights the adapter shares counts its steps.
func (adapted) Stats() batch.Stats { return batch.Stats{} }

// maxName is the maximum length of an adapter's name in bytes.
const maxName = 200

// loadAdapter handles POST /v1/load_lora_adapter, as vLLM has it.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(ctx context.Context, b *body, name string) string {
		var path string
		b.read("lora_path", &path)
		if b.rest(); path == "" {
			b.fail(refuse("lora_path", "it is missing: send the adapter's directory"))
		}
		if slices.ContainsFunc(s.all(), func(m *Model) bool { return m.Name == name }) {
			b.fail(refuse("lora_name", "there is a model %q already: drop that first, or take another name", name))
		}
		if b.err != nil {
			return ""
		}
		m, err := s.options.Load(ctx, name, path)
		if err == nil {
			if err = context.Cause(ctx); err == nil {
				err = s.Add(m)
			}
			if err != nil {
				m.Drop()
			}
		}
		if e := s.notLoaded(err); e != nil {
			b.fail(e)
		}
		return fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", name)
	})
}

// notLoaded returns the error for an adapter that err has kept from being loaded, or nil.
func (s *Server) notLoaded(err error) *Error {
	switch fault := (*batch.Fault)(nil); {
	case err == nil:
		return nil
	case errors.Is(err, batch.ErrNoRoom):
		return unavailable("no_room", "There is no room for the adapter beside the others: drop one, and wait until its "+
			"answers end; or start the server with more --adapter-ranks.")
	case errors.Is(err, batch.ErrClosed):
		return draining
	case errors.Is(err, errTimeout):
		return timedOut
	case errors.As(err, &fault):
		s.log("a fault of this program's or its machine's", "error", err.Error())
		return internal("The server failed, not the request: the server's log says why.")
	}
	return refuse("lora_path", "%v", err)
}

// dropAdapter handles POST /v1/unload_lora_adapter. Answers that run or wait continue to their end.
func (s *Server) dropAdapter(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(_ context.Context, b *body, name string) string {
		m, e := s.model(name)
		b.rest()
		switch {
		case e != nil:
			e.Param = "lora_name"
			b.fail(e)
		case m.Drop == nil:
			b.fail(refuse("lora_name", "%q was not loaded by a request, and stays", name))
		}
		if b.err != nil {
			return ""
		}
		s.remove(m)
		m.Drop()
		return fmt.Sprintf("Success: LoRA adapter '%s' removed successfully.", name)
	})
}

// change handles a request that changes which adapters there are, one at a time. f returns what to answer, or fails. A
// disk that does not answer holds f up, but the request no longer than others.
func (s *Server) change(w http.ResponseWriter, r *http.Request,
	f func(ctx context.Context, b *body, name string) string) {
	b, e := s.body(w, r)
	if e == nil && s.options.Load == nil {
		e = forbidden("Adapters cannot be loaded or dropped: see serve --adapter-dir.")
	}
	var name string
	if e == nil {
		if b.read("lora_name", &name); b.err == nil && !nameable(name) {
			b.fail(refuse("lora_name", "it must be a name of 1 to %d printable bytes", maxName))
		}
		e = b.err
	}
	if e != nil {
		s.fail(w, r, e)
		return
	}
	// Not the context of a client that has left: the server ends after what f reads is closed.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(r.Context()), s.options.Timeout, errTimeout)
	defer cancel()
	select { // here, so that those that wait end with their requests
	case s.changing <- struct{}{}:
	case <-ctx.Done():
		s.fail(w, r, timedOut)
		return
	}
	done := make(chan string, 1) // it is closed if f fails
	go func() {
		defer close(done)
		defer func() { <-s.changing }()
		defer func() { // or it would end the program: only the handler's own goroutine is guarded
			if fault := recover(); fault != nil {
				b.err = s.notLoaded(&batch.Fault{What: "changing the adapters", Why: fault})
			}
		}()
		if text := f(ctx, b, name); b.err == nil {
			done <- text
		}
	}()
	var text string
	var changed bool
	select {
	case text, changed = <-done:
	case <-ctx.Done():
		select {
		case text, changed = <-done: // in the last moment
		default:
			s.fail(w, r, timedOut)
			return
		}
	}
	if !changed {
		s.fail(w, r, b.err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte(text))
}

// nameable reports whether a model may have a name that a client sends.
func nameable(name string) bool {
	hidden := func(c rune) bool { return !unicode.IsPrint(c) }
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && !slices.ContainsFunc([]rune(name), hidden)
}

// remove removes a model.
func (s *Server) remove(m *Model) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.models = slices.DeleteFunc(slices.Clone(s.models), func(other *Model) bool { return other == m })
}
