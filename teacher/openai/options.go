package openai

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"restyle/internal/secret"
)

// Options configure a [Pool]. A zero field has the default that its comment names.
type Options struct {
	// BaseURLs are the endpoints, at least one, such as "http://localhost:8000/v1".
	// Requests go to <base>/chat/completions. A URL must have no user, query or
	// fragment; with a key, it must be https unless the host is this machine.
	BaseURLs []string
	// Socket, if not empty, is the path of a Unix socket for all connections, whatever the host.
	Socket string
	// APIKey is sent as a bearer token, only to the hosts of BaseURLs.
	APIKey secret.Secret

	// Concurrency is the number of requests that may be in flight over all endpoints. 0 adapts the number to each
	// endpoint, from 4 up to MaxConcurrency.
	Concurrency int
	// MaxConcurrency bounds the adaptive number, per endpoint. Default 256.
	MaxConcurrency int

	// ConnectTimeout bounds connecting, and separately the TLS handshake. Default 10 s.
	ConnectTimeout time.Duration
	// FirstTokenTimeout bounds the time from sending the request to the first event of the answer; keep-alive
	// comments are not events. Default 5 min.
	FirstTokenTimeout time.Duration
	// StallTimeout bounds the time between two reads after that. Default 1 min.
	StallTimeout time.Duration
	// TotalTimeout bounds one attempt. Default 15 min. None of these timeouts
	// includes waiting for a slot or for a retry.
	TotalTimeout time.Duration

	// Retries is the number of times that a failed request is sent again. Default 5; -1 for none. A request to slow
	// down (429) and an unreachable endpoint do not use up retries; ThrottleTimeout and DeadTimeout bound those.
	Retries int
	// Backoff is the upper bound of the random wait before the first retry. It
	// doubles with each retry, up to 60 s. Default 500 ms.
	Backoff time.Duration
	// ThrottleTimeout is how long endpoints may ask one request to slow down.
	// Default 30 min.
	ThrottleTimeout time.Duration
	// DeadTimeout is how long requests wait without any answer while every endpoint
	// is down or asks to wait. Default 2 min.
	DeadTimeout time.Duration

	// MaxAnswerBytes bounds a response, decompressed and with its framing. Default
	// 32 MiB.
	MaxAnswerBytes int64

	// JitterSeed makes the random waits repeatable. 0 chooses a random seed.
	JitterSeed uint64

	dial func(ctx context.Context, network, address string) (net.Conn, error) // tests
}

// withDefaults returns o with its defaults, and checks what it can without a network.
func (o Options) withDefaults() (Options, error) {
	if len(o.BaseURLs) == 0 {
		return o, fmt.Errorf("no base URL: set one such as http://localhost:8000/v1")
	}
	urls := make([]string, 0, len(o.BaseURLs))
	seen := map[string]bool{}
	for _, raw := range o.BaseURLs {
		u, err := checkURL(raw)
		if err != nil {
			return o, fmt.Errorf("base URL %s", o.APIKey.Scrub(err.Error()))
		}
		if seen[u] {
			return o, fmt.Errorf("base URL %s: given twice", u)
		}
		seen[u] = true
		urls = append(urls, u)
	}
	o.BaseURLs = urls
	if !o.APIKey.Empty() {
		for _, c := range []byte(o.APIKey.Reveal()) {
			if c <= ' ' || c >= 0x7f {
				return o, fmt.Errorf("API key: contains a space, a line break or a character outside ASCII: copy it again")
			}
		}
		for _, raw := range urls {
			if u, err := url.Parse(raw); err != nil || !secret.Safe(u) {
				return o, fmt.Errorf("base URL %s: the API key would cross the network unencrypted: use https, "+
					"forward a local port to the server (ssh -L), or set no key", raw)
			}
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		unset int
		min   int
	}{
		{"concurrency", &o.Concurrency, 0, 0},
		{"maximum concurrency", &o.MaxConcurrency, 256, 1},
		{"retries", &o.Retries, 5, -1},
	} {
		if *n.value = cmp.Or(*n.value, n.unset); *n.value < n.min {
			return o, fmt.Errorf("%s %d: must be at least %d", n.name, *n.value, n.min)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		unset time.Duration
	}{
		{"connect timeout", &o.ConnectTimeout, 10 * time.Second},
		{"first-token timeout", &o.FirstTokenTimeout, 5 * time.Minute},
		{"stall timeout", &o.StallTimeout, time.Minute},
		{"total timeout", &o.TotalTimeout, 15 * time.Minute},
		{"backoff", &o.Backoff, 500 * time.Millisecond},
		{"throttle timeout", &o.ThrottleTimeout, 30 * time.Minute},
		{"dead timeout", &o.DeadTimeout, 2 * time.Minute},
	} {
		if *d.value = cmp.Or(*d.value, d.unset); *d.value < 0 {
			return o, fmt.Errorf("%s %v: must not be negative", d.name, *d.value)
		}
	}
	if o.MaxAnswerBytes = cmp.Or(o.MaxAnswerBytes, 32<<20); o.MaxAnswerBytes < 0 {
		return o, fmt.Errorf("maximum answer size %d: must not be negative", o.MaxAnswerBytes)
	}
	o.JitterSeed = cmp.Or(o.JitterSeed, rand.Uint64())
	return o, nil
}

// checkURL returns a base URL in its normal form. Its errors quote no URL that may
// contain a password.
func checkURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return "", fmt.Errorf("not a URL: set one such as http://localhost:8000/v1")
	case u.User != nil:
		return "", fmt.Errorf("%s: a user or password must not be part of the URL: set the API key instead", u.Host)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q: does not start with http:// or https://", raw)
	case u.Hostname() == "":
		return "", fmt.Errorf("%q: names no host", raw)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%s: has a query or a fragment: remove everything after the path", origin(u))
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions"):
		return "", fmt.Errorf("%q: remove /chat/completions, which is added to it", raw)
	}
	return normalURL(u), nil
}
