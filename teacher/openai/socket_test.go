package openai

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/internal/secret"
	"restyle/internal/secret/secrettest"
)

// listen accepts connections on a real socket and passes them to serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("no local network: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

func expiredCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	expect.OK(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestSockets checks what needs a real socket: resets, refused connections and TLS.
func TestSockets(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	selfSigned := httptest.NewUnstartedServer(http.HandlerFunc(stream(goodStream)))
	selfSigned.Config.ErrorLog = quiet
	selfSigned.StartTLS()
	defer selfSigned.Close()
	expired := httptest.NewUnstartedServer(http.HandlerFunc(stream(goodStream)))
	expired.Config.ErrorLog = quiet
	expired.TLS = &tls.Config{Certificates: []tls.Certificate{expiredCertificate(t)}}
	expired.StartTLS()
	defer expired.Close()
	plainHTTP := httptest.NewServer(http.HandlerFunc(stream(goodStream)))
	defer plainHTTP.Close()
	reset := func(after int) string {
		return "http://" + listen(t, func(c net.Conn) {
			io.ReadFull(c, make([]byte, 100)) // the rest stays unread, without lingering: RST
			io.WriteString(c, ("HTTP/1.1 200 OK\r\n\r\n" + events(delta("Su")))[:after])
			time.Sleep(time.Millisecond)
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		})
	}
	for _, test := range []struct{ name, url, want, reason string }{
		{"refused", "http://127.0.0.1:1", "*openai.Unavailable", "unreachable"},
		{"no such host", "https://no-such-host.invalid", "*openai.Unavailable", "unreachable"},
		{"reset at once", reset(0), "*openai.Unavailable", "connection lost"},
		{"reset in the headers", reset(10), "*openai.Unavailable", "connection lost"},
		{"reset in the answer", reset(40), "*openai.Unavailable", "connection lost"},
		{"self-signed", selfSigned.URL, "*openai.Fatal", "certificate"},
		{"expired", expired.URL, "*openai.Fatal", "certificate"},
		{"TLS to plain", "https" + strings.TrimPrefix(plainHTTP.URL, "http"), "*openai.Fatal", "not TLS"},
		{"plain to TLS", "http" + strings.TrimPrefix(selfSigned.URL, "https"), "*openai.Fatal", "TLS wanted"},
		{"TLS handshake never ends", "https://" + listen(t, func(c net.Conn) { time.Sleep(time.Second); c.Close() }),
			"*openai.Unavailable", "unreachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Options{BaseURLs: []string{test.url + "/v1"}, APIKey: secret.New(canary), Backoff: time.Millisecond, Retries: 2,
				DeadTimeout: 10 * time.Millisecond, JitterSeed: 1}
			if strings.Contains(test.name, "never ends") {
				o.ConnectTimeout = 50 * time.Millisecond
			}
			p, err := New(o)
			expect.OK(t, err)
			defer p.Close()
			_, err = p.Complete(context.Background(), testBody(t))
			if fmt.Sprintf("%T", err) != test.want || reasonOf(err) != test.reason {
				t.Errorf("got %T for %q: %v", err, reasonOf(err), err)
			}
			secrettest.Check(t, err)
		})
	}
}

// TestRedirectKeepsKey checks that the key never reaches the host of a redirect, whatever the redirect's form.
func TestRedirectKeepsKey(t *testing.T) {
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(thief.URL+"/v1/chat/completions", code))
		p, err := New(Options{BaseURLs: []string{s.URL}, APIKey: secret.New(canary)})
		expect.OK(t, err)
		_, err = p.Complete(context.Background(), testBody(t))
		var f *Fatal
		if !errors.As(err, &f) || f.Reason != "redirect" || !strings.Contains(err.Error(), thief.URL) {
			t.Errorf("%d: %v", code, err)
		}
		if _, err := p.Models(context.Background()); !errors.As(err, &f) {
			t.Errorf("%d, models: %v", code, err)
		}
		p.Close()
		s.Close()
	}
	if stolen.Load() > 0 {
		t.Errorf("the other host was called %d times", stolen.Load())
	}
}

// TestConnectionsAreReused checks that there are as many connections as concurrent requests, not one per request.
func TestConnectionsAreReused(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		// The body ends a moment after the stream.
		n.serve(host, reading(then(goodStream, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) })))
		var opened atomic.Int64
		dial := func(ctx context.Context, kind, address string) (net.Conn, error) {
			opened.Add(1)
			return n.dial(ctx, kind, address)
		}
		p := testPool(t, n, func(o *Options) { o.Concurrency, o.dial = 16, dial })
		defer p.Close()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 40 {
					if _, err := p.Complete(context.Background(), testBody(t)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if opened.Load() > 16 {
			t.Errorf("%d connections for 640 requests, 16 at once", opened.Load())
		}
	})
}
