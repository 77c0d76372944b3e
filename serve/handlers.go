package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"restyle/chat"
)

// handler returns the routes, wrapped in the checks that all requests go through.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"status": "ok"})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if e := s.unready(); e != nil {
			s.fail(w, r, e)
			return
		}
		writeJSON(w, http.StatusOK, object{"status": "ok"})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(s.metricsText())
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		all := []object{}
		for _, m := range s.all() {
			all = append(all, m.describe())
		}
		writeJSON(w, http.StatusOK, object{"object": "list", "data": all})
	})
	mux.HandleFunc("GET /v1/models/{name...}", func(w http.ResponseWriter, r *http.Request) {
		m, e := s.model(r.PathValue("name"))
		if e != nil {
			s.fail(w, r, e)
			return
		}
		writeJSON(w, http.StatusOK, m.describe())
	})
	mux.HandleFunc("POST /v1/chat/completions", s.ask(func(b *body, key string) (*question, api) {
		return s.chatQuestion(b, key), chatAPI{newID("chatcmpl-"), time.Now().Unix()}
	}))
	mux.HandleFunc("POST /v1/completions", s.ask(func(b *body, key string) (*question, api) {
		q, a := s.completionsQuestion(b, key)
		a.id, a.created = newID("cmpl-"), time.Now().Unix()
		return q, a
	}))
	mux.HandleFunc("POST /v1/responses", s.ask(func(b *body, key string) (*question, api) {
		q, a := s.responsesQuestion(b, key)
		a.id, a.item, a.created = newID("resp_"), newID("msg_"), time.Now().Unix()
		return q, a
	}))
	mux.HandleFunc("POST /v1/messages", s.ask(func(b *body, key string) (*question, api) {
		return s.messagesQuestion(b, key, false), &messagesAPI{id: newID("msg_")}
	}))
	mux.HandleFunc("POST /v1/messages/count_tokens", s.read(func(b *body, r *record) any {
		q := s.messagesQuestion(b, r.key, true)
		return object{"input_tokens": len(q.prompts[0])}
	}))
	mux.HandleFunc("POST /v1/load_lora_adapter", s.loadAdapter)
	mux.HandleFunc("POST /v1/unload_lora_adapter", s.dropAdapter)
	mux.HandleFunc("POST /tokenize", s.read(s.tokenize))
	if s.options.Page != nil {
		mux.HandleFunc("GET /", s.page)
	}
	for _, pattern := range elsewhere {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, s.noRoute(mux, r)) })
	}
	return s.checked(mux)
}

// page answers with the page, which runs no scripts but its own, and is in no other page.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.FileServerFS(s.options.Page).ServeHTTP(w, r)
}

// elsewhere are the patterns of paths that do not exist.
var elsewhere = []string{"/", "GET /v1/"}

// noRoute returns the error for a path that does not exist, or not with this method.
func (s *Server) noRoute(mux *http.ServeMux, r *http.Request) *Error {
	e := &Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "unknown_url",
		Message: "There is no " + r.Method + " " + brief([]byte(r.URL.Path)) + " here."}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		_, pattern := mux.Handler(other)
		if !slices.Contains(elsewhere, pattern) && pattern != "GET /" && method != r.Method {
			e.Status, e.Message = http.StatusMethodNotAllowed, e.Message+" It takes "+method+"."
		}
	}
	return e
}

// fail sends an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, e *Error) {
	if e == left {
		of(w).status = left.Status
		return
	}
	e.write(w, r.URL.Path)
}

// body reads the body of a request.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (*body, *Error) {
	if e := s.unready(); e != nil {
		return nil, e
	}
	b, e := readBody(w, r, s.options.Body)
	if e == nil { // all is read: at the deadline, the client would seem to have left
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	return b, e
}

// read handles requests that need no model to run.
func (s *Server) read(answer func(b *body, r *record) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, e := s.body(w, r)
		var result any
		if e == nil {
			result = answer(b, of(w))
			e = b.err
		}
		if e != nil {
			s.fail(w, r, e)
			return
		}
		writeJSON(w, http.StatusOK, result)
	}
}

// ask handles requests that a model answers.
func (s *Server) ask(read func(b *body, key string) (*question, api)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, e := s.body(w, r)
		if e != nil {
			s.fail(w, r, e)
			return
		}
		record := of(w)
		q, a := read(b, record.key)
		if q.model != nil {
			record.watch = &watch{metrics: q.model.metrics, start: record.start}
			record.question = q
		}
		if b.err != nil {
			s.fail(w, r, b.err)
			return
		}
		if most := s.options.MaxTokens; most > 0 && (q.options.MaxTokens == 0 || q.options.MaxTokens > most) {
			q.options.MaxTokens = most
		}
		if len(b.ignored) > 0 {
			w.Header().Set("X-Restyle-Ignored", b.ignoredHeader())
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), s.options.Timeout, errTimeout)
		defer cancel()
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(s.ends, func() { end(errEnd) })()
		if e := s.answer(ctx, w, q, a, record.watch); e != nil {
			s.fail(w, r, e)
		}
	}
}

// tokenize handles POST /tokenize, with the fields of vLLM and of llama.cpp.
func (s *Server) tokenize(b *body, _ *record) any {
	var name, text string
	b.read("model", &name)
	m, e := s.model(name)
	if e != nil {
		b.fail(e)
		return nil
	}
	var ids []int32
	if b.has("messages") {
		header := true
		b.read("add_generation_prompt", &header)
		messages := b.conversation("messages")
		o := chat.Options{Variables: b.variables()}
		if b.rest(); b.err == nil {
			ids, e = m.render(messages, o, header)
		}
	} else {
		field := "prompt"
		if b.has("content") {
			field = "content"
		}
		if !b.read(field, &text) {
			b.fail(refuse(field, "it is missing: send a text, or messages"))
		}
		special := field == "prompt" // as the two programs do
		b.read("add_special_tokens", &special)
		b.read("add_special", &special)
		if b.rest(); b.err == nil {
			ids, e = m.plain(text, special)
		}
	}
	if e != nil {
		b.fail(e)
	}
	if b.err != nil {
		return nil
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = m.Codec.Tokenizer.Token(id)
	}
	return object{"tokens": slices.Concat([]int32{}, ids), "token_strs": texts, "count": len(ids),
		"max_model_len": m.Context}
}
