package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"restyle/internal/expect"
)

const waits = "RESTYLE_TEST_WAITS" // makes the test binary wait for a signal and print which one it received

func TestMain(m *testing.M) {
	if os.Getenv(waits) != "" {
		grace = 0
		if os.Getenv(waits) == "grace" {
			grace = time.Hour
		}
		ctx := StopContext(StopSignals...)
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		for range 1000 { // without a grace period, the second signal ends the process, or a later one on a busy machine
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
			if grace > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		os.Exit(Done)
	}
	os.Exit(m.Run())
}

// TestStopContext checks which signals a process receives. If SIGHUP was ignored when the process started, as under
// nohup, the process receives only the next signal.
func TestStopContext(t *testing.T) {
	for _, c := range []struct {
		trap    string
		signals []syscall.Signal
		want    string
		grace   string
	}{
		{"-", []syscall.Signal{syscall.SIGINT}, "interrupt", "none"},
		{"-", []syscall.Signal{syscall.SIGTERM}, "terminated", "none"},
		{"-", []syscall.Signal{syscall.SIGTERM}, "terminated", "grace"},
		{"-", []syscall.Signal{syscall.SIGHUP}, "hangup", "none"},
		{"''", []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}, "terminated", "none"},
	} {
		if c.trap == "-" && signal.Ignored(c.signals[0]) {
			continue // also ignored for this test, and a shell cannot undo that
		}
		cmd := exec.Command("sh", "-c", "trap "+c.trap+` HUP; exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), waits+"="+c.grace)
		out, err := cmd.StdoutPipe()
		expect.OK(t, err)
		expect.OK(t, cmd.Start())
		lines := bufio.NewScanner(out)
		lines.Scan() // the process is ready
		for _, s := range c.signals {
			expect.OK(t, cmd.Process.Signal(s))
		}
		lines.Scan()
		if !strings.Contains(lines.Text(), c.want) {
			t.Errorf("trap %s, %v: stopped by %q, want %q", c.trap, c.signals, lines.Text(), c.want)
		}
		cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if c.grace == "grace" && !status.Exited() {
			t.Errorf("%v: the same wish, said twice, ends it: %v", c.signals, cmd.ProcessState)
		}
		if c.grace == "none" && status.Signal() != syscall.SIGTERM {
			t.Errorf("%v: the second signal does not end it: %v", c.signals, cmd.ProcessState)
		}
	}
}
