package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Server. The zero value has the defaults.
type Options struct {
	// Keys are what clients must send, as "Authorization: Bearer KEY" or "X-Api-Key: KEY". None: no key is needed.
	Keys []string
	// Hosts are the names under which requests may come, without ports. A web page whose own name leads to this
	// machine's loopback address comes under that name (DNS rebinding). None: any.
	Hosts []string
	// Origins are the web pages, as https://example.com, whose scripts may ask. None: only pages from this server.
	Origins []string
	// Body is the maximum size of a request in bytes. Default: 4 MiB.
	Body int64
	// MaxTokens is the maximum number of tokens of an answer; a request for more gets this number. Default 0: what fits
	// into the context.
	MaxTokens int
	// Queue is how many answers of a model may wait: a request for more is refused. Default 0: no matter.
	Queue int
	// Timeout is how long a request may take. Default: 10 minutes.
	Timeout time.Duration
	// Slow is how long a client may take to send a request's body, and to read what is written at once. Default: 30 s.
	Slow time.Duration
	// Alive is the time after which a stream without news gets a sign of life. Default: 15 s.
	Alive time.Duration
	// Log gets a line for each request except for /health and /ready. Nil: none. It gets no prompts, answers or keys.
	Log *slog.Logger
	// Load loads adapters while the server runs. Nil: they can be neither loaded nor dropped.
	Load Loader
	// Page is what GET / shows: index.html and what it needs. Nil: none.
	Page fs.FS
}

// A Server answers requests. It is safe for concurrent use.
type Server struct {
	options  Options
	keys     [][sha256.Size]byte
	routes   http.Handler
	ready    atomic.Bool
	closed   atomic.Bool
	changing chan struct{} // holds one while an adapter is loaded or dropped
	lock     sync.Mutex    // of models
	models   []*Model
	// ends is done when requests must end though they are not finished.
	ends context.Context
	end  context.CancelCauseFunc
}

// New returns a Server without models, which is not ready.
func New(o Options) *Server {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Timeout, 10*time.Minute)
	def(&o.Slow, 30*time.Second)
	def(&o.Alive, 15*time.Second)
	if o.Body == 0 {
		o.Body = 4 << 20
	}
	s := &Server{options: o, changing: make(chan struct{}, 1)}
	for _, key := range o.Keys {
		s.keys = append(s.keys, sha256.Sum256([]byte(key)))
	}
	s.ends, s.end = context.WithCancelCause(context.Background())
	s.routes = s.handler()
	return s
}

// Ready makes the server ready: it has its models. Until then requests get status 503.
func (s *Server) Ready() { s.ready.Store(true) }

// Close refuses further requests with status 503. Requests in progress continue.
func (s *Server) Close() { s.closed.Store(true) }

// End ends the requests in progress with an error.
func (s *Server) End() {
	s.Close()
	s.end(errEnd)
}

// Why the context of a request is done, unless the client has left.
var (
	errEnd     = errors.New("the server ends")
	errTimeout = errors.New("the request takes too long")
)

// left is the status of a request whose client has left, as nginx logs it. It is not sent.
var left = &Error{Status: 499, Type: "client_closed_request", Message: "The client has left."}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }

func (s *Server) log(message string, args ...any) {
	if s.options.Log != nil {
		s.options.Log.Warn(message, args...)
	}
}

// unready returns why no request can be answered, or nil.
func (s *Server) unready() *Error {
	switch {
	case s.closed.Load():
		return draining
	case !s.ready.Load():
		return loading
	}
	return nil
}
