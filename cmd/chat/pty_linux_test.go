package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// console is a terminal for one command: keys go in, and a screen shows what comes out.
type console struct {
	keys  *os.File // the terminal emulator's side
	tty   *os.File // the command's side
	ended chan struct{}

	mu     sync.Mutex
	screen *screen
	raw    bytes.Buffer // all output
}

func newConsole(t testing.TB, width, height int) *console {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system gives out no terminals: ", err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("this system gives out no terminals: ", err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system gives out no terminals: ", err)
	}
	size := &unix.Winsize{Col: uint16(width), Row: uint16(height)}
	expect.OK(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, size))
	c := &console{keys: keys, tty: tty, screen: newScreen(t, width, height), ended: make(chan struct{})}
	c.screen.wraps = true
	go func() {
		defer close(c.ended)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			c.mu.Lock()
			c.raw.Write(buf[:n])
			c.screen.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		tty.Close()
		keys.Close()
	})
	return c
}

// text returns the text on the screen, including what has scrolled out above it.
func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.screen.lines(), "\n")
}

// start runs a command on the console.
func (c *console) start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin, cmd.Stdout = c.tty, c.tty
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	expect.OK(t, cmd.Start())
}

// TestTerminal_WholeSession types a whole session at a terminal, once wide and once narrow.
func TestTerminal_WholeSession(t *testing.T) {
	for _, width := range []int{100, 50} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			c := newConsole(t, width, 24)
			before, err := term.GetState(int(c.tty.Fd()))
			expect.OK(t, err)
			cmd, log := process(t, "--temperature", "0.9")
			var stderr watched
			cmd.Stderr = &stderr
			c.start(t, cmd)
			shows := func(what string) {
				t.Helper()
				defer func() {
					if t.Failed() {
						t.Log(c.text())
					}
				}()
				until(t, what, func() bool { return strings.Contains(c.text(), what) })
			}
			events := func(kind string, n int) {
				t.Helper()
				until(t, kind, func() bool { return strings.Count(tryRead(jsonlPath(log)), `"event":"`+kind+`"`) >= n })
			}
			shows(">>>")
			io.WriteString(c.keys, "hello\r")
			events("part", 1)
			io.WriteString(c.keys, "typed meanwhile\x03")
			shows("stopped by the user")
			shows(">>> typed meanwhile")
			if strings.Contains(c.text(), " │ tuned: ") != (width == 100) ||
				strings.Contains(c.text(), "\ntuned │") != (width == 50) {
				t.Errorf("the wrong display for %d columns:\n%s", width, c.text())
			}
			io.WriteString(c.keys, "\x15/seed 7\r") // Ctrl-U deletes the line
			shows("seed 7")
			io.WriteString(c.keys, "/edit\r")
			shows(">>> hello")
			io.WriteString(c.keys, " \x1b[200~two\rlines\x1b[201~")
			shows(">>> hello two⏎lines")
			io.WriteString(c.keys, "\r")
			events("ask", 2)
			events("part", 2)
			io.WriteString(c.keys, "\x03")
			events("logged", 2)
			io.WriteString(c.keys, "\x1b[A\x03") // the last question comes back, and Ctrl-C right after an answer leaves
			if code := exitCode(cmd.Wait()); code != cli.Done {
				t.Errorf("exit code %d\n%s\n%s", code, c.text(), stderr.String())
			}
			if text := expect.Read(t, log); !strings.Contains(text, "```\nhello two\nlines\n```") {
				t.Errorf("%s", text)
			}
			after, err := term.GetState(int(c.tty.Fd()))
			if err != nil || fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("the terminal is left in another state: %v", err)
			}
		})
	}
}

// TestKill_LosesNothingShown kills chats, the first when both answers have started to show, the others at random
// moments. It checks that everything that was on the screen is in the record and, after the next start, in the
// Markdown file.
func TestKill_LosesNothingShown(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	log := filepath.Join(t.TempDir(), "log.md")
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	bare := strings.NewReplacer(" ", "", "\n", "", "\t", "")
	for i := range kills {
		c := newConsole(t, 100, 24)
		question := fmt.Sprintf("question %d", i)
		cmd, _ := process(t, "--log", log, "--prompt", question)
		var stderr watched
		cmd.Stderr = &stderr
		c.start(t, cmd)
		until(t, "the question", func() bool { return strings.Contains(tryRead(jsonlPath(log)), question) })
		shown := func(side int) string { // in one column, below the question and the models' names
			var text strings.Builder
			for n, line := range strings.Split(c.text(), "\n") {
				if columns := strings.SplitN(line, gutter, 2); n >= 2 && len(columns) == 2 {
					text.WriteString(columns[side])
				}
			}
			return bare.Replace(text.String())
		}
		if i == 0 {
			until(t, "both answers", func() bool { return shown(0) != "" && shown(1) != "" })
		} else {
			time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
		}
		cmd.Process.Kill()
		cmd.Wait()
		c.tty.Close()
		<-c.ended

		rec, recovered, err := openRecord(log)
		if err != nil || recovered != 1 {
			t.Fatalf("%d entries were missing, %v\n%s", recovered, err, stderr.String())
		}
		rec.close()
		kept := map[string]string{}
		for _, e := range readEvents(t, jsonlPath(log)) {
			if e.Event == "ask" {
				clear(kept)
			}
			for label, text := range e.Text {
				kept[label] += text
			}
		}
		for side, label := range []string{baseLabel, tunedLabel} {
			if want := shown(side); !strings.HasPrefix(bare.Replace(cli.Clean(kept[label])), want) {
				t.Errorf("%s showed\n%q, the record has\n%q", label, want, kept[label])
			}
		}
		if text := expect.Read(t, log); strings.Count(text, "### Query") != i+1 ||
			strings.Count(text, "the program was killed") != 2*(i+1) {
			t.Errorf("after %d kills:\n%s", i+1, text)
		}
	}
}
