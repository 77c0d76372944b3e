package grade

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"restyle/internal/sandbox"
)

// trialTime is the time limit of a trial, and busyTime the limit of its second attempt, on a busy machine.
var trialTime, busyTime = 2 * time.Second, 5 * time.Second

const (
	startTime = 60 * time.Second // time limit for Python to start, on a busy machine
	watchTime = 10 * time.Millisecond
	maxMemory = 512 << 20          // bytes of all processes of an answer
	allMemory = maxMemory + 32<<20 // and with the processes that start and end them
	longest   = 1 << 20            // bytes of a line: 20,000 printed characters of twelve bytes each, and the rest
)

// A pair is two processes of check.py: one runs the code, the other the check.
type pair struct {
	answer, check side
	once          bool           // for one trial only
	group         *sandbox.Group // of the answer's side; may be nil
}

// A side is one of the two processes.
type side struct {
	command *exec.Cmd
	control *os.File // receives the files of trials
	problem tail
	folder  string // the directory of a process without a sandbox, to remove

	cases *os.File // receives the case of this trial
	facts *os.File // sends facts
	lines *bufio.Reader
	child int // the process of the running case; 0 for none
}

// startPair starts both sides and waits until they accept cases.
func startPair(ctx context.Context, program *interpreter) (p *pair, err error) {
	p = &pair{once: !program.protected || !program.Calls}
	facts := make([]*os.File, 2)
	for i, s := range p.sides() {
		if facts[i], err = s.start(program, []string{"answer", "check"}[i]); err != nil {
			break
		}
	}
	for i, s := range p.sides() {
		if err == nil {
			err = s.ready(ctx, facts[i])
		}
		if facts[i] != nil {
			facts[i].Close()
		}
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	if program.groups != nil {
		p.group = program.groups.Put(p.answer.command.Process.Pid)
	}
	return p, nil
}

func (p *pair) sides() []*side { return []*side{&p.answer, &p.check} }

// start starts one side, and returns where it says that it is ready.
func (s *side) start(program *interpreter, name string) (facts *os.File, err error) {
	args := []string{"-I", "-c", string(remotePy) + string(checkPy), name}
	if program.protected {
		if s.command, err = sandbox.Command(sandbox.Options{Program: program.Program, Args: args,
			Visible: program.Visible, Fresh: name == "answer" && program.Calls}); err != nil {
			return nil, err
		}
	} else {
		s.command = exec.Command(program.Program, args...)
		s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the caller, who has ctx
		s.command.Env = []string{}                                  // the environment has keys and tokens
		if s.folder, err = os.MkdirTemp("", "restyle-grade-"); err != nil {
			return nil, err
		}
		s.command.Dir = s.folder
	}
	control, stdin, err := socketPair()
	if err != nil {
		return nil, err
	}
	s.control = control
	facts, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	c := s.command
	c.Stdin, c.Stdout, c.Stderr = stdin, stdout, &s.problem
	c.WaitDelay = time.Second
	if program.protected {
		err = sandbox.Start(c)
	} else {
		err = c.Start()
	}
	return facts, errors.Join(err, stdin.Close(), stdout.Close())
}

// socketPair returns two connected sockets, which pass files.
func socketPair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}

// ready waits for the first line. Errors of Python or the sandbox show here.
func (s *side) ready(ctx context.Context, facts *os.File) error {
	s.facts, s.lines = facts, bufio.NewReaderSize(facts, longest)
	defer s.until(ctx, time.Now().Add(startTime))()
	line, err := s.lines.ReadSlice('\n')
	if err == nil && bytes.HasPrefix(line, []byte(`{"python"`)) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = s.command.Process.Kill()
	ended := s.command.Wait()
	if refused := sandbox.Refused(ended, s.problem.String()); refused != nil {
		return refused
	}
	return fmt.Errorf("check.py with %s: %w %s", s.command.Path, errors.Join(err, ended),
		strings.TrimSpace(s.problem.String()))
}

// until has reads and writes fail after the deadline or the end of ctx. The function that it returns removes the
// deadline.
func (s *side) until(ctx context.Context, deadline time.Time) (release func()) {
	files := []*os.File{s.facts, s.cases}
	set := func(t time.Time) {
		for _, f := range files {
			_ = f.SetDeadline(t) // of a nil file, an error
		}
	}
	set(deadline)
	stop := context.AfterFunc(ctx, func() { set(time.Unix(1, 0)) })
	return func() {
		stop()
		set(time.Time{})
	}
}

// begin gives both sides the files of a trial: nothing that a trial can change is there for the next one.
func (p *pair) begin() error {
	toAnswer, fromCheck, err := os.Pipe()
	if err != nil {
		return err
	}
	toCheck, fromAnswer, err := os.Pipe()
	if err != nil {
		return errors.Join(err, toAnswer.Close(), fromCheck.Close())
	}
	return errors.Join(p.answer.begin(toAnswer, fromAnswer), p.check.begin(toCheck, fromCheck))
}

