package openai

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// network is a set of hosts that are reached through memory, so that a test in a
// synctest bubble waits for hours in no time.
type network struct {
	mu    sync.Mutex
	hosts map[string]func(net.Conn) // by "host:port"; what does not stand here refuses connections
	stop  []func()
}

func newNetwork() *network { return &network{hosts: map[string]func(net.Conn){}} }

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	accept := n.hosts[address]
	n.mu.Unlock()
	if accept == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	accept(server)
	return client, nil
}

func (n *network) set(address string, accept func(net.Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[address] = accept
}

// serve puts an HTTP server at address.
func (n *network) serve(address string, h http.HandlerFunc) {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	go s.Serve(l)
	n.stop = append(n.stop, func() { s.Close() })
	n.set(address, func(c net.Conn) {
		select {
		case l.conns <- c:
		case <-l.closed:
			c.Close()
		}
	})
}

func (n *network) close() {
	for _, stop := range n.stop {
		stop()
	}
}

type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

// canary is the key in all tests. Some of its characters change when escaped.
const canary = "sk-cAn4ry+Zq9/xW7vT2=Lm8pQ.0kJ"

// echoes is the key in every spelling that a server might return it in.
func echoes() string {
	var percent, escaped string
	for _, c := range []byte(canary) {
		percent += fmt.Sprintf("%%%02x", c)
		escaped += fmt.Sprintf(`\u%04X`, c)
	}
	all := []string{canary, url.QueryEscape(canary), percent, escaped, hex.EncodeToString([]byte(canary)),
		strings.ToUpper(hex.EncodeToString([]byte(canary))), canary[:9], canary[5:14], canary[len(canary)-8:]}
	for _, prefix := range []string{"", "x", "xy", "Bearer "} {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			all = append(all, enc.EncodeToString([]byte(prefix+canary)), enc.EncodeToString([]byte(prefix+canary+"tail")))
		}
	}
	return strings.Join(all, " | ")
}

// leak returns a trace of the key in s, or "". It is written without a look at
// how Scrub finds them.
func leak(s string) string {
	key := []byte(canary)
	lower := strings.ToLower(s)
	for i := 0; i+8 <= len(key); i++ {
		part := key[i : i+8]
		var percent, escaped string
		for _, c := range part {
			percent += fmt.Sprintf("%%%02x", c)
			escaped += fmt.Sprintf(`\u%04x`, c)
		}
		for _, form := range []string{string(part), url.QueryEscape(string(part)), url.PathEscape(string(part))} {
			if strings.Contains(s, form) {
				return form
			}
		}
		for _, form := range []string{percent, escaped, hex.EncodeToString(part)} {
			if strings.Contains(lower, form) {
				return form
			}
		}
		if i+9 <= len(key) {
			// Nine bytes that begin on a boundary of three are twelve characters,
			// wherever in a longer text they stand.
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				if form := enc.EncodeToString(key[i : i+9]); strings.Contains(s, form) {
					return form
				}
			}
		}
	}
	return ""
}

// checkLeaks prints v in all the ways that somebody might, and looks for the key.
func checkLeaks(t *testing.T, v any) {
	t.Helper()
	texts := []string{fmt.Sprint(v), fmt.Sprintf("%v %+v %#v %q", v, v, v, v)}
	if b, err := json.Marshal(v); err == nil {
		texts = append(texts, string(b))
	}
	if err, ok := v.(error); ok && err != nil {
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if found := leak(text); found != "" {
			t.Errorf("%T shows the key as %q: %.300s", v, found, text)
		}
	}
}
