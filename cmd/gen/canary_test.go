package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// Every test of this package runs with a key in the environment; invoke searches for it in what is printed, and
// newFolder in what is written. The server repeats it in all its errors; in this file also in good answers.

// TestLeakIsFound checks that the search finds the key.
func TestLeakIsFound(t *testing.T) {
	for name, text := range map[string]string{
		"as it is":         "Bearer " + canary,
		"cut short":        canary[:12] + "…",
		"its end":          "…" + canary[20:],
		"percent":          "?key=" + strings.ToLower(percent(canary)),
		"JSON":             `"` + escaped(canary) + `"`,
		"hex":              strings.ToUpper(hex.EncodeToString([]byte(canary))),
		"base64":           base64.StdEncoding.EncodeToString([]byte(canary)),
		"base64 after 1":   base64.StdEncoding.EncodeToString([]byte(":" + canary)),
		"base64 after 2":   base64.URLEncoding.EncodeToString([]byte("a:" + canary)),
		"base64 of header": base64.StdEncoding.EncodeToString([]byte("Bearer " + canary)),
		"reversed":         reversed(canary),
	} {
		if leak("some text "+text+" and more") == "" {
			t.Errorf("%s: not found", name)
		}
	}
	if found := leak("nothing of the kind, sk-1234567890"); found != "" {
		t.Error(found)
	}
}

