package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/internal/cli/clitest"
	"restyle/kernels/cuda/cudatest"
)

func TestMain(m *testing.M) { cudatest.Main(m) }

// said is what a command prints, to read while it runs.
type said struct {
	lock sync.Mutex
	text bytes.Buffer
	line chan string // the URL, once it listens
}

func (s *said) Write(p []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.text.Write(p)
	m := regexp.MustCompile(`(?m)^listening on (\S+)\n`).FindStringSubmatch(s.text.String())
	if m != nil && s.line != nil {
		s.line <- m[1]
		s.line = nil
	}
	return len(p), nil
}

func (s *said) String() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.String()
}

// invoke runs the command with arguments that it refuses.
func invoke(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	var out said
	return run(t.Context(), args, io.Discard, &out), out.String()
}

// running starts the command, and returns its URL, and a function that ends it as SIGTERM does, and returns its exit
// code.
func running(t *testing.T, args ...string) (url string, out *said, end func() int) {
	t.Helper()
	out = &said{line: make(chan string, 1)}
	url_ := out.line
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- run(ctx, append([]string{"--sequences", "4"}, args...), io.Discard, out) }()
	end = sync.OnceValue(func() int { stop(); return <-code })
	t.Cleanup(func() { end() })
	select {
	case url = <-url_:
	case c := <-code:
		t.Fatalf("exit code %d: %s", c, out)
	}
	return url, out, end
}

const chat = "/v1/chat/completions"

const ask = `{"temperature":0,"messages":[{"role":"user","content":"How do I reverse a list?"}],"stream":true}`

func post(t *testing.T, client *http.Client, url, body string) (int, string) {
	t.Helper()
	r, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// TestServe_AnswersAndEnds starts the embedded model twice under two names, asks both at once, and ends the command
// while an answer is in progress, which finishes.
func TestServe_AnswersAndEnds(t *testing.T) {
	url, out, end := running(t, "starter", "again=starter", "--listen", "127.0.0.1:0")
	var group sync.WaitGroup
	answers := make([]string, 6)
	for i := range answers {
		group.Go(func() {
			model := fmt.Sprintf(`{"model":%q,`, []string{"starter", "again"}[i%2])
			_, answers[i] = post(t, http.DefaultClient, url+chat, model+strings.Replace(ask[1:], "true", "false", 1))
		})
	}
	group.Wait()
	page, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if page.StatusCode != 200 || !strings.Contains(page.Header.Get("Content-Type"), "text/html") ||
		!strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'self'") {
		t.Error(page.Status, page.Header)
	}
	content := regexp.MustCompile(`"content":"[^"]+"`)
	for _, a := range answers {
		if got := content.FindString(a); got == "" || got != content.FindString(answers[0]) {
			t.Errorf("alone and in company, %s and %s", answers[0], a)
		}
	}
	r, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(r.Body, first); err != nil {
		t.Fatal(err)
	}
	code := make(chan int)
	go func() { code <- end() }()
	rest, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%v: %s", err, rest)
	}
	if got := <-code; got != cli.Done {
		t.Errorf("exit code %d: %s", got, out)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("it still listens")
	}
}

