package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	stallTimeout = 30 * time.Second // without a byte, headers included
	jsonTimeout  = 3 * time.Minute  // for a whole JSON answer
	maxRedirects = 10
	maxTries     = 6
	maxWait      = 10 * time.Minute // the longest Retry-After that get waits
	worthwhile   = 1 << 20          // a failed try with this many bytes counts as progress
)

// transient is an error that another try may avoid.
type transient struct {
	error
	wait time.Duration // that the server asked for, 0 if it did not
}

func (t transient) Unwrap() error { return t.error }

// Retryable reports whether err came from the network, or from a hub that is down or busy, so that the same call may
// succeed later.
func Retryable(err error) bool {
	var t transient
	return errors.As(err, &t)
}

// retry calls try until it succeeds, fails for good, or has failed maxTries times without a worthwhile number of bytes
// in between. try calls answered as soon as something answers.
func (h *Hub) retry(ctx context.Context, try func(answered func()) (gained int64, err error)) error {
	w := h.wait()
	defer w.stop()
	failures := 0
	for {
		gained, err := try(w.stop)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var t transient
		if !errors.As(err, &t) {
			return err
		}
		if gained >= worthwhile {
			failures = 0
		}
		if failures++; failures == maxTries {
			return fmt.Errorf("gave up after %d tries: %w", maxTries, err)
		}
		wait := time.Second / 2 << failures // 1 s to 16 s
		wait -= rand.N(wait / 2)            // so that clients do not retry in step
		if t.wait > maxWait {
			return fmt.Errorf("the server asks to wait %s: try again then: %w", t.wait.Round(time.Second), err)
		}
		w.failed(err)
		if err := sleep(ctx, max(wait, t.wait)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// answer is a response. Its body fails if no byte arrives for stallTimeout.
type answer struct {
	*http.Response
	// hub has the headers of the last response from the hub itself. Before it redirects to a CDN, that has the
	// repository's commit and the file's hash.
	hub     http.Header
	fromHub bool
	ctx     context.Context
	stall   *time.Timer
	cancel  context.CancelCauseFunc
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Body.Read(p)
	a.stall.Reset(stallTimeout)
	if err != nil && err != io.EOF {
		err = lost(a.ctx, err)
	}
	return n, err
}

func (a *answer) Close() error {
	a.stall.Stop()
	a.cancel(nil)
	if a.Response == nil {
		return nil
	}
	return a.Body.Close()
}

// get requests an address and follows redirects. It does so itself because Go's client forwards an Authorization header
// to subdomains of the first host, and the hub's CDN is one. It calls answered when the first response has arrived.
func (h *Hub) get(ctx context.Context, address string, header http.Header, answered func()) (*answer, error) {
	endpoint, err := h.endpoint()
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if h.Client != nil {
		client.Transport, client.Timeout = h.Client.Transport, h.Client.Timeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a := &answer{ctx: ctx, cancel: cancel}
	a.stall = time.AfterFunc(stallTimeout, func() {
		cancel(fmt.Errorf("nothing came for %s", stallTimeout))
	})
	for range maxRedirects {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
		if err != nil {
			a.Close()
			return nil, err
		}
		req.Header = header.Clone()
		req.Header.Set("User-Agent", "restyle")
		a.fromHub = target.Scheme == endpoint.Scheme && target.Host == endpoint.Host
		if a.fromHub && !h.Token.Empty() {
			req.Header.Set("Authorization", "Bearer "+h.Token.Reveal())
		}
		a.Response, err = client.Do(req)
		if err != nil {
			err = fmt.Errorf("cannot reach %s: %w", target.Host, lost(ctx, err))
			a.Close()
			var untrusted *tls.CertificateVerificationError
			if errors.As(err, &untrusted) {
				return nil, err
			}
			return nil, transient{error: err}
		}
		answered()
		a.stall.Reset(stallTimeout)
		// On arrival, before anything is quoted in part: scrubbing would not recognize half a token.
		for _, values := range a.Header {
			for i, v := range values {
				values[i] = h.Token.Scrub(v)
			}
		}
		if a.fromHub {
			a.hub = a.Header
		}
		switch a.StatusCode {
		case 301, 302, 303, 307, 308:
		default:
			return a, nil
		}
		a.Body.Close()
		next, err := target.Parse(a.Header.Get("Location"))
		if err != nil || next.Host == "" || next.Scheme != "https" && next.Scheme != target.Scheme {
			a.Close()
			// Without the address: a CDN's carries a signature.
			return nil, fmt.Errorf("%s redirects to an address that is not a web address, or less safe", target.Host)
		}
		next.User = nil
		target = next
	}
	a.Close()
	return nil, fmt.Errorf("%s redirects without end: stopped after %d redirects", endpoint.Host, maxRedirects)
}

// lost returns why a connection failed: the cause of its context, or the network's error without the address, which may
// contain a signature.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// ask sends a request to the hub's API, and returns body and headers of the response.
func (h *Hub) ask(ctx context.Context, ref Ref, address string) (data []byte, header http.Header, err error) {
	err = h.retry(ctx, func(answered func()) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, jsonTimeout)
		defer cancel()
		a, err := h.get(ctx, address, http.Header{"Accept": {"application/json"}}, answered)
		if err != nil {
			return 0, err
		}
		defer a.Close()
		if a.StatusCode != http.StatusOK {
			return 0, h.refused(a, ref)
		}
		data, err = io.ReadAll(io.LimitReader(a, maxAnswer+1))
		if err != nil {
			return 0, transient{error: fmt.Errorf("the hub's answer broke off after %d bytes: %w", len(data), err)}
		}
		if len(data) > maxAnswer {
			return 0, fmt.Errorf("the hub's answer is longer than %d MiB", maxAnswer>>20)
		}
		data, header = []byte(h.Token.Scrub(string(data))), a.Header
		return 0, nil
	})
	return data, header, err
}

// refused returns the error for a status other than success, with what to do.
func (h *Hub) refused(a *answer, ref Ref) error {
	code, status, host := a.Header.Get("X-Error-Code"), a.StatusCode, a.Request.URL.Host
	switch {
	case !a.fromHub && (status == 401 || status == 403 || status == 404):
		// The CDN's signed address has expired. The next try gets a new one from the hub.
		return transient{error: fmt.Errorf("%s refused the download (%d)", host, status)}
	case status == 408, status == 425, status == 429, status >= 500:
		err := fmt.Errorf("%s answered %d %s", host, status, http.StatusText(status))
		return transient{err, retryAfter(a.Header.Get("Retry-After"))}
	case code == "GatedRepo":
		return fmt.Errorf("the repository is gated: ask for access on its page at %s, then set HF_TOKEN to a token of that "+
			"account", host)
	case code == "RevisionNotFound":
		return fmt.Errorf("the repository has no revision %q", ref.Revision)
	case code == "EntryNotFound":
		return errors.New("the repository has no such file")
	case status == 401 && !h.Token.Empty() && code != "RepoNotFound":
		return errors.New("the hub does not accept the token (401): set HF_TOKEN to a valid one, or unset it for public " +
			"repositories")
	case (status == 401 || status == 404) && h.Token.Empty():
		return fmt.Errorf("the repository does not exist or is private (%d): check its name, and set HF_TOKEN if it is "+
			"private", status)
	case status == 401, status == 404:
		return fmt.Errorf("the repository does not exist, or the token has no access to it (%d): check its name and the "+
			"token's rights", status)
	case status == 403:
		return fmt.Errorf("the hub forbids access (403)%s: check what the token may read", a.said())
	}
	return fmt.Errorf("%s answered %d %s%s", host, status, http.StatusText(status), a.said())
}

// said returns the hub's own message, quoted.
func (a *answer) said() string {
	message := a.Header.Get("X-Error-Message")
	if message == "" {
		return ""
	}
	return fmt.Sprintf(": %.200q", message)
}

// retryAfter parses seconds or a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return time.Duration(min(max(seconds, 0), 1e6)) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(time.Until(date), 0)
	}
	return 0
}
