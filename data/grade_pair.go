package data

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

// trialTime is the time limit of a trial.
var trialTime = 2 * time.Second

const (
	busyTime  = 5 * time.Second  // time limit of the second attempt, on a busy machine
	startTime = 60 * time.Second // time limit for Python to start, on a busy machine
	longest   = 1 << 20          // bytes of a line: 20,000 printed characters of twelve bytes each, and the rest
)

// A pair is two processes of check.py: one runs the code, the other the check.
type pair struct {
	answer, check side
	between       [2]*os.File // the read ends of the pipes between them
}

// A side is one of the two processes.
type side struct {
	command *exec.Cmd
	cases   *os.File // receives cases
	facts   *os.File // sends facts
	lines   *bufio.Reader
	problem tail
	child   int    // the process of the running case; 0 for none
	folder  string // the directory of a process without a sandbox, to remove
}

// startPair starts both sides and waits until they accept cases.
func startPair(ctx context.Context, program *interpreter) (p *pair, err error) {
	p = &pair{}
	toAnswer, fromCheck, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	toCheck, fromAnswer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toAnswer.Close(), fromCheck.Close())
	}
	p.between = [2]*os.File{toAnswer, toCheck}
	err = p.answer.start(program, "answer", toAnswer, fromAnswer)
	if err == nil {
		err = p.check.start(program, "check", toCheck, fromCheck)
	}
	err = errors.Join(err, fromAnswer.Close(), fromCheck.Close())
	for _, s := range []*side{&p.answer, &p.check} {
		if err == nil {
			err = s.ready(ctx)
		}
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// start starts one side, with the pipes from and to the other side.
func (s *side) start(program *interpreter, name string, from, to *os.File) error {
	args := []string{"-I", "-c", string(RemotePy) + string(CheckPy), name}
	if program.protected {
		var err error
		if s.command, err = sandbox.Command(sandbox.Options{Program: program.Program, Args: args,
			Visible: program.Visible}); err != nil {
			return err
		}
	} else {
		s.command = exec.Command(program.Program, args...)
		s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the caller, who has ctx
		s.command.Env = []string{}                                  // the environment has keys and tokens
		var err error
		if s.folder, err = os.MkdirTemp("", "restyle-grade-"); err != nil {
			return err
		}
		s.command.Dir = s.folder
	}
	stdin, cases, err := os.Pipe()
	if err != nil {
		return err
	}
	facts, stdout, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close(), cases.Close())
	}
	s.cases, s.facts, s.lines = cases, facts, bufio.NewReaderSize(facts, longest)
	c := s.command
	c.Stdin, c.Stdout, c.Stderr, c.ExtraFiles = stdin, stdout, &s.problem, []*os.File{from, to}
	c.WaitDelay = time.Second
	if program.protected {
		err = sandbox.Start(c)
	} else {
		err = c.Start()
	}
	return errors.Join(err, stdin.Close(), stdout.Close())
}

// ready waits for the first line. Errors of Python or the sandbox show here.
func (s *side) ready(ctx context.Context) error {
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
	set := func(t time.Time) { _, _ = s.facts.SetReadDeadline(t), s.cases.SetWriteDeadline(t) }
	set(deadline)
	stop := context.AfterFunc(ctx, func() { set(time.Unix(1, 0)) })
	return func() {
		stop()
		set(time.Time{})
	}
}

// grade grades one trial, and stops it after limit. again is false if the pair must not be used again, because
// something of the trial may be left in it. late is true if the limit is what stopped it.
func (p *pair) grade(ctx context.Context, t Trial, limit time.Duration, v *Verdict) (again, late bool) {
	deadline := time.Now().Add(limit)
	defer p.answer.until(ctx, deadline)()
	defer p.check.until(ctx, deadline)()
	err := errors.Join(p.answer.give(t.Code), p.check.give(t.Check))
	var f facts
	for err == nil && !f.Ended {
		err = p.check.hear(&f)
	}
	p.check.child = f.Process
	for f.Process = 0; err == nil && f.Left == nil; {
		err = p.answer.hear(&f)
	}
	if p.answer.child = f.Process; err == nil {
		p.answer.child, p.check.child = 0, 0
	}
	*v = f.Verdict
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		v.Right, v.Error, late = false, fmt.Sprintf("ran longer than %.0f s", limit.Seconds()), true
	case v.Right && f.Left != nil && *f.Left:
		v.Right, v.Error = false, "left processes behind"
	case !v.Right && v.Error == "":
		v.Error = "ended without a result"
	}
	return err == nil && f.Clean && p.silent(), late
}

// facts are the messages of the sides about a trial.
type facts struct {
	Verdict
	Ended   bool  `json:"ended"`   // of the check's side, the last
	Left    *bool `json:"left"`    // the code left processes behind; of its side, the last
	Clean   bool  `json:"clean"`   // and its folder as it was
	Process int   `json:"process"` // the child
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
		s.child = f.Process
	}
	return nil
}

// silent reports whether no data of a trial is left for the next trial to read.
func (p *pair) silent() bool {
	waits := []unix.PollFd{{Fd: int32(p.between[0].Fd()), Events: unix.POLLIN}, {Fd: int32(p.between[1].Fd()),
		Events: unix.POLLIN}}
	if n, err := unix.Poll(waits, 0); err != nil || n > 0 {
		return false
	}
	return p.answer.lines.Buffered() == 0 && p.check.lines.Buffered() == 0
}

// stop ends both sides, with all that they started as far as that can be told without a sandbox.
func (p *pair) stop() {
	for _, s := range []*side{&p.answer, &p.check} {
		s.stop()
	}
	for _, f := range p.between {
		f.Close()
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
	for _, f := range []*os.File{s.cases, s.facts} {
		if f != nil {
			f.Close()
		}
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// A tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	if t.Len() > most {
		t.Next(t.Len() - most)
	}
	_, _ = t.Buffer.Write(p[max(len(p)-most, 0):])
	return len(p), nil
}

var _ io.Writer = (*tail)(nil)
