package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"restyle/internal/secret"
)

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	for dir, token := range map[string]string{".cache/huggingface": "\ufefffrom-home\n", "hf": " from-hf-home ",
		"xdg/huggingface": "from-xdg"} {
		os.MkdirAll(filepath.Join(home, dir), 0o777)
		os.WriteFile(filepath.Join(home, dir, "token"), []byte(token), 0o600)
	}
	for _, test := range []struct {
		name string
		env  map[string]string
		want Hub
	}{
		{"nothing", nil, Hub{Token: secret.New("from-home"), Cache: home + "/.cache/huggingface/hub"}},
		{"xdg", map[string]string{"XDG_CACHE_HOME": home + "/xdg"}, Hub{Token: secret.New("from-xdg"), Cache: home +
			"/xdg/huggingface/hub"}},
		{"home", map[string]string{"HF_HOME": "~/hf"}, Hub{Token: secret.New("from-hf-home"), Cache: home + "/hf/hub"}},
		{"variables", map[string]string{"HF_HOME": "$HOME/hf"}, Hub{Token: secret.New("from-hf-home"), Cache: home +
			"/hf/hub"}},
		{"cache", map[string]string{"HF_HUB_CACHE": "/a", "HUGGINGFACE_HUB_CACHE": "/b"}, Hub{Token: secret.New("from-home"),
			Cache: "/a"}},
		{"old names", map[string]string{"HUGGINGFACE_HUB_CACHE": "/b", "HUGGING_FACE_HUB_TOKEN": "t",
			"TRANSFORMERS_OFFLINE": "yes"},
			Hub{Token: secret.New("t"), Cache: "/b", Offline: true}},
		{"all", map[string]string{"HF_TOKEN": " tok\r\n", "HF_ENDPOINT": "https://mirror", "HF_HUB_OFFLINE": "1",
			"HF_HUB_CACHE": "/c"},
			Hub{Endpoint: "https://mirror", Token: secret.New("tok"), Cache: "/c", Offline: true}},
		{"off", map[string]string{"HF_HUB_OFFLINE": "0", "HF_TOKEN_PATH": home + "/none"},
			Hub{Cache: home + "/.cache/huggingface/hub"}},
		{"no home", map[string]string{"HOME": ""}, Hub{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HOME",
				"XDG_CACHE_HOME",
				"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
				t.Setenv(name, "")
			}
			t.Setenv("HOME", home)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			got := FromEnv()
			test.want.Endpoint = firstOf(test.want.Endpoint, "https://huggingface.co")
			same := cmp.Comparer(func(a, b secret.Secret) bool { return a.Reveal() == b.Reveal() })
			if diff := cmp.Diff(test.want, *got, cmpopts.IgnoreFields(Hub{}, "Client"), same); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                            "",
		"https://mirror.example/hub/": "",
		"http://127.0.0.1:8080":       "",
		"http://[::1]":                "",
		"http://mirror.example":       "refusing to send the token",
		"http://localhost.example":    "refusing to send the token",
		"https://me:pass@mirror":      "contains a user or password",
		"https://me:pass%zz@mirror":   "is not a URL",
		"huggingface.co":              "is not the address of a hub",
		"ftp://x":                     "is not the address of a hub",
		"https://":                    "is not the address of a hub",
		"https://x?y":                 "is not the address of a hub",
	} {
		h := Hub{Endpoint: endpoint, Token: secret.New(canary), Cache: t.TempDir()}
		_, err := h.endpoint()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pass") && !strings.Contains(err.Error(), "password") {
			t.Errorf("%q: the error repeats the password: %v", endpoint, err)
		}
	}
	for _, token := range []string{"a b", "a\nX-Evil: 1", "ü"} {
		if _, err := (&Hub{Token: secret.New(token)}).endpoint(); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := (&Hub{Token: secret.New("!~")}).endpoint(); err != nil {
		t.Errorf("the first and the last character of a token: %v", err)
	}
	h := Hub{Token: secret.New(canary)}
	said, other := fmt.Errorf("%w: %s", fs.ErrNotExist, canary), fmt.Errorf("x: %w", fs.ErrNotExist)
	h.scrubError(&said)
	h.scrubError(&other)
	if strings.Contains(said.Error(), canary) || errors.Is(said, fs.ErrNotExist) || !errors.Is(other, fs.ErrNotExist) {
		t.Errorf("%v, %v", said, other)
	}
	for value, want := range map[string]bool{"1": true, "on": true, "Yes": true, "TRUE": true, "0": false, "off": false,
		"": false, "2": false} {
		if isTrue(value) != want {
			t.Errorf("%q is %v", value, !want)
		}
	}
}

// TestNoDowngrade checks that a redirect from https to http is not followed.
func TestNoDowngrade(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("asked over plain http")
	}))
	defer plain.Close()
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer server.Close()
	h := &Hub{Endpoint: server.URL, Cache: t.TempDir(), Client: server.Client()}
	if _, err := h.Resolve(t.Context(), Ref{Model, "a/b", "main"}); err == nil ||
		!strings.Contains(err.Error(), "less safe") {
		t.Errorf("error %v", err)
	}
	// One from http to https is.
	up := httptest.NewServer(http.RedirectHandler(server.URL, http.StatusFound))
	defer up.Close()
	h.Endpoint = up.URL
	if _, err := h.Resolve(t.Context(), Ref{Model, "a/b", "main"}); err == nil ||
		!strings.Contains(err.Error(), strings.TrimPrefix(server.URL, "https://")+" redirects to") {
		t.Errorf("error %v", err)
	}
	h.Endpoint = server.URL
	// An untrusted certificate is a final error.
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	h.Client = FromEnv().Client
	if _, err := h.Resolve(t.Context(), Ref{Model, "a/b", "main"}); err == nil ||
		!strings.Contains(err.Error(), "certificate") || Retryable(err) {
		t.Errorf("error %v", err)
	}
	// The metadata service of a cloud machine is not contacted either.
	h.Endpoint = "http://169.254.169.254"
	if _, err := h.get(t.Context(), h.Endpoint, http.Header{}, func() {}); err == nil ||
		!strings.Contains(err.Error(), "link-local") {
		t.Errorf("error %v", err)
	}
}
