package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/serve"
	"restyle/serve/web"
)

// command is one run of serve.
type command struct {
	*options
	notes   io.Writer
	status  *cli.StatusLine
	engines int      // models with weights of their own
	shared  *shared  // the model that adapters share; nil if none can
	dir     *os.Root // that adapters may come from while the server runs; nil if none may
}

// maxHeader is the maximum size of a request's header in bytes.
const maxHeader = 16 << 10

// serve listens, loads the models, and answers until ctx is done and the answers in progress are finished. It listens
// first, so that an address in use is an error before models are loaded, and /ready tells when they are.
func (c *command) serve(ctx context.Context) (err error) {
	if c.adapterDir != "" {
		if c.dir, err = disk.OpenRoot(c.adapterDir); err != nil {
			return cli.Usagef("--adapter-dir %s: %w", c.adapterDir, err)
		}
		defer func() { err = errors.Join(err, c.dir.Close()) }()
	}
	listener, url, err := c.listener()
	if err != nil {
		return err
	}
	defer listener.Close() // the server does not if it is closed before it starts
	o := serve.Options{Keys: c.keys, Origins: c.origins, Body: int64(c.body), MaxTokens: c.maxTokens, Queue: c.queue,
		Timeout: c.timeout, Slow: c.slow, Page: web.Files, Log: slog.New(slog.NewTextHandler(c.notes, nil))}
	if c.dir != nil {
		o.Load = c.loadAdapter
	}
	if loopback(listener.Addr()) {
		o.Hosts = c.names()
	} else if c.unix == "" && c.cert == "" {
		fmt.Fprintln(c.notes, "keys and answers cross the network unencrypted: see --tls-cert, or put a proxy in front")
	}
	s := serve.New(o)
	server := &http.Server{Handler: s, ReadHeaderTimeout: c.headerTime, MaxHeaderBytes: maxHeader,
		IdleTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)} // which would only tell of clients that leave
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	closeAll, err := c.load(ctx, s)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return errors.Join(err, server.Close())
	}
	s.Ready()
	fmt.Fprintln(c.notes, "listening on", url)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	return c.end(s, server)
}

// end lets the answers in progress finish, for a while.
func (c *command) end(s *serve.Server, server *http.Server) error {
	fmt.Fprintf(c.notes, "serve: no more requests; those in progress have %v (--drain)\n", c.drain)
	s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), c.drain)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return nil
	}
	s.End() // each stream ends with an error
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close() // of clients that do not read
	}
	fmt.Fprintln(c.notes, "serve: answers in progress were ended")
	return nil
}

// listener returns what listens, and the URL that leads to it.
func (c *command) listener() (net.Listener, string, error) {
	if c.unix != "" {
		l, err := listenUnix(c.unix)
		return l, "unix:" + c.unix, err
	}
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return nil, "", fmt.Errorf("--listen %s: %w", c.listen, err)
	}
	url := "http://" + l.Addr().String()
	l = &limited{Listener: l, room: make(chan struct{}, c.connections)}
	if c.cert == "" {
		return l, url, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.cert, c.key, err), l.Close())
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}}), "https://" + l.Addr().String(), nil
}

// listenUnix listens on a socket that only this user can open. It replaces one on which no process listens any more.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		conn, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case err == nil:
			conn.Close()
			return nil, fmt.Errorf("--unix %s: another program listens there", path)
		case info.Mode()&fs.ModeSocket == 0:
			return nil, fmt.Errorf("--unix %s: there is a file of that name, which is no socket", path)
		case errors.Is(err, syscall.ECONNREFUSED):
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("--unix: %w", err)
			}
		}
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EINVAL) {
		return nil, fmt.Errorf("--unix %s: a socket cannot have a path of %d bytes: choose a shorter one, of at most 100",
			path, len(path))
	}
	if err != nil {
		return nil, fmt.Errorf("--unix %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("--unix: %w", err), l.Close())
	}
	return l, nil
}

// limited is a Listener with a maximum number of connections: others wait until one of these ends.
type limited struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close gives the room to another connection.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
