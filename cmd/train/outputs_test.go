package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"restyle/internal/cli"
)

// TestFullDisk_IsOneError checks that a full disk, which fails at each checkpoint, is one error.
func TestFullDisk_IsOneError(t *testing.T) {
	var said bytes.Buffer
	o := &outputs{train: &train{stderr: &said, status: cli.NewStatusLine(&said)}}
	first := errors.New("no space left")
	for _, err := range []error{nil, first, nil, errors.New("still no space")} {
		o.fail(err)
	}
	if o.failed != first || !strings.HasPrefix(said.String(), "no space left: the run continues") ||
		strings.Count(said.String(), "\n") != 1 {
		t.Errorf("it failed with %v and said %q", o.failed, said.String())
	}
}

// TestHubID checks that a model card names only base models that the hub can have.
func TestHubID(t *testing.T) {
	for base, want := range map[string]string{"": "", "starter": "", "/home/me/model": "", "gpt2": "gpt2",
		"Qwen/Qwen2.5-0.5B-Instruct": "Qwen/Qwen2.5-0.5B-Instruct", "a/b@refs/pr/1": "a/b"} {
		if got := hubID(base); got != want {
			t.Errorf("%q: %q, want %q", base, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.6: "1", 950.4: "950", 999.4: "999", 1000: "1.0k", 14_249: "14.2k"} {
		if got := short(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestJoinOr(t *testing.T) {
	for want, list := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := joinOr(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestHub_OfflineByEither(t *testing.T) {
	for _, env := range []string{"0", "1"} {
		t.Setenv("HF_HUB_OFFLINE", env)
		for _, flag := range []bool{false, true} {
			if got := (&train{options: &options{offline: flag}}).hub().Offline; got != (flag || env == "1") {
				t.Errorf("HF_HUB_OFFLINE=%s, --offline=%v: %v", env, flag, got)
			}
		}
	}
}
