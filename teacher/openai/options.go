package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"restyle/internal/secret"
)

// Options configure a [Pool]. Zero values take the default named at each field.
type Options struct {
	// BaseURLs are the endpoints, such as "http://localhost:8000/v1"; requests go
	// to <base>/chat/completions. At least one; no user, query or fragment. With a
	// key, https, unless the host is this machine.
	BaseURLs []string
	// APIKey is sent as a bearer token to the hosts of BaseURLs and nowhere else.
	APIKey secret.Secret

	// Concurrency is how many requests may be in flight over all endpoints. 0
	// adapts it to each endpoint, from 4 up to MaxConcurrency.
	Concurrency int
	// MaxConcurrency bounds the adaptive number, per endpoint. Default 256.
	MaxConcurrency int

	// ConnectTimeout bounds the connection, and again the TLS handshake. Default 10 s.
	ConnectTimeout time.Duration
	// FirstTokenTimeout bounds sending the request up to the first event of the
	// answer; comments that keep the connection alive do not count. Default 5 min.
	FirstTokenTimeout time.Duration
	// StallTimeout bounds the silence between two reads after that. Default 1 min.
	StallTimeout time.Duration
	// TotalTimeout bounds one attempt. Default 15 min. Waiting for a slot or for a
	// retry counts against none of these.
	TotalTimeout time.Duration

	// Retries is how often a failed request is sent again. Default 5; -1 for none.
	// Being told to slow down (429) and not reaching the endpoint at all do not
	// use them up; ThrottleTimeout and DeadTimeout bound those.
	Retries int
	// Backoff is the bound of the first random wait before a retry; it doubles
	// with each, up to 60 s. Default 500 ms.
	Backoff time.Duration
	// ThrottleTimeout is how long a request may be told to slow down. Default 30 min.
	ThrottleTimeout time.Duration
	// DeadTimeout is how long requests wait without any answer while every endpoint is
	// down or asks to be left alone. Default 2 min.
	DeadTimeout time.Duration

	// MaxAnswerBytes bounds a response as it is read, decompressed, framing
	// included. Default 32 MiB.
	MaxAnswerBytes int64

	// JitterSeed makes the random waits repeatable. 0 draws a seed.
	JitterSeed uint64

	dial func(ctx context.Context, network, address string) (net.Conn, error) // tests
}

// withDefaults fills in defaults, and checks what can be checked without a network.
func (o Options) withDefaults() (Options, error) {
	if len(o.BaseURLs) == 0 {
		return o, fmt.Errorf("no endpoint: give a base URL such as http://localhost:8000/v1")
	}
	urls := make([]string, 0, len(o.BaseURLs))
	seen := map[string]bool{}
	for _, raw := range o.BaseURLs {
		u, err := checkURL(raw)
		if err != nil {
			return o, fmt.Errorf("base URL: %s", o.APIKey.Scrub(err.Error()))
		}
		if seen[u] {
			return o, fmt.Errorf("base URL %s is given twice", u)
		}
		seen[u] = true
		urls = append(urls, u)
	}
	o.BaseURLs = urls
	if !o.APIKey.Empty() {
		for _, c := range []byte(o.APIKey.Reveal()) {
			if c <= ' ' || c >= 0x7f {
				return o, fmt.Errorf("the API key contains a space, a line break or a character outside ASCII: copy it again")
			}
		}
		for _, raw := range urls {
			if u, err := url.Parse(raw); err != nil || !secret.Safe(u) {
				return o, fmt.Errorf("base URL %s: the API key would cross the network unencrypted: use https, "+
					"tunnel the server to localhost (ssh -L), or leave the key out", raw)
			}
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		unset int
		least int
	}{
		{"concurrency", &o.Concurrency, 0, 0},
		{"maximum concurrency", &o.MaxConcurrency, 256, 1},
		{"retries", &o.Retries, 5, -1},
	} {
		if *n.value == 0 {
			*n.value = n.unset
		}
		if *n.value < n.least {
			return o, fmt.Errorf("%s is %d: it cannot be less than %d", n.name, *n.value, n.least)
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
		if *d.value == 0 {
			*d.value = d.unset
		}
		if *d.value < 0 {
			return o, fmt.Errorf("%s is %v: it cannot be negative", d.name, *d.value)
		}
	}
	if o.MaxAnswerBytes == 0 {
		o.MaxAnswerBytes = 32 << 20
	}
	if o.MaxAnswerBytes < 0 {
		return o, fmt.Errorf("maximum answer size is %d bytes: it cannot be negative", o.MaxAnswerBytes)
	}
	if o.JitterSeed == 0 {
		o.JitterSeed = rand.Uint64()
	}
	return o, nil
}

// checkURL returns raw in its normal form. Errors do not repeat a URL that may
// hold a password.
func checkURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return "", fmt.Errorf("not a URL: want something like http://localhost:8000/v1")
	case u.User != nil:
		return "", fmt.Errorf("%s: a user or password does not belong into the URL; give the key as the API key", u.Host)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q does not start with http:// or https://", raw)
	case u.Hostname() == "":
		return "", fmt.Errorf("%q names no host", raw)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%s has a query or a fragment: leave off what follows the path", origin(u))
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions"):
		return "", fmt.Errorf("%q: leave off /chat/completions, it is added", raw)
	}
	return normalURL(u), nil
}
