package serve

import (
	"context"
	"errors"
	"net/http"
	"time"

	"restyle/infer/jsonform"
)

// An api is the form of one API's answers.
type api interface {
	// whole returns the body of an answer that is not streamed.
	whole(q *question, choices []*choice) any
	// The others write to a stream: what comes before the first token, a piece, a sign of life, and what comes at the
	// end.
	open(s *stream, q *question)
	piece(s *stream, q *question, p piece)
	alive(s *stream, q *question)
	close(s *stream, q *question, choices []*choice)
	// fail writes an error into a stream that has started.
	fail(s *stream, e *Error)
}

// A stream writes server-sent events, each with a deadline: a client that does not read is dropped.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration // for one write
	err     error         // of the first write that failed
}

func newStream(w http.ResponseWriter, slow time.Duration) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // or nginx keeps events back
	return &stream{w: w, control: http.NewResponseController(w), slow: slow}
}

// data writes an event without a name. Chat completions have no others, and no comments: go-openai loses the message
// of an error that comes after one.
func (s *stream) data(v any) { s.write("data: " + string(encode(v)) + "\n") }

// event writes an event with a name.
func (s *stream) event(name string, v any) {
	s.write("event: " + name + "\ndata: " + string(encode(v)) + "\n")
}

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	s.control.SetWriteDeadline(time.Now().Add(s.slow)) // one that cannot be set does not matter: of a test's recorder
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.control.Flush()
	}
	s.control.SetWriteDeadline(time.Time{}) // HTTP/2 would end a stream that has nothing to write at that time
}

// answer answers a question, streamed or as a whole. ctx is done when the client leaves, the time is over, or the
// server ends. An error is one before the first byte.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, q *question, a api, watch *watch) *Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, e := q.start(ctx, watch)
	if e != nil {
		return e
	}
	defer func() { // the goroutines of the answers end before the request does
		cancel()
		for range pieces {
		}
	}()
	if q.streamed {
		return s.stream(ctx, w, q, a, pieces)
	}
	choices, err := q.collect(pieces)
	if e := s.broken(ctx, err); e != nil {
		return e
	}
	writeJSON(w, http.StatusOK, a.whole(q, choices))
	return nil
}

// broken returns why there is no whole answer, or nil if there is one. err is the model's.
func (s *Server) broken(ctx context.Context, err error) *Error {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return timedOut
	case errors.Is(context.Cause(ctx), errEnd):
		return draining
	case ctx.Err() != nil:
		return left
	case errors.Is(err, jsonform.ErrCostly):
		return costly
	case err != nil:
		s.log("a step failed", "error", err.Error())
		return internal("The model failed on this request: the server's log says why.")
	}
	return nil
}

// stream answers a question in pieces. It returns an error as long as nothing is written.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, q *question, a api, pieces <-chan piece) *Error {
	out := newStream(w, s.options.Slow)
	choices := make([]*choice, q.choices())
	for i := range choices {
		choices[i] = &choice{}
	}
	tick := time.NewTicker(s.options.Alive)
	defer tick.Stop()
	opened := false
	open := func() {
		if !opened {
			a.open(out, q)
		}
		opened = true
	}
	var err error
	for more := true; more && err == nil && out.err == nil; {
		select {
		case p, ok := <-pieces:
			if more, err = ok, p.err; more && err == nil {
				open()
				choices[p.choice].add(p)
				a.piece(out, q, p)
			}
		case <-tick.C:
			open()
			a.alive(out, q)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	e := s.broken(ctx, err)
	switch {
	case out.err != nil || e == left:
		return left
	case e != nil && !opened:
		return e
	case e != nil:
		a.fail(out, e)
		panic(brokenOff{e}) // so that no client takes what it has for a whole answer
	}
	a.close(out, q, choices)
	return nil
}
