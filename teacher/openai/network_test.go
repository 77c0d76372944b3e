package openai

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"restyle/internal/secret/secrettest"
)

// A network is a set of hosts reached through memory, so that a test in a synctest bubble can wait for hours without
// delay.
type network struct {
	mu    sync.Mutex
	hosts map[string]func(net.Conn) // by "host:port"; all others refuse connections
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

// serve starts an HTTP server at address.
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

// canary is the key in all tests.
const canary = secrettest.Key

// echoes is the key in every spelling in which a server might return it.
func echoes() string { return strings.Join(secrettest.Spellings(), " | ") }
