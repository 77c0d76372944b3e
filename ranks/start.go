package ranks

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// lastLines is the number of lines that are shown of a rank that fails.
const lastLines = 20

// endWithin is the time that the others have to end after one has failed or rank 0 has ended, and saveWithin is the
// time that rank 0 has after that, because it may be saving.
var endWithin, saveWithin = 20 * time.Second, 10 * time.Minute

// Start runs this program again with its arguments, once for each of size ranks on this host. It returns the exit code
// of the rank that failed, or 0. A rank exits with lost because of another, so the one that failed is a rank with any
// other code or, if there is none, a rank that was killed, for which Start returns lost. Rank 0 has this process's
// input and output. Of the others, only the last lines of the one that failed are shown. The given signals go to rank
// 0, which ends the run.
func Start(size, lost int, stderr io.Writer, signals []os.Signal) (code int, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	runtime.LockOSThread() // a child that is to end with its parent ends with the thread that started it
	defer runtime.UnlockOSThread()
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, signals...)
	defer signal.Stop(caught)

	c := children{done: make(chan int, size), said: make([]tail, size)}
	err = c.start(size, socket, l.Addr().(*net.TCPAddr).Port)
	guilty, failed := c.wait(lost, caught, err != nil)
	if err != nil || !failed {
		return 0, err
	}
	if code = c.list[guilty].ProcessState.ExitCode(); code < 0 {
		fmt.Fprintf(stderr, "rank %d: %v\n", guilty, c.list[guilty].ProcessState)
		code = lost
	}
	c.said[guilty].print(stderr, guilty)
	return code, nil
}

// children are the ranks that Start has started.
type children struct {
	list []*exec.Cmd
	said []tail
	done chan int // those that have ended
}

// start starts the ranks, as torchrun does. The socket, on which rank 0 waits for the others, is already listening.
func (s *children) start(size int, socket *os.File, port int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for r := range size {
		c := exec.Command(self, os.Args[1:]...)
		c.Env = append(os.Environ(), fmt.Sprintf("RANK=%d", r), fmt.Sprintf("WORLD_SIZE=%d", size),
			fmt.Sprintf("LOCAL_RANK=%d", r), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", size), "MASTER_ADDR=127.0.0.1",
			fmt.Sprintf("MASTER_PORT=%d", port), VariablePort+"=", "TORCHELASTIC_USE_AGENT_STORE=")
		c.Stdout, c.Stderr = &s.said[r], &s.said[r]
		if r == 0 {
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			c.ExtraFiles, c.Env = []*os.File{socket}, append(c.Env, variableListener+"=3")
			endWithParent(c)
		}
		if err := s.add(c); err != nil {
			return err
		}
	}
	return nil
}

// add starts the next rank.
func (s *children) add(c *exec.Cmd) error {
	if err := c.Start(); err != nil {
		return err
	}
	rank := len(s.list)
	s.list = append(s.list, c)
	go func() {
		_ = c.Wait()
		s.done <- rank
	}()
	return nil
}

// wait waits for all ranks, and returns the one that failed, if any did. Some time after the first has failed, or at
// once if now is true, it kills the ranks that are left, and asks rank 0 to end before it kills that one. If all that
// are left are stopped, it kills them at once: no other signal ends them, and they save nothing. After rank 0 has
// ended well, it kills the ranks that hang, which is no failure.
func (s *children) wait(lost int, caught <-chan os.Signal, now bool) (guilty int, failed bool) {
	certainty, asked, killed, done := 0, false, false, false // of guilty; rank 0 to end; those that were left; rank 0 is
	running := slices.Clone(s.list)
	var giveUp <-chan time.Time
	if now {
		giveUp = time.After(0)
	}
	for len(running) > 0 {
		select {
		case signal := <-caught:
			_ = s.list[0].Process.Signal(signal)
			asked = true
		case <-giveUp:
			for _, c := range s.list[1:] {
				_ = c.Process.Kill() // those that have ended take no notice
			}
			switch first := s.list[0].Process; {
			case killed:
				_ = first.Kill()
			case !asked: // a second signal would end it at once
				_ = first.Signal(syscall.SIGTERM)
			}
			giveUp, killed = time.After(saveWithin), true
		case rank := <-s.done:
			ended := s.list[rank]
			running = slices.DeleteFunc(running, func(c *exec.Cmd) bool { return c == ended })
			exit := ended.ProcessState.ExitCode()
			switch {
			case exit == 0 && rank == 0: // all is saved
				giveUp, done = time.After(endWithin), true
				continue
			case exit == 0, done && killed:
				continue
			}
			certain := 3
			switch {
			case exit == lost || killed:
				certain = 1
			case exit < 0:
				certain = 2
			}
			if certainty == 0 && !now {
				giveUp = time.After(endWithin)
			}
			if certain > certainty {
				guilty, certainty = rank, certain
			}
			if !slices.ContainsFunc(running, func(c *exec.Cmd) bool { return !stopped(c.Process) }) {
				giveUp, killed = time.After(0), true
			}
		}
	}
	return guilty, certainty > 0
}

// A tail keeps the last lines of what is written to it.
type tail struct {
	sync.Mutex
	text []byte
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.Lock()
	defer t.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) print(w io.Writer, rank int) {
	t.Lock()
	defer t.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	for _, line := range lines[max(0, len(lines)-lastLines):] {
		if len(line) > 0 {
			fmt.Fprintf(w, "rank %d: %s\n", rank, line)
		}
	}
}
