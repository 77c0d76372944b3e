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
// shares another's weights, with a Drop. An error is the request's fault, unless it is batch.ErrNoRoom or
// batch.ErrClosed.
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

// Stats are zero: the model whose weights it shares counts its steps.
func (adapted) Stats() batch.Stats { return batch.Stats{} }

// maxName is the maximum length of an adapter's name in bytes.
const maxName = 200

// loadAdapter is POST /v1/load_lora_adapter, as vLLM has it.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(b *body, name string) string {
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
		m, err := s.options.Load(r.Context(), name, path)
		if err == nil {
			if err = s.Add(m); err != nil {
				m.Drop()
			}
		}
		switch {
		case errors.Is(err, batch.ErrNoRoom):
			b.fail(unavailable("no_room", "There is no room for the adapter beside the others: drop one, and wait until its "+
				"answers end; or start the server with more --adapter-ranks."))
		case errors.Is(err, batch.ErrClosed):
			b.fail(draining)
		case err != nil:
			b.fail(refuse("lora_path", "%v", err))
		}
		return fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", name)
	})
}

// dropAdapter is POST /v1/unload_lora_adapter. Answers that run or wait go on to their end.
func (s *Server) dropAdapter(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(b *body, name string) string {
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

// change handles a request that changes which adapters there are, one at a time. f returns what to answer, or fails.
func (s *Server) change(w http.ResponseWriter, r *http.Request, f func(b *body, name string) string) {
	b, e := s.body(w, r)
	if e == nil && s.options.Load == nil {
		e = forbidden("Adapters cannot be loaded or dropped: see serve --adapter-dir.")
	}
	if e != nil {
		s.fail(w, r, e)
		return
	}
	var name string
	if b.read("lora_name", &name); b.err == nil && !nameable(name) {
		b.fail(refuse("lora_name", "it must be a name of 1 to %d printable bytes", maxName))
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	var done string
	if b.err == nil {
		done = f(b, name)
	}
	if b.err != nil {
		s.fail(w, r, b.err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte(done))
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