// begin gives a side the files of a trial, among them the pipes from and to the other side, and closes them here.
func (s *side) begin(from, to *os.File) error {
	defer from.Close()
	defer to.Close()
	s.end()
	s.child = 0
	cases, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer cases.Close()
	s.cases = in
	out, facts, err := os.Pipe()
	if err != nil {
		return err
	}
	defer facts.Close()
	s.facts = out
	s.lines.Reset(out)
	var files []int
	for _, f := range []*os.File{cases, facts, from, to} {
		fd := int(f.Fd())
		if err := unix.SetNonblock(fd, false); err != nil {
			return err
		}
		files = append(files, fd)
	}
	return unix.Sendmsg(int(s.control.Fd()), []byte{0}, unix.UnixRights(files...), nil, 0)
}

// end closes the files of a trial.
func (s *side) end() {
	for _, f := range []*os.File{s.cases, s.facts} {
		if f != nil {
			f.Close()
		}
	}
	s.cases, s.facts = nil, nil
}

// grade grades one trial, and stops it after limit. again is false if the pair must not be used again, because
// something of the trial may be left in it. late is true if the limit is what stopped it.
func (p *pair) grade(ctx context.Context, t Trial, limit time.Duration, v *Verdict) (again, late bool, err error) {
	if err := p.begin(); err != nil {
		return false, false, err
	}
	deadline := time.Now().Add(limit)
	defer p.answer.until(ctx, deadline)()
	defer p.check.until(ctx, deadline)()
	tooMuch := p.watch()
	f, ended := p.hear(t)
	*v = f.Verdict
	switch {
	case tooMuch():
		v.Right, v.Error = false, fmt.Sprintf("took more than %d MiB of memory", maxMemory>>20)
		return false, false, nil
	case errors.Is(ended, os.ErrDeadlineExceeded):
		v.Right, v.Error, late = false, fmt.Sprintf("ran longer than %g s", limit.Seconds()), true
	case p.answer.child == 0 || p.check.child == 0:
		return false, false, fmt.Errorf("%w: no process for an answer: %s", sandbox.ErrUnavailable,
			strings.TrimSpace(p.answer.problem.String()+p.check.problem.String()))
	case v.Right && f.Left != nil && *f.Left:
		v.Right, v.Error = false, "left processes behind"
	case !v.Right && v.Error == "":
		v.Error = "ended without a result"
	}
	return ended == nil && !p.once, late, nil
}

// hear returns what both sides say of a trial, until both have ended or one fails.
func (p *pair) hear(t Trial) (f facts, err error) {
	err = errors.Join(p.answer.give(t.Code), p.check.give(t.Check))
	for err == nil && p.answer.child == 0 && f.Left == nil { // for stop, even if the check waits forever
		err = p.answer.hear(&f)
	}
	for err == nil && !f.Ended {
		err = p.check.hear(&f)
	}
	for err == nil && f.Left == nil {
		err = p.answer.hear(&f)
	}
	return f, err
}

// watch ends the answer's side when it uses more memory than it may. It stops when the function that it returns is
// called, which reports whether that side was ended because of its memory. The check is one process, whose address
// space is limited.
func (p *pair) watch() (tooMuch func() bool) {
	done, result := make(chan struct{}), make(chan bool, 1)
	go func() {
		for wait := watchTime; ; {
			select {
			case <-done:
				result <- false
				return
			case <-time.After(wait):
			}
			used := sandbox.Memory(p.answer.command.Process.Pid, allMemory)
			if used > allMemory {
				_ = p.answer.command.Process.Kill()
				result <- true
				return
			}
			wait = watchTime
			if used > allMemory/4 {
				wait /= 10
			}
			if p.group != nil {
				wait *= 5 // the kernel enforces the limit, unless it was started with kernel memory uncounted
			}
		}
	}()
	return func() bool {
		close(done)
		return <-result || p.group != nil && p.group.Exceeded()
	}
}

// facts are the messages of the sides about a trial.
type facts struct {
	Verdict
	Ended   bool  `json:"ended"`   // of the check's side, the last
	Left    *bool `json:"left"`    // the code left processes behind; of its side, the last
	Process int   `json:"process"` // the process that does the work
}

// give writes a case.
func (s *side) give(text string) error {
	line, err := json.Marshal(text)
	if err == nil {
		_, err = s.cases.Write(append(line, '\n'))
	}
	return err
}

// hear reads a line of facts. A line of another form, or one that is too long, is an error.
func (s *side) hear(f *facts) error {
	line, err := s.lines.ReadSlice('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, f); err != nil {
		return err
	}
	if f.Process > 0 {
		s.child, f.Process = f.Process, 0
	}
	return nil
}

// stop ends both sides, with everything that they started, as far as that can be told without a sandbox.
func (p *pair) stop() {
	for _, s := range p.sides() {
		s.stop()
	}
	if p.group != nil {
		p.group.Close()
	}
}

func (s *side) stop() {
	if s.command != nil && s.command.Process != nil {
		if s.folder != "" { // or else killing the sandbox's first process ends all others
			for _, group := range []int{s.child, s.command.Process.Pid} {
				if group > 1 {
					_ = syscall.Kill(-group, syscall.SIGKILL)
				}
			}
		}
		_ = s.command.Process.Kill()
		_ = s.command.Wait() // that it was killed
	}
	s.end()
	if s.control != nil {
		s.control.Close()
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// A tail keeps the last 4 KiB of what is written to it.
type tail struct{ bytes.Buffer }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	_, _ = t.Buffer.Write(p)
	t.Next(max(t.Len()-most, 0))
	return len(p), nil
}

var _ io.Writer = (*tail)(nil)
