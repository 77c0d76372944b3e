// Package hub downloads files of a dataset or model repository of the Hugging Face hub into the standard cache, the one
// that Python's huggingface_hub keeps: what Python has downloaded is found, offline too, and Python finds what was
// downloaded here. Unlike Python it checks the hash of every file before the file gets its name in the cache.
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

	"restyle/internal/secret"
)

// Hub is a Hugging Face hub and the local cache of its files. The zero value lacks a cache; FromEnv fills everything
// in. Its methods may be called from several goroutines and processes at once.
type Hub struct {
	// Endpoint is the hub's base URL. Empty means https://huggingface.co.
	Endpoint string
	// Token is the access token, empty for none. It is sent to the host of Endpoint alone, never to a host that the
	// hub redirects to, and over plain http only to this machine.
	Token secret.Secret
	// Cache is the cache directory, the one with models--owner--name folders in it.
	Cache string
	// Offline makes every call answer from the cache without touching the network.
	Offline bool
	// Client sends the requests; nil means http.DefaultClient. Its CheckRedirect and Jar are not used.
	Client *http.Client
	// Progress, when set, is called as bytes of a file arrive, from the goroutine that called Fetch.
	Progress func(Progress)
}

// Progress says how far the download of one file is.
type Progress struct {
	// Name is the file's path in its repository.
	Name string
	// Done and Total count bytes. Done starts at what an earlier, broken download left and falls back to 0 where the
	// file has to be started again.
	Done, Total int64
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
// be read counts as none. Without a home directory Cache stays empty, which Resolve and Fetch report.
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
		data, err := os.ReadFile(firstOf(expand(os.Getenv("HF_TOKEN_PATH")), within("token")))
		if err == nil {
			token = string(data)
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

// expand replaces $VARIABLES and a leading ~. It is empty where ~ has no meaning.
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

// transport is http.DefaultTransport, but for refusing to dial link-local addresses: a cloud machine's metadata
// service lives there and no hub does. The check is on the address dialled, after name resolution.
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

// endpoint is Endpoint, checked, without a slash at the end.
func (h *Hub) endpoint() (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(firstOf(h.Endpoint, defaultEndpoint), "/"))
	if err != nil {
		// The parser's own message would repeat the value, and with it a password that may stand in it.
		return nil, fmt.Errorf("the hub's address is not a URL: set HF_ENDPOINT to one like %s", defaultEndpoint)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("the hub's address %s holds a user or password: leave it out and set HF_TOKEN", u.Host)
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("%q is not the address of a hub: set HF_ENDPOINT to one like %s", u, defaultEndpoint)
	case !h.Token.Empty() && !secret.Safe(u):
		return nil, fmt.Errorf("refusing to send the token to %s over plain http: use https or unset HF_TOKEN", u.Host)
	}
	if strings.ContainsFunc(h.Token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("the hub token holds a space or a character that no token has: set HF_TOKEN again")
	}
	return u, nil
}

// scrubError is the last thing done to an error before it leaves the package.
func (h *Hub) scrubError(err *error) {
	if *err == nil {
		return
	}
	// The clean error stands alone: unwrapping must not give back the text that was hidden.
	text := (*err).Error()
	if clean := h.Token.Scrub(text); clean != text {
		*err = errors.New(clean)
	}
}
