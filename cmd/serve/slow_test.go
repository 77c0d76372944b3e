package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestSlowClients_AreDropped holds connections without ever finishing a request. Each is ended in time, and makes
// room for a client that waits for one of two connections.
func TestSlowClients_AreDropped(t *testing.T) {
	url, _, _ := running(t, "starter", "--listen", "127.0.0.1:0", "--connections", "2", "--header-time", "300ms", "--slow",
		"300ms", "--body", "100")
	address := strings.TrimPrefix(url, "http://")
	for _, c := range []struct{ sent, answer string }{
		{"", ""},
		{"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", ""},
		{"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n{\"prompt\":", "400 Bad Request"},
		{"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 900\r\n\r\n" +
			strings.Repeat("x", 900), "413 Request Entity Too Large"},
		{"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n",
			"431 Request Header Fields Too Large"},
	} {
		conns := make([]net.Conn, 2)
		for i := range conns {
			var err error
			if conns[i], err = net.Dial("tcp", address); err != nil {
				t.Fatal(err)
			}
			defer conns[i].Close()
			if _, err := io.WriteString(conns[i], c.sent); err != nil {
				t.Fatal(err)
			}
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if r, err := client.Get(url + "/health"); err != nil || r.StatusCode != 200 {
			t.Fatal(r, err)
		}
		for _, conn := range conns {
			line, err := bufio.NewReader(conn).ReadString('\n')
			if c.answer == "" && err == nil || !strings.Contains(line, c.answer) {
				t.Errorf("%.60q: %q, %v", c.sent, line, err)
			}
		}
	}
}
