package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestInterruptOfOneQuestion sends the signal of a Ctrl-C during an answer, and checks that the answer is kept and the
// program ends.
func TestInterruptOfOneQuestion(t *testing.T) {
	cmd, log := process(t, "--prompt", "hello")
	var stdout, stderr watched
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	expect.OK(t, cmd.Start())
	until(t, "a part of the answer", func() bool { return strings.Contains(tryRead(jsonlPath(log)), `"part"`) })
	cmd.Process.Signal(syscall.SIGINT)
	if code := exitCode(cmd.Wait()); code != cli.Stopped {
		t.Errorf("exit code %d\n%s", code, stderr.String())
	}
	if text := expect.Read(t, log); strings.Count(text, "stopped by the user after") != 2 {
		t.Errorf("%s", text)
	}
	if !strings.Contains(stdout.String(), "stopped by the user") || !strings.Contains(stderr.String(), "chat: stopped") {
		t.Errorf("%s\n%s", stdout.String(), stderr.String())
	}
}

func tryRead(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// TestInterruptInASession checks that a Ctrl-C stops one answer, that the session continues, and that the second Ctrl-C
// in a row leaves.
func TestInterruptInASession(t *testing.T) {
	cmd, log := process(t)
	in, err := cmd.StdinPipe()
	expect.OK(t, err)
	var stderr watched
	cmd.Stderr = &stderr
	expect.OK(t, cmd.Start())
	events := func(kind string) int { return strings.Count(tryRead(jsonlPath(log)), `"event":"`+kind+`"`) }
	io.WriteString(in, "first\n")
	until(t, "the first answer", func() bool { return events("part") > 0 })
	cmd.Process.Signal(syscall.SIGINT)
	until(t, "its end", func() bool { return events("logged") == 1 })
	io.WriteString(in, "second\n")
	until(t, "the second answer", func() bool { return events("ask") == 2 })
	cmd.Process.Signal(syscall.SIGINT)
	until(t, "its end", func() bool { return events("logged") == 2 })
	cmd.Process.Signal(syscall.SIGINT)
	if code := exitCode(cmd.Wait()); code != cli.Stopped {
		t.Errorf("exit code %d\n%s", code, stderr.String())
	}
	if text := expect.Read(t, log); strings.Count(text, "### Query") != 2 {
		t.Errorf("%s", text)
	}
}

// TestSIGTERM_KeepsTheAnswer checks that chat exits cleanly on SIGTERM and keeps the answer.
func TestSIGTERM_KeepsTheAnswer(t *testing.T) {
	cmd, log := process(t, "--prompt", "hello")
	expect.OK(t, cmd.Start())
	until(t, "a part of the answer", func() bool { return strings.Contains(tryRead(jsonlPath(log)), `"part"`) })
	cmd.Process.Signal(syscall.SIGTERM)
	if code := exitCode(cmd.Wait()); code != cli.Stopped {
		t.Errorf("exit code %d", code)
	}
	if text := expect.Read(t, log); strings.Count(text, "stopped by the user after") != 2 {
		t.Errorf("%s", text)
	}
}

// ignored is whether this process was started without SIGINT. Tests that listen to it make signal.Ignored forget.
var ignored = signal.Ignored(syscall.SIGINT)

// TestInterruptWhileWaiting checks that the second Ctrl-C leaves if the first has no effect: here while chat reads a
// list of questions.
func TestInterruptWhileWaiting(t *testing.T) {
	if ignored {
		t.Skip("this shell's jobs in the background ignore SIGINT")
	}
	cmd, _ := process(t, "--prompts", "-")
	if _, err := cmd.StdinPipe(); err != nil { // the test writes nothing to it
		t.Fatal(err)
	}
	expect.OK(t, cmd.Start())
	left := make(chan struct{})
	go func() {
		cmd.Wait()
		close(left)
	}()
	for {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-left:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
