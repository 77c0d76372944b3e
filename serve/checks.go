package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A record is what the log says about a request. It is the ResponseWriter of all handlers.
type record struct {
	http.ResponseWriter
	id, key  string
	start    time.Time
	slow     time.Duration // see hurry
	status   int
	question *question
	*watch
}

// of returns the record of a request.
func of(w http.ResponseWriter) *record { return w.(*record) }

// Unwrap lets an http.ResponseController reach the connection.
func (r *record) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader remembers the status, and sets a deadline for what follows.
func (r *record) WriteHeader(status int) {
	r.status = status
	r.hurry()
	r.ResponseWriter.WriteHeader(status)
}

// hurry gives the client a deadline to read what is written from now on.
func (r *record) hurry() {
	http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(r.slow))
}

// Write sends status 200 first, if none is sent.
func (r *record) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(data)
}

// brokenOff is the panic of a stream that an error has ended.
type brokenOff struct{ *Error }

// checked returns a handler that checks requests, logs them, and keeps a fault in one from the others.
func (s *Server) checked(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	for _, o := range s.options.Origins {
		if err := origin.AddTrustedOrigin(o); err != nil {
			s.log("origin", "error", err.Error())
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{ResponseWriter: w, id: requestID(r), start: time.Now(), slow: s.options.Slow}
		w.Header().Set("X-Request-Id", rec.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		defer s.logged(rec, r)
		// Also of a body that no handler reads: net/http reads on to the end of a short one.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.options.Slow))
		if s.cors(w, r) {
			rec.WriteHeader(http.StatusNoContent)
			return
		}
		e := s.host(r)
		if e == nil && origin.Check(r) != nil {
			e = forbidden("A web page of another origin may not ask this server: see serve --cors.")
		}
		if e == nil {
			rec.key, e = s.who(r)
		}
		if e != nil {
			s.fail(rec, r, e)
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// logged ends a request: it writes the line of the log, and answers for a panic.
func (s *Server) logged(rec *record, r *http.Request) {
	fault := recover()
	broken, ok := fault.(brokenOff)
	switch {
	case ok:
		rec.status = broken.Status
	case fault != nil && fault != http.ErrAbortHandler:
		s.log("a fault of this program's", "id", rec.id, "panic", fmt.Sprint(fault))
		if rec.status == 0 {
			fault = nil
			s.fail(rec, r, internal("A fault of this program's: the server's log says more."))
		} else {
			rec.status = http.StatusInternalServerError
		}
	}
	rec.hurry() // for the end, which net/http writes
	if rec.watch != nil {
		rec.done(rec.status)
	}
	if s.options.Log != nil && !slices.Contains(open, r.URL.Path) { // which are asked for again and again
		s.options.Log.Info("request", rec.attributes(r)...)
	}
	if fault != nil {
		panic(http.ErrAbortHandler)
	}
}

// attributes returns what the log says about a request. Paths that do not exist are cut.
func (r *record) attributes(request *http.Request) []any {
	all := []any{"id", r.id, "method", request.Method, "path", brief([]byte(request.URL.Path)), "status", r.status,
		"seconds", seconds(time.Since(r.start))}
	if q := r.question; q != nil {
		prompt := 0
		for _, p := range q.prompts {
			prompt += len(p)
		}
		all = append(all, "model", q.model.Name, "prompt", prompt, "tokens", r.tokens.Load(), "first", seconds(r.wait))
	}
	return all
}

func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// requestID returns the id that a client gives a request, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	odd := strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
	if id == "" || len(id) > 128 || odd {
		return newID("req_")
	}
	return id
}

// newID returns a new id.
func newID(prefix string) string {
	var random [12]byte
	rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}

func forbidden(message string) *Error {
	return &Error{Status: http.StatusForbidden, Type: "permission_error", Message: message}
}

// host refuses names under which the server is not known.
func (s *Server) host(r *http.Request) *Error {
	if len(s.options.Hosts) == 0 {
		return nil
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if slices.Contains(s.options.Hosts, name) {
		return nil
	}
	return forbidden(fmt.Sprintf("This server does not answer under the name %.80q: see serve --host.", name))
}

// open are the paths that need no key.
var open = []string{"/health", "/ready"}

// who returns whom a request is from, or refuses it: a name for its key. All keys are compared, by their hashes, so
// that the time tells nothing.
func (s *Server) who(r *http.Request) (string, *Error) {
	page := s.options.Page != nil && r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/") &&
		r.URL.Path != "/metrics"
	if len(s.keys) == 0 || slices.Contains(open, r.URL.Path) || page {
		return "", nil
	}
	sent := r.Header.Get("X-Api-Key")
	if scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		sent = strings.TrimSpace(key)
	}
	sum := sha256.Sum256([]byte(sent))
	found := -1
	for i, key := range s.keys {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(key[:], sum[:]), i, found)
	}
	if found < 0 {
		return "", &Error{Status: http.StatusUnauthorized, Type: "authentication_error", Code: "invalid_api_key",
			Message: "The key is wrong or missing: send one of the server's as Authorization: Bearer KEY, or X-Api-Key: KEY."}
	}
	return fmt.Sprint("key ", found), nil
}

// cors adds the headers that let pages of other origins ask, and reports whether the request only asks for these.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.options.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, X-Restyle-Ignored, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	return true
}