// TestServe_EndsAnswersWhenTheTimeIsOver gives answers in progress no time.
func TestServe_EndsAnswersWhenTheTimeIsOver(t *testing.T) {
	url, out, end := running(t, "starter", "--listen", "127.0.0.1:0", "--drain", "0s")
	body := strings.Replace(ask, "{", `{"ignore_eos":true,`, 1)
	r, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if code := end(); code != cli.Done {
		t.Errorf("exit code %d: %s", code, out)
	}
	text, err := io.ReadAll(r.Body)
	if err == nil || !strings.Contains(string(text), `"code":"draining"`) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestServe_UnixSocket listens on a socket, also if an old one was left in its place, and lists the digest of the
// weights.
func TestServe_UnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	_, out, _ := running(t, "starter", "--unix", path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: %s", info, err, out)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	if status, text := post(t, client, "http://serve"+chat, ask); status != 200 || !strings.Contains(text, "[DONE]") {
		t.Error(status, text)
	}
	r, err := client.Get("http://serve/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(text), `"digest":"sha256:`) {
		t.Errorf("%s %v", text, err)
	}
	if code, stderr := invoke(t, "starter", "--unix", path); code != cli.Failed ||
		!strings.Contains(stderr, "another program listens") {
		t.Error(code, stderr)
	}
	path += strings.Repeat("x", 100)
	if code, stderr := invoke(t, "starter", "--unix", path); code != cli.Failed ||
		!strings.Contains(stderr, "choose a shorter one") {
		t.Error(code, stderr)
	}
}

// TestServe_TLS speaks https, with HTTP/2.
func TestServe_TLS(t *testing.T) {
	cert, key, pool := certificate(t)
	url, _, _ := running(t, "starter", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	r, err := client.Get(url + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	status, text := post(t, client, url+chat, ask)
	if status != 200 || r.ProtoMajor != 2 || !strings.Contains(text, "[DONE]") {
		t.Error(r.Proto, status, text)
	}
}

// certificate writes a certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour)}
	of, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(of)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: of},
		key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// TestFlags_AreChecked checks what is refused before anything is loaded and, except for the template, before serve
// listens.
func TestFlags_AreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"--listen 0.0.0.0:8080":             "RESTYLE_API_KEYS",
		"--listen :8080":                    "RESTYLE_API_KEYS",
		"--listen 8080":                     "--listen",
		"--unix s --listen 127.0.0.1:1":     "exclude each other",
		"--tls-cert c":                      "belong together",
		"--unix s --tls-cert c --tls-key k": "needs no --tls-cert",
		"--cors *":                          "--cors",
		"--cors https://a.example/path":     "--cors",
		"--sequences 9000000000000000000":   "must be 1 to 1048576",
		"--adapter-dir . --adapter-ranks 9223372036854775807": "must be 0 to 2147483647",
		"--sequences 2000000":                             "must be 1 to 1048576",
		"--host example.com:8443":                         "must be a name alone",
		"--host https://example.com":                      "must be a name alone",
		"starter starter":                                 `two models have the name "starter"`,
		"starter --adapter x":                             "NAME=DIRECTORY",
		"starter --adapter starter=x":                     "two models",
		"starter --adapter-ranks 16":                      "no adapters",
		"starter --adapter-dir no/such":                   "--adapter-dir no/such",
		"--device tpu":                                    "--device",
		"--dtype int3":                                    "--dtype",
		"--quantize int3":                                 "--quantize",
		"--listen 127.0.0.1:0 starter --template nothing": "--template",
	} {
		if code, stderr := invoke(t, strings.Fields(args)...); code != cli.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", args, code, stderr)
		}
	}
	t.Setenv("RESTYLE_API_KEYS", "good,b\u00e4d")
	code, stderr := invoke(t)
	if code != cli.Usage || !strings.Contains(stderr, "ASCII") || strings.Contains(stderr, "good") {
		t.Error(code, stderr)
	}
}

// TestNames_OfModels checks how arguments name models, and the server.
func TestNames_OfModels(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"models/base", "a=b"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for arg, want := range map[string]modelRef{
		"starter":           {name: "starter", path: "starter"},
		"models/base":       {name: "base", path: "models/base"},
		"./models/base/":    {name: "base", path: "./models/base/"},
		"mine=models/base":  {name: "mine", path: "models/base"},
		"a=b":               {name: "a=b", path: "a=b"},
		"owner/name":        {name: "owner/name", path: "owner/name"},
		"owner/name:Q4_K_M": {name: "owner/name:Q4_K_M", path: "owner/name:Q4_K_M"},
	} {
		if got := named(arg); got != want {
			t.Errorf("%s: %+v", arg, got)
		}
	}
	if o := (&options{listen: "LocalHost:80", hosts: cli.Paths{"My.Proxy"}}); !slices.Equal(o.names(),
		[]string{"127.0.0.1", "::1", "localhost", "my.proxy"}) {
		t.Errorf("names of hosts: %q", o.names())
	}
	for _, there := range []bool{false, true} {
		want := "starter"
		if there {
			if want = "out"; os.Mkdir(want, 0o777) != nil {
				t.Fatal("no directory")
			}
		}
		o := defaults()
		if err := o.name(nil); err != nil || o.models[0].path != want {
			t.Errorf("%+v %v", o.models, err)
		}
	}
}

// TestNumberFlags_AtZero checks every flag that takes a number at 0, and what it refuses.
func TestNumberFlags_AtZero(t *testing.T) {
	// accepts checks that a flag at 0 is accepted: the other refusal comes after it.
	accepts := func(name string) clitest.Number {
		return clitest.Number{Zero: func(t *testing.T) {
			if _, stderr := invoke(t, "--"+name, "0", "--cors", "*"); !strings.Contains(stderr, "--cors") {
				t.Error(stderr)
			}
		}}
	}
	clitest.Numbers(t, defaults().flags(io.Discard, io.Discard), map[string]clitest.Number{
		"context": {}, "sequences": {}, "queue": {}, "body": {}, "connections": {}, "header-time": {},
		"slow": {}, "timeout": {},
		"max-tokens": accepts("max-tokens"), "cache": accepts("cache"), "threads": accepts("threads"),
		"drain": accepts("drain"), "adapter-ranks": accepts("adapter-ranks"),
	}, func(args ...string) (int, string) { return invoke(t, args...) })
}
