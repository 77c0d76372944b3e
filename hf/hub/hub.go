// Package hub downloads files of dataset and model repositories from the Hugging Face hub into the standard cache,
// which it shares with Python's huggingface_hub: each finds what the other has downloaded, even offline. Unlike Python
// it checks the hash of every file before the file gets its name in the cache.
//
//	h := hub.FromEnv()
//	ref, err := hub.ParseRef(hub.Dataset, "owner/name@main")
//	listing, err := h.Resolve(ctx, ref)
//	files, err := listing.Match("*.parquet")
//	path, err := h.Fetch(ctx, listing, files[0].Path)
package hub

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"restyle/internal/disk"
	"restyle/internal/secret"
)

// A Hub is a Hugging Face hub and the local cache of its files. The zero value has no cache; FromEnv fills in all
// fields. Its methods are safe for concurrent use, also by several processes.
type Hub struct {
	// Endpoint is the hub's base URL. Empty means https://huggingface.co.
	Endpoint string
	// Token is the access token, empty for none. It is sent only to the host of Endpoint, never to a host that the hub
	// redirects to, and over plain http only to this machine.
	Token secret.Secret
	// Cache is the cache directory, which holds directories models--owner--name.
	Cache string
	// Offline makes every call answer from the cache without touching the network.
	Offline bool
	// Client sends the requests; nil means http.DefaultClient. Its CheckRedirect and Jar are not used.
	Client *http.Client
	// Progress, unless it is nil, is called as bytes of a file arrive, from the goroutine that called Fetch.
	Progress func(Progress)
	// Waiting, unless it is nil, is called with a message if a call gets no answer for two seconds, at most once for
	// each file or question, from another goroutine.
	Waiting func(message string)
}

// Progress is the progress of the download of one file.
type Progress struct {
	// Name is the file's path in its repository.
	Name string
	// Done and Total count bytes. Done starts at the bytes of an earlier, interrupted download, and falls back to 0 if the
	// file has to be downloaded from the start.
	Done, Total int64
}

// String describes the progress in a line.
func (p Progress) String() string {
	return fmt.Sprintf("downloading %s: %.0f%% of %.1f MiB", p.Name, 100*float64(p.Done)/float64(max(p.Total, 1)),
		float64(p.Total)/(1<<20))
}

const defaultEndpoint = "https://huggingface.co"

// FromEnv reads the settings that Python's huggingface_hub reads, from the same variables:
//
//	HF_ENDPOINT       the hub, default https://huggingface.co
//	HF_TOKEN          the access token; else the file HF_TOKEN_PATH, default HF_HOME/token
//	HF_HOME           default $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface
//	HF_HUB_CACHE      the cache, default HF_HOME/hub
//	HF_HUB_OFFLINE    1, true, yes or on: never touch the network
//
// and the older names HUGGING_FACE_HUB_TOKEN, HUGGINGFACE_HUB_CACHE and TRANSFORMERS_OFFLINE. A token file that cannot
// be read counts as none. Without a home directory Cache stays empty, which is an error of Resolve and Fetch.
func FromEnv() *Hub {
	home := expand(os.Getenv("HF_HOME"))
	if home == "" {
		cache := expand(os.Getenv("XDG_CACHE_HOME"))
		if cache == "" {
			cache = expand("~/.cache")
		}
		if cache != "" {
			home = filepath.Join(cache, "huggingface")
		}
	}
	within := func(name string) string {
		if home == "" {
			return ""
		}
		return filepath.Join(home, name)
	}
	token := firstOf(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN"))
	if token == "" {
		data, err := disk.ReadInput(firstOf(expand(os.Getenv("HF_TOKEN_PATH")), within("token")), maxNote)
		if err == nil {
			token = strings.TrimPrefix(string(data), "\ufeff") // Windows editors put it there
		}
	}
	return &Hub{
		Endpoint: firstOf(os.Getenv("HF_ENDPOINT"), defaultEndpoint),
		Token:    secret.New(token),
		Cache: firstOf(expand(os.Getenv("HF_HUB_CACHE")), expand(os.Getenv("HUGGINGFACE_HUB_CACHE")),
			within("hub")),
		Offline: isTrue(firstOf(os.Getenv("HF_HUB_OFFLINE"), os.Getenv("TRANSFORMERS_OFFLINE"))),
		Client:  &http.Client{Transport: transport()},
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func isTrue(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// expand replaces $VARIABLES and a leading ~. It returns "" if ~ has no meaning.
func expand(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		path = filepath.Join(home, path[1:])
	}
	return os.ExpandEnv(path)
}

// transport is http.DefaultTransport, but refuses to dial link-local addresses: a cloud machine has its metadata
// service there, and no hub is there. It checks the address after name resolution.
func transport() *http.Transport {
	dialer := net.Dialer{Timeout: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(strings.Split(host, "%")[0]); ip != nil && ip.IsLinkLocalUnicast() {
			return fmt.Errorf("refusing to connect to the link-local address %s", host)
		}
		return nil
	}}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// endpoint returns Endpoint, checked, without a trailing slash.
func (h *Hub) endpoint() (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(firstOf(h.Endpoint, defaultEndpoint), "/"))
	if err != nil {
		// The parser's own message would repeat the value, which may contain a password.
		return nil, fmt.Errorf("the hub's address is not a URL: set HF_ENDPOINT to one like %s", defaultEndpoint)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("the hub's address %s contains a user or password: remove it and set HF_TOKEN", u.Host)
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("%q is not the address of a hub: set HF_ENDPOINT to one like %s", u, defaultEndpoint)
	case !h.Token.Empty() && !secret.Safe(u):
		return nil, fmt.Errorf("refusing to send the token to %s over plain http: use https or unset HF_TOKEN", u.Host)
	}
	if strings.ContainsFunc(h.Token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("the hub token contains a space or another character that no token has: set HF_TOKEN again")
	}
	return u, nil
}

// scrubError removes the token from an error before it leaves the package.
func (h *Hub) scrubError(err *error) {
	if *err == nil {
		return
	}
	// The error is a new one: unwrapping it must not reveal the text.
	text := (*err).Error()
	if clean := h.Token.Scrub(text); clean != text {
		*err = errors.New(clean)
	}
}
