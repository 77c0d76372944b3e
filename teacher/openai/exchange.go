package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"restyle/internal/secret"
)

// lingerTimeout bounds the wait for usage and the end of the stream once the answer
// is complete, and drainTimeout the wait for the end of the body after that.
const (
	lingerTimeout = 5 * time.Second
	drainTimeout  = 250 * time.Millisecond
)

var (
	errFirstToken = errors.New("first token timeout")
	errStall      = errors.New("stall")
	errTotal      = errors.New("total timeout")
	errLinger     = errors.New("linger timeout")
	errTooLarge   = errors.New("answer too large")
)

// newClient returns a client that keeps up to this number of idle connections.
func newClient(o Options, connections int) *http.Client {
	dial, proxy := o.dial, (func(*http.Request) (*url.URL, error))(nil)
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 15 * time.Second}
	switch {
	case o.Socket != "":
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", o.Socket)
		}
	case dial == nil:
		dial = dialer.DialContext
		proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               proxy,
			DialContext:         dial,
			TLSHandshakeTimeout: o.ConnectTimeout,
			// With the default of 2 per host, most requests would open a connection.
			MaxIdleConns:           connections,
			MaxIdleConnsPerHost:    connections,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 256 << 10,
		},
		// A redirect must stay on the host that the key is for, and must not turn the POST into a GET. Any other
		// redirect is not followed: the response has a status 3xx.
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			first := via[0]
			if len(via) > 3 || next.Method != first.Method || origin(next.URL) != origin(first.URL) {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// exchange is one attempt.
type exchange struct {
	client *http.Client
	key    secret.Secret
	url    string // base URL
	limit  int64
	watch  *watch
}

// A body is the body of a response, read through another reader.
type body struct {
	io.Reader
	io.Closer
}

// send sends a request with the key and bounds the response. For a status without an
// answer the error is a *failure.
func (x *exchange) send(req *http.Request) (*http.Response, error) {
	if !x.key.Empty() {
		req.Header.Set("Authorization", "Bearer "+x.key.Reveal())
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return nil, err
	}
	// Some servers answer with 201 or 203.
	if resp.StatusCode < 200 || resp.StatusCode >= 300 || resp.StatusCode == http.StatusNoContent {
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return nil, fromStatus(resp.StatusCode, resp.Header, body, x.url, time.Now())
	}
	resp.Body = body{&boundedReader{resp.Body, x.limit, x.watch}, resp.Body}
	return resp, nil
}

// attempt sends body to e once. The texts of a failure do not contain the key.
func (p *Pool) attempt(ctx context.Context, e *endpoint, body []byte) (Answer, *failure) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(cancel, p.o)
	defer w.stop()
	x := &exchange{client: p.client, key: p.o.APIKey, url: e.url, limit: p.o.MaxAnswerBytes, watch: w}
	a, f := x.complete(ctx, body, func(n int) { e.work.Add(int64(n)) })
	if f != nil {
		return Answer{}, x.clean(f)
	}
	answer := a.answer()
	answer.Endpoint = e.url
	for i := range answer.Deviations {
		answer.Deviations[i] = x.key.Scrub(answer.Deviations[i])
	}
	if x.key.In(answer.Text + "\n" + a.finish + "\n" + a.model) {
		answer.Text, answer.FinishReason, answer.Model = "", KeyInAnswer, ""
	}
	return answer, nil
}

// complete makes the attempt, and reports the bytes of text and reasoning as they
// arrive.
func (x *exchange) complete(ctx context.Context, body []byte, received func(bytes int)) (*assembly, *failure) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	sent := time.Now()
	resp, err := x.send(req)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	defer resp.Body.Close()
	a, r := &assembly{url: x.url}, newEventReader(resp.Body)
	for {
		event, err := r.next()
		if err == io.EOF || err != nil && a.sure() {
			break // after the finish reason, a broken connection loses nothing
		}
		if err != nil {
			return nil, x.explain(ctx, err)
		}
		before := a.written()
		if f := a.add(event); f != nil {
			return nil, f
		}
		if a.firstToken == 0 && a.events > 0 {
			a.firstToken = time.Since(sent)
			x.watch.gotFirst()
		}
		received(max(0, a.written()-before))
		if a.sure() {
			x.watch.enter(errLinger, lingerTimeout)
		}
	}
	if a.finish == "" {
		return nil, a.unfinished(r)
	}
	if r.values != nil {
		a.deviates("an answer that is not streamed")
	}
	a.latency = time.Since(sent)
	// The transport reuses a connection only if its body was read to the end.
	x.watch.enter(errLinger, drainTimeout)
	io.CopyN(io.Discard, r.in, 4096)
	return a, nil
}