// TestKeyInAnswers checks that the key does not leak if a server puts it into everything that it sends: texts, names,
// reasons, headers.
func TestKeyInAnswers(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	for name, spoil := range map[string]func(c call, event string) string{
		"in the text": func(c call, e string) string {
			return strings.ReplaceAll(e, "the ", "the "+strings.ReplaceAll(echo(c.r), `\`, `\\`)+" ")
		},
		"cut up over the text": func(c call, e string) string {
			key := strings.TrimPrefix(c.r.Header.Get("Authorization"), "Bearer ")
			return strings.Replace(strings.Replace(e, `"content":"`, `"content":"`+key[20:], 1), `"},"finish_reason":null`,
				key[:20]+`"},"finish_reason":null`, 1)
		},
		"as the id":    func(c call, e string) string { return strings.ReplaceAll(e, "chatcmpl-", canary) },
		"as the model": func(c call, e string) string { return strings.ReplaceAll(e, `"fake"`, `"`+canary+`"`) },
		"as the finish reason": func(c call, e string) string {
			return strings.ReplaceAll(e, `"finish_reason":"stop"`, `"finish_reason":"`+canary+`"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(c call) bool {
				c.w.Header().Set("X-Request-Id", c.r.Header.Get("Authorization"))
				c.w.Header().Set("Set-Cookie", "key="+canary)
				q, _ := parseQuery(c.body)
				for _, e := range c.events(q.answer()) {
					io.WriteString(c.w, spoil(c, e))
				}
				return true
			})
			invoke(t, runArgs(newFolder(t), source, s.base(), "--card", filepath.Join(newFolder(t).dir, "card.md"))...)
			invoke(t, runArgs(newFolder(t), source, s.base(), "--preview", "3")...)
		})
	}
}

// TestKeyInModels checks that the key does not leak if it is in the list of models, which gen shows if the model is not
// in it.
func TestKeyInModels(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.set(func() { s.models = []string{canary, "Bearer " + canary, percent(canary)} })
	must(t, cli.Failed, runArgs(newFolder(t), tasks(t, 10), s.base())...)
	must(t, cli.Usage, "--source", tasks(t, 10), "--out", newFolder(t).out, "--base-url", s.base())
}

// TestKeyInUnsolicitedBytes checks that the key does not leak if a server sends unsolicited bytes, which net/http logs
// with the standard logger.
func TestKeyInUnsolicitedBytes(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer listener.Close()
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "+
			"24\r\n\r\n"+`{"data":[{"id":"fake"}]}`+
			"HTTP/1.1 200 "+canary+"\r\n"+canary+"\r\n")
		io.Copy(io.Discard, conn) // until the client closes the connection
		conn.Close()
	}))
	source, said := tasks(t, 10), false
	for range 100 { // usually once: net/http logs only if it reads before the next request takes the connection
		cmd, stdout, stderr := process(t, runArgs(newFolder(t), source, "http://"+listener.Addr().String()+"/v1", "--retries",
			"0", "--dead-timeout", "300ms")...)
		cmd.Run()
		if found := leak(stdout.String() + stderr.String()); found != "" {
			t.Errorf("the key is there %s:\n%s%s", found, stdout, stderr)
		}
		if said = strings.Contains(stderr.String(), "Unsolicited response"); said {
			break
		}
	}
	if !said {
		t.Error("net/http never logged it")
	}
}

// TestKeyInFlags checks that the key does not leak if a user puts it into other flags.
func TestKeyInFlags(t *testing.T) {
	source := tasks(t, 10)
	for _, args := range [][]string{
		{"--base-url", "http://user:" + canary + "@127.0.0.1:1/v1"},
		{"--base-url", "http://127.0.0.1:1/v1?key=" + canary},
		{"--base-url", canary},
		{"--model", canary, "--base-url", "http://127.0.0.1:1/v1"},
		{"--teacher", canary},
		{"--extra", `{"key": ` + canary},
		{"--style", canary},
		{canary},
		{"--" + canary},
		{"--rows", canary},
	} {
		if o := invoke(t, append([]string{"--source", source, "--out", newFolder(t).out, "--dead-timeout", "10ms"},
			args...)...); o.code == cli.Done {
			t.Errorf("%q was fine: %v", args, o)
		}
	}
}

// TestKeyInBrokenEnv checks that the error for a broken .env does not quote its contents.
func TestKeyInBrokenEnv(t *testing.T) {
	for name, text := range map[string]string{
		"no equals sign":  "OPENAI_API_KEY " + canary + "\n",
		"an open quote":   "OPENAI_API_KEY=\"" + canary + "\n",
		"a bare key":      canary + "\n",
		"a strange name":  "OPENAI-API KEY=" + canary + "\n",
		"binary":          "OPENAI_API_KEY\x00=" + canary,
		"after good ones": "A=1\nB=2\n" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			expect.OK(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(text), 0o600))
			t.Chdir(dir)
			t.Setenv("OPENAI_API_KEY", "")
			os.Unsetenv("OPENAI_API_KEY")
			if o := invoke(t, "--version"); o.code != cli.Usage && o.code != cli.Done || o.code == cli.Usage &&
				!strings.Contains(o.stderr, ".env") {
				t.Error(o)
			}
		})
	}
}

// TestPlaceholderKey uses a key that is a word of the answers: gen keeps the answers as they are, and removes the key
// only from what it prints to the terminal.
func TestPlaceholderKey(t *testing.T) {
	source := fitTasks(t, 20)
	make := func(key string) (result string, o outcome) {
		t.Setenv("OPENAI_API_KEY", key)
		f, s := newFolder(t), newServer(t, nil)
		s.set(func() { s.good = true })
		args := []string{"--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake"}
		o = must(t, cli.Done, args...)
		return f.result(t), o
	}
	want, _ := make("")
	for _, key := range []string{"Obviously", "basic", "fake", "value"} {
		if !strings.Contains(want, key) {
			t.Fatalf("no answer has %q in it", key)
		}
		got, o := make(key)
		if got != want {
			t.Errorf("key %q: the result differs", key)
		}
		if strings.Contains(o.stderr, key) || lastLine(t, o)["teacher"] != "fake" {
			t.Errorf("key %q: %v", key, o)
		}
	}
}

// TestKeyInExtra puts a key among the fields of --extra: gen sends it, and writes it nowhere.
func TestKeyInExtra(t *testing.T) {
	source := fitTasks(t, faultRows)
	must(t, cli.Usage, runArgs(newFolder(t), source, "http://127.0.0.1:1/v1", "--extra", `{"api_key":"`+canary+`"}`)...)
	for _, c := range []struct{ extra, secret, kept string }{
		{`{"api_key":"pw1"}`, "pw1", `{\"api_key\":\"sha256 `},
		{`{"headers":{"X":["0123456789abcdefXYZ"]},"top_k":40}`, "0123456789abcdefXYZ", `\"top_k\":40`},
		{`{"top_k":40, "mode":"fast"}`, "", `"{\"top_k\":40, \"mode\":\"fast\"}"`},
	} {
		f := newFolder(t)
		s := newServer(t, nil)
		s.set(func() { s.good = true })
		args := runArgs(f, source, s.base(), "--extra", c.extra)
		must(t, cli.Done, args...)
		journal := expect.Read(t, filepath.Join(f.out+".work", "journal.log"))
		if c.secret != "" && strings.Contains(journal, c.secret) || !strings.Contains(journal, c.kept) {
			t.Errorf("%s: the journal has %.600s", c.extra, journal)
		}
		for body := range s.asked {
			if !strings.Contains(body, c.secret) {
				t.Errorf("%s: it was not sent: %s", c.extra, body)
			}
		}
		if o := must(t, cli.Done, args...); lastLine(t, o)["calls"].(float64) != 0 {
			t.Errorf("%s: asked again", c.extra)
		}
	}
}
