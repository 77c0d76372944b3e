package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// keysOf counts the keys that a server gets in all requests from now on.
func keysOf(s *server) (got func() map[string]bool) {
	var mu sync.Mutex
	keys, serve := map[string]bool{}, s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] = true
		mu.Unlock()
		serve.ServeHTTP(w, r)
	})
	return func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(keys)
	}
}

// TestKeyFromElsewhere_NotSentToDotEnvAddress checks that an address from .env never gets a key from elsewhere: for
// each place of the teacher's address and of the key, and for a judge at the teacher's servers, at another server and,
// by its own flag, at the same one.
func TestKeyFromElsewhere_NotSentToDotEnvAddress(t *testing.T) {
	const fromFile = "sk-file-0123456789abcdefghij"
	source := tasks(t, 20)
	for _, c := range []struct {
		address        string // where the teacher's address is
		key            string // where keys are
		teacher, judge string // the keys that a server gets from the teacher, and from a judge with an address of its own
	}{
		{"flag", "env", canary, canary}, {"flag", ".env", fromFile, fromFile}, {"flag", "env .env", canary, canary},
		{"env", "env", canary, canary}, {"env", ".env", fromFile, fromFile}, {"env", "env .env", canary, canary},
		{".env", "env", "", canary}, {".env", ".env", fromFile, fromFile}, {".env", "env .env", "", canary},
		{".env flag", "env", canary, canary}, {".env flag", ".env", fromFile, fromFile},
		{".env flag", "env .env", canary, canary}, {".env env", "env", canary, canary},
		{".env env", ".env", fromFile, fromFile}, {".env env", "env .env", canary, canary},
	} {
		for _, judge := range []string{"", "at the teacher's", "elsewhere", "at the same address"} {
			t.Run(fmt.Sprintf("address in %s, key in %s, judge %s", c.address, c.key, judge), func(t *testing.T) {
				t.Chdir(t.TempDir())
				s, other := newServer(t, nil), newServer(t, nil)
				keys, others := keysOf(s), keysOf(other)
				for name, value := range map[string]string{"TEACHER_MODEL": "", "OPENAI_BASE_URL": s.base(),
					"OPENAI_API_KEY": canary} {
					t.Setenv(name, value) // so that it is restored
					if value == "" || name == "OPENAI_BASE_URL" && !strings.HasSuffix(" "+c.address, " env") ||
						name == "OPENAI_API_KEY" && !strings.HasPrefix(c.key, "env") {
						os.Unsetenv(name)
					}
				}
				env := ""
				if strings.Contains(c.address, ".env") {
					env += "OPENAI_BASE_URL=" + s.base() + "\n"
				}
				if strings.Contains(c.key, ".env") {
					env += "OPENAI_API_KEY=" + fromFile + "\n"
				}
				expect.OK(t, os.WriteFile(".env", []byte(env), 0o600))
				args := []string{"--source", source, "--rows", "1", "--model", "fake", "--retries", "0"}
				if strings.HasSuffix(c.address, "flag") {
					args = append(args, "--base-url", s.base())
				}
				want, wantOther := map[string]bool{c.teacher: true}, map[string]bool{}
				switch judge {
				case "at the teacher's":
					args = append(args, "--judge", "fake")
				case "elsewhere":
					args = append(args, "--judge", "fake", "--judge-url", other.base())
					wantOther[c.judge] = true
				case "at the same address":
					args = append(args, "--judge", "fake", "--judge-url", s.base())
					want[c.judge] = true
				}
				o := invoke(t, args...)
				if got := keys(); !maps.Equal(got, want) || !maps.Equal(others(), wantOther) || o.code == cli.Usage {
					t.Errorf("the server got the keys %v, want %v; the other %v, want %v: %v", got, want, others(), wantOther, o)
				}
				if strings.Contains(o.stderr, "sends no key") != (c.teacher == "") {
					t.Error(o)
				}
			})
		}
	}
}