// explain returns why there was no response, or no more of it.
func (x *exchange) explain(ctx context.Context, err error) *failure {
	var (
		f       *failure
		dial    *net.OpError
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		notTLS  tls.RecordHeaderError
		wrapped *url.Error
	)
	if errors.As(err, &f) {
		return f
	}
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which the message names anyway
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, errTooLarge):
		return &failure{kind: broken, status: http.StatusOK, reason: errTooLarge.Error(), damage: true,
			message: "the answer is longer than " + mib(x.limit)}
	case cause == errFirstToken:
		return &failure{kind: broken, overload: true, reason: cause.Error(),
			message: "no token within " + x.watch.o.FirstTokenTimeout.String()}
	case cause == errStall:
		return &failure{kind: broken, reason: cause.Error(),
			message: "no data for " + x.watch.o.StallTimeout.String() + " in the middle of the answer"}
	case cause == errTotal:
		return &failure{kind: broken, reason: cause.Error(),
			message: "not complete within " + x.watch.o.TotalTimeout.String()}
	case errors.As(err, &cert):
		return &failure{kind: fatal, reason: "certificate", message: err.Error(),
			advice: "use a certificate that this machine trusts, or check the clock"}
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &notTLS):
		return &failure{kind: fatal, reason: "not TLS", message: "the server does not speak TLS",
			advice: "does it want http:// rather than https:// in the base URL?"}
	case errors.As(err, &dns), errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"),
		isHandshakeTimeout(err):
		return &failure{kind: unreachable, reason: "unreachable", message: err.Error()}
	}
	return &failure{kind: broken, reason: "connection lost", message: "connection lost: " + err.Error()}
}

// isHandshakeTimeout reports whether err is the transport's TLS handshake timeout,
// which has no exported type, and not a timeout of an open connection.
func isHandshakeTimeout(err error) bool {
	var timeout net.Error
	var connection *net.OpError
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.As(err, &connection)
}

// clean removes the key from f's message and truncates it, so that the advice after
// it stays visible.
func (x *exchange) clean(f *failure) *failure {
	f.message = shorten(plainText(x.key.Scrub(f.message)))
	if f.advice != "" {
		f.message += " (" + f.advice + ")"
	}
	return f
}

// A boundedReader bounds the bytes of a body, and notifies the watch of each read.
type boundedReader struct {
	r     io.Reader
	left  int64
	watch *watch
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p)
	if n > 0 {
		b.watch.arrived()
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// A watch cancels an attempt that takes too long, with the reason as the cause.
type watch struct {
	o      Options
	cancel context.CancelCauseFunc
	end    time.Time // of the whole attempt

	mu    sync.Mutex
	timer *time.Timer
	phase error // the reason if the timer fires
}

func newWatch(cancel context.CancelCauseFunc, o Options) *watch {
	w := &watch{o: o, cancel: cancel, end: time.Now().Add(o.TotalTimeout)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = errFirstToken
	w.timer = time.AfterFunc(min(o.FirstTokenTimeout, o.TotalTimeout), func() {
		w.mu.Lock()
		phase := w.phase
		w.mu.Unlock()
		if !time.Now().Before(w.end) {
			phase = errTotal
		}
		cancel(phase)
	})
	return w
}

// enter starts a phase that may last d.
func (w *watch) enter(phase error, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
	w.timer.Reset(max(0, min(d, time.Until(w.end))))
}

// gotFirst records the first token.
func (w *watch) gotFirst() { w.enter(errStall, w.o.StallTimeout) }

// arrived records that bytes arrived. Before the first token it does nothing.
func (w *watch) arrived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == errStall {
		w.timer.Reset(max(0, min(w.o.StallTimeout, time.Until(w.end))))
	}
}

func (w *watch) stop() { w.timer.Stop() }

// bareURL returns scheme, host and path of a URL, for messages.
func bareURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an invalid URL"
	}
	return fmt.Sprint(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path})
}
