package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/secret"
)

// home describes a teacher that gen runs itself: a process of command serve, which listens on a Unix socket and takes
// only requests with a random key.
type home struct{ model, quantize, device, program string }

func (h home) given() bool { return h.model != "" }

// homeURL is the base URL of such a teacher in the journal, the same in each run. The connections go to the socket.
const homeURL = "http://localhost/v1"

// The time that serve has to end after it was asked to, and the time between two checks whether it is ready.
const (
	homeEnds = 20 * time.Second
	homeLook = 100 * time.Millisecond
)

// atHome is a running teacher.
type atHome struct {
	socket string
	key    secret.Secret
	model  string // its id
	digest string // of its weights
	ended  <-chan error
	stop   func()
}

// startHome starts the server of --teacher-model, and waits until it has loaded the model. Its log is part of gen's.
func (g *gen) startHome(ctx context.Context) (*atHome, error) {
	program, err := g.serveProgram(ctx)
	if err != nil {
		return nil, err
	}
	dir, leave, err := homeDir()
	if err != nil {
		return nil, fmt.Errorf("a directory for the socket of --teacher-model: %w", err)
	}
	t := &atHome{socket: filepath.Join(dir, homeSocket), key: secret.New(rand.Text())}
	args := []string{g.home.model, "--unix", t.socket}
	for _, f := range []struct{ flag, value string }{{"--quantize", g.home.quantize}, {"--device", g.home.device}} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	c := exec.Command(program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "OPENAI_") && !strings.HasPrefix(v, "RESTYLE_API_KEYS=") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "RESTYLE_API_KEYS="+t.key.Reveal())
	t.ended, err = cli.Beside(c, func(line string) {
		if !strings.Contains(line, " level=INFO msg=request ") { // gen reports them itself
			g.say("serve: %s", line)
		}
	})
	if err != nil {
		leave()
		return nil, fmt.Errorf("starting the server of --teacher-model: %w", err)
	}
	t.stop = func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-t.ended:
		case <-time.After(homeEnds):
			_ = c.Process.Kill()
			<-t.ended
		}
		leave()
	}
	if err := t.wait(ctx); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

// A server's socket is in a directory of its own. gen locks homeLock there as long as it runs.
const homePrefix, homeLock, homeSocket = "restyle-gen-socket-", ".restyle-gen-socket", "serve.sock"

// leaveHome removes such a directory, unless it contains anything else.
func leaveHome(dir string) error {
	os.Remove(filepath.Join(dir, homeSocket))
	return errors.Join(os.Remove(filepath.Join(dir, homeLock)), os.Remove(dir))
}

// homeDir makes a directory for the server's socket, and removes the directories that killed runs of this user have
// left, which no process has locked.
func homeDir() (dir string, leave func(), err error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), homePrefix+"*", homeLock))
	for _, path := range old {
		info, err := os.Lstat(filepath.Dir(path))
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue // another user could lead the lock to a file of this one's
		}
		if lock, err := disk.Lock(path); err == nil {
			_ = leaveHome(filepath.Dir(path))
			lock.Close()
		}
	}
	for {
		if dir, err = os.MkdirTemp("", homePrefix); err != nil {
			return "", nil, err
		}
		lock, err := disk.Lock(filepath.Join(dir, homeLock))
		switch {
		case err == nil:
			return dir, func() { _ = leaveHome(dir); lock.Close() }, nil
		case !errors.Is(err, disk.ErrLocked) && !errors.Is(err, fs.ErrNotExist): // else another run has just removed it
			return "", nil, errors.Join(err, os.Remove(dir))
		}
	}
}

// watch returns a context that is done when the server has ended by itself.
func (t *atHome) watch(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		err := <-t.ended
		cancel(fmt.Errorf("the server of --teacher-model ended (%w): its last lines say why; the answers so far are kept, "+
			"and the same command resumes", cmp.Or(err, errors.New("exit status 0"))))
	}()
	return ctx
}

// wait waits until the server is ready, and asks it which model it has.
func (t *atHome) wait(ctx context.Context) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", t.socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-t.ended:
			return fmt.Errorf("the server of --teacher-model ended before it was ready (%w): its last lines say why",
				cmp.Or(err, errors.New("exit status 0")))
		case <-time.After(homeLook):
		}
		if status, _ := t.get(ctx, client, "http://localhost/ready", nil); status != http.StatusOK {
			continue
		}
		var list struct {
			Data []struct{ ID, Digest string }
		}
		status, err := t.get(ctx, client, homeURL+"/models", &list)
		switch {
		case err != nil:
			return fmt.Errorf("the models of the server of --teacher-model: %w", err)
		case status != http.StatusOK || len(list.Data) == 0:
			return fmt.Errorf("the server of --teacher-model lists no model: status %d: is --serve-program restyle's serve?",
				status)
		}
		t.model, t.digest = list.Data[0].ID, list.Data[0].Digest
		return nil
	}
}

// get requests a URL and decodes the answer into v, unless v is nil or the status is not 200.
func (t *atHome) get(ctx context.Context, client *http.Client, url string, v any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+t.key.Reveal())
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if v != nil && answer.StatusCode == http.StatusOK {
		err = json.NewDecoder(io.LimitReader(answer.Body, disk.MaxRecord)).Decode(v)
	}
	return answer.StatusCode, err
}

// serveProgram returns the program of --serve-program, or the one that belongs to gen.
func (g *gen) serveProgram(ctx context.Context) (string, error) {
	if g.home.program == "" {
		path, err := cli.Program(ctx, "serve", g.say)
		if err != nil {
			return "", fmt.Errorf("--teacher-model: %w, or name it with --serve-program", err)
		}
		return path, nil
	}
	path, err := exec.LookPath(g.home.program)
	if err != nil {
		return "", cli.Usagef("--serve-program: %v", err)
	}
	return path, nil
}
