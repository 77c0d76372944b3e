//go:build linux

package grade_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"restyle/grade"
	"restyle/internal/expect"
	"restyle/internal/memory"
	"restyle/internal/sandbox"
	"restyle/internal/sandbox/sandboxtest"
)

// honest is a trial that runs between attacks. No attack may spoil it.
var honest = grade.Trial{
	Code:  "import os\nprint(1)\ndef add(a, b): return a + b\nif os.listdir(): raise ValueError('somebody was here')",
	Check: "assert add(1, 2) == 3 and printed == '1\\n'",
}

const secret = "sk-of-nobody-else-0123456789"

// TestAttacks_ReachNothing runs the attacks from a process that has a key in its environment: as this user and, if this
// user is root, also as the user nobody.
func TestAttacks_ReachNothing(t *testing.T) {
	needPython(t)
	if os.Getenv("RESTYLE_ATTACKED") != "" {
		attacked(t)
		return
	}
	from := func(t *testing.T, python, attacks string, credential *syscall.Credential) {
		t.Parallel()
		folder, err := os.MkdirTemp("", "restyle-attacks-") // unlike a test's own directory, the user nobody can reach it
		expect.OK(t, err)
		t.Cleanup(func() { os.RemoveAll(folder) })
		program := filepath.Join(folder, "test")
		copyFile(t, program, os.Args[0])
		home := filepath.Join(folder, "home")
		expect.OK(t, errors.Join(os.Chmod(folder, 0o755), os.Mkdir(home, 0o777), os.Chmod(home, 0o777)))
		command := exec.Command(program, "-test.run=^TestAttacks_ReachNothing$", "-test.v")
		command.Dir = home
		command.Env = []string{"RESTYLE_ATTACKED=" + python, "RESTYLE_ATTACKS=" + attacks, "OPENAI_API_KEY=" + secret,
			"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH")}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		output, err := command.CombinedOutput()
		if err != nil || !bytes.Contains(output, []byte("--- PASS: TestAttacks_ReachNothing")) {
			t.Errorf("%v\n%s", err, output)
		}
	}
	t.Run("as this user", func(t *testing.T) {
		from(t, "python3", "all", nil)
	})
	nobody := func(t *testing.T, attacks string) {
		if os.Geteuid() != 0 {
			t.Skip("only root can be somebody else")
		}
		const nobody = 65534
		// A python3 elsewhere may be in root's own directory.
		for _, python := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
			if _, err := os.Stat(python); err == nil {
				from(t, python, attacks, &syscall.Credential{Uid: nobody, Gid: nobody})
				return
			}
		}
		t.Skip("there is no python3 that nobody can run")
	}
	t.Run("as nobody", func(t *testing.T) { nobody(t, "reaching") })
	t.Run("as nobody, unprotected", func(t *testing.T) { nobody(t, "unprotected") }) // keys are hidden even then
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	expect.OK(t, err)
}

func attacked(t *testing.T) {
	folder, err := os.MkdirTemp("", "")
	expect.OK(t, err)
	kept := filepath.Join(folder, "kept")
	reached := new(atomic.Int32)
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		expect.OK(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				reached.Add(1)
				c.Close()
			}
		}()
		return l
	}
	name := fmt.Sprintf("restyle-attack-%d", os.Getpid())
	port := listen("tcp", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	listen("unix", "@"+name)
	listen("unix", filepath.Join(folder, "socket"))
	// Children inherit this descriptor, as they do one that a shell hands down.
	open, err := syscall.Open(kept, syscall.O_CREAT|syscall.O_RDWR, 0o600)
	expect.OK(t, err)
	if _, err := syscall.Write(open, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), "kept"), []byte(secret), 0o600))
	root := "False"
	if os.Geteuid() == 0 {
		root = "True"
	}
	fill := strings.NewReplacer("$PID", fmt.Sprint(os.Getpid()), "$SECRET", secret, "$PORT", fmt.Sprint(port), "$SOCKET",
		name, "$FOLDER", folder, "$HOME", os.Getenv("HOME"), "$ROOT", root)

	reaching := programs(t, "reaching")
	if os.Getenv("RESTYLE_ATTACKS") == "unprotected" {
		verdicts, err := grade.RunUnprotected(t.Context(), os.Getenv("RESTYLE_ATTACKED"),
			[]grade.Trial{{Code: fill.Replace(reaching[0].code), Check: "assert printed == ''"}})
		if err != nil || !verdicts[0].Right {
			t.Errorf("the environment could be read: %+v, %v", verdicts, err)
		}
		return
	}
	var trials []grade.Trial
	for _, a := range reaching {
		trials = append(trials, grade.Trial{Code: fill.Replace(a.code), Check: "'THE-CHECK'\nassert printed == ''"}, honest)
	}
	for _, a := range programs(t, "forging") {
		if os.Getenv("RESTYLE_ATTACKS") != "all" || a.endless {
			continue // it does not depend on the user, or is one of TestEndless_IsStopped
		}
		if a.check == "" {
			a.check = "assert add(1, 2) == 3"
		}
		trials = append(trials, grade.Trial{Code: fill.Replace(a.code), Check: a.check}, honest)
	}
	// Code that ends has enough time to do so on any machine.
	defer grade.SetTrialTime(time.Minute)()
	verdicts, err := grade.Run(t.Context(), os.Getenv("RESTYLE_ATTACKED"), trials)
	expect.OK(t, err)
	for i, v := range verdicts {
		if i%2 == 1 {
			if !v.Right {
				t.Errorf("the honest answer after attack %d: %+v", i/2, v)
			}
			continue
		}
		if i/2 < len(reaching) {
			if a := reaching[i/2]; !v.Right {
				t.Errorf("%s: %.300q, %s", a.name, v.Printed, v.Error)
			}
		} else if v.Right || v.Error == "" || len(v.Error) > 400 || strings.HasPrefix(v.Error, "ran longer") {
			t.Errorf("%.300s: %.300q, right is %v, %.500s", trials[i].Code, v.Printed, v.Right, v.Error)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d connections came in", n)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != secret {
		t.Errorf("the file outside: %v, %q", err, text)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 2 {
		t.Errorf("the folder outside: %v, %v", err, entries)
	}
	if running(t, secret+"-child") {
		t.Error("a process was left behind")
	}
}

// TestEndless_IsStopped checks that code that never ends is stopped.
func TestEndless_IsStopped(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTimes(300*time.Millisecond, 0)()
	var trials []grade.Trial
	for _, a := range programs(t, "forging") {
		if a.endless {
			trials = append(trials, grade.Trial{Code: a.code, Check: "assert add(1, 2) == 3"})
		}
	}
	verdicts, err := grade.Run(t.Context(), "python3", trials)
	expect.OK(t, err)
	for i, v := range verdicts {
		if v.Right || v.Error != "ran longer than 0.3 s" {
			t.Errorf("%.300s: %+v", trials[i].Code, v)
		}
	}
}

// TestEndless_LeavesNextAlone checks that an answer after one that had to be stopped is right. The limit grows until
// that answer has had time enough, on any machine.
func TestEndless_LeavesNextAlone(t *testing.T) {
	needPython(t)
	defer grade.SetWorkers(1)()
	endless := grade.Trial{Code: "import signal\nwhile True: signal.pause()"} // no limit of CPU time ends it
	for limit := 300 * time.Millisecond; limit < 30*time.Second; limit *= 3 {
		restore := grade.SetTrialTimes(limit, 0)
		verdicts, err := grade.Run(t.Context(), "python3", []grade.Trial{endless, honest, endless, honest})
		restore()
		expect.OK(t, err)
		if verdicts[0].Right || verdicts[2].Right {
			t.Fatalf("what never ends is right: %+v", verdicts)
		}
		if verdicts[1].Right && verdicts[3].Right {
			return
		}
	}
	t.Error("no answer after one that never ends is right")
}

// untouched is a trial that fails if it does not find what the first one finds.
//
//nolint:lll // Python
var untouched = grade.Trial{Code: `
import fcntl, os, resource, signal, time
state = (os.listdir(), os.listxattr("."), os.stat(".").st_mode, time.time() - os.stat(".").st_mtime < 3600, os.getpid() < 30, os.umask(0o22),
         resource.getrlimit(resource.RLIMIT_NOFILE), signal.pthread_sigmask(signal.SIG_BLOCK, []), int(signal.getsignal(signal.SIGTERM)),
         [(fcntl.fcntl(fd, 1032) >= 4096 * 16 or fcntl.fcntl(fd, 1032), os.get_blocking(fd)) for fd in (3, 4)])
os.mkdir("one")
print(state)`, Check: `
assert printed == "([], [], 16832, True, True, 18, (64, 64), set(), 0, [(True, True), (True, True)])\n", printed`}

// TestTrial_NothingRemains checks that an answer finds nothing that another one has left, both if each has namespaces
// of its own and if each has a Python of its own.
func TestTrial_NothingRemains(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(time.Minute)()
	defer grade.SetWorkers(1)()
	defer syscall.Umask(syscall.Umask(0o22))
	trials, leaving := []grade.Trial{untouched}, programs(t, "leaving")
	for _, a := range leaving {
		trials = append(trials, grade.Trial{Code: a.code}, untouched)
	}
	for _, noCalls := range []bool{false, true} {
		if noCalls {
			trials = trials[:5] // nothing is shared, so they differ little
		}
		restore := grade.Without(noCalls, false)
		verdicts, err := grade.Run(t.Context(), "python3", trials)
		restore()
		expect.OK(t, err)
		for i, v := range verdicts {
			if i%2 == 0 && !v.Right {
				t.Errorf("after %q, without calls: %v: %+v", leaving[max(i/2-1, 0)].name, noCalls, v)
			}
		}
	}
}

// TestGradeStops checks that a running trial ends with the caller's context.
func TestGradeStops(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(5 * time.Minute)()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mark := fmt.Sprintf("restyle-stopped-%d", os.Getpid())
	go func() {
		for !running(t, mark+"\x00") && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	begun := time.Now()
	_, err := grade.Run(ctx, "python3", []grade.Trial{{Code: marked(mark)}, {Code: "while True: pass"},
		{Code: "while True: pass"}})
	if took := time.Since(begun); !errors.Is(err, context.Canceled) || took > 4*time.Minute {
		t.Errorf("%v after %v", err, took)
	}
	if running(t, mark+"\x00") {
		t.Error("it still runs")
	}
}

// TestTrial_NoProcessRemains checks that no process of a trial is left when grading has ended, with a sandbox or
// without one: not the code's, not the check's, nor what these have started, whether they are stopped or have ended.
func TestTrial_NoProcessRemains(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	defer grade.SetTrialTimes(time.Second, 0)()
	defer grade.SetWorkers(6)()
	for name, run := range map[string]func(context.Context, string, []grade.Trial) ([]grade.Verdict, error){
		"sandbox": grade.Run, "unprotected": grade.RunUnprotected} {
		mark := fmt.Sprintf("restyle-runs-%d-%s-", os.Getpid(), name)
		again := func(n int) string { // in another process of the code
			_, exec, _ := strings.Cut(marked(mark+fmt.Sprint(n)), "\n")
			return "import os, sys, threading, time\ndef child():\n  if os.fork() == 0:\n    " + exec + "\n"
		}
		trials := []grade.Trial{
			{Code: marked(mark + "0")},
			{Check: marked(mark + "1")},
			{Code: again(2) + "child()\ntime.sleep(60)"},
			{Code: again(3) + "child()\ntime.sleep(0.5)"},
			{Code: again(4) + "child()", Check: "import time\ntime.sleep(0.5)"},
			{Code: again(5) + "threading.Thread(target=child).start()\ntime.sleep(60)"},
		}
		verdicts, err := run(t.Context(), "python3", trials)
		if errors.Is(err, sandbox.ErrUnavailable) {
			continue
		}
		expect.OK(t, err)
		for i, v := range verdicts {
			if v.Right {
				t.Errorf("%s, %d: %+v", name, i, v)
			}
			this := mark + fmt.Sprint(i) + "\x00"
			for limit := time.Now().Add(20 * time.Second); running(t, this); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) { // what is killed takes a moment to end
					t.Errorf("%s: of %.300q something still runs", name, trials[i].Code+trials[i].Check)
					break
				}
			}
		}
	}
}

// marked returns code that sleeps in a process that running finds.
func marked(mark string) string {
	return fmt.Sprintf("import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import time; "+
		"time.sleep(100)', %q])", mark)
}

// TestKilled_EndsWhatItRuns checks that killing the judging process also kills what it runs.
func TestKilled_EndsWhatItRuns(t *testing.T) {
	needPython(t)
	mark := "restyle-killed-" + os.Getenv("RESTYLE_KILLED")
	if os.Getenv("RESTYLE_KILLED") != "" {
		defer grade.SetTrialTime(time.Minute)()
		_, err := grade.Run(t.Context(), "python3", []grade.Trial{{Code: marked(mark)}})
		t.Fatal(err)
	}
	mark += fmt.Sprint(os.Getpid())
	command := exec.Command(os.Args[0], "-test.run=^TestKilled_EndsWhatItRuns$")
	command.Env = append(os.Environ(), fmt.Sprintf("RESTYLE_KILLED=%d", os.Getpid()))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	expect.OK(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	for !running(t, mark+"\x00") {
		select {
		case <-ended:
			t.Fatalf("it ended before it was killed: %s", output.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = command.Process.Kill()
	<-ended
	for limit := time.Now().Add(time.Minute); running(t, mark+"\x00"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the code runs still")
		}
	}
}

// running reports whether the command line of any process contains text.
func running(t *testing.T, text string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("which processes there are is not known: %v", err)
	}
	return slices.ContainsFunc(lines, func(line string) bool {
		b, err := os.ReadFile(line)
		return err == nil && bytes.Contains(b, []byte(text))
	})
}

// TestMemoryOfAll checks the limit on the memory of all processes together, both if the kernel enforces it and if
// this process measures it.
func TestMemoryOfAll(t *testing.T) {
	needPython(t)
	if free, whose, _ := memory.Free(); free < 4<<30 {
		t.Skipf("%d MiB of %s are free: the system itself might end what takes so much", free>>20, whose)
	}
	if _, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		t.Skipf("this kernel does not tell which processes descend from another: %v", err)
	}
	defer grade.SetTrialTimes(time.Minute, 0)() // so that time is not what ends it, on any machine
	defer grade.SetWorkers(1)()
	var trials []grade.Trial
	taking := programs(t, "taking")
	for _, a := range taking {
		trials = append(trials, grade.Trial{Code: a.code}, honest)
	}
	for _, noGroups := range []bool{true, false} {
		if !noGroups {
			trials = trials[:6] // the kernel counts all that way
		}
		restore := grade.Without(false, noGroups)
		verdicts, err := grade.Run(t.Context(), "python3", trials)
		restore()
		expect.OK(t, err)
		for i, v := range verdicts {
			if i%2 == 1 && !v.Right || i%2 == 0 && (v.Right || v.Error != "took more than 512 MiB of memory") {
				t.Errorf("%s, without groups: %v: %+v", taking[i/2].name, noGroups, v)
			}
		}
	}
}

// TestNoSandbox checks that nothing is run if namespaces are unavailable.
func TestNoSandbox(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	if !sandboxtest.Forbidden(t) {
		return
	}
	mark := filepath.Join(t.TempDir(), "mark")
	trials := []grade.Trial{{Code: "open(" + fmt.Sprintf("%q", mark) + ", 'w')"}}
	if v, err := grade.Run(t.Context(), "python3", trials); !errors.Is(err, sandbox.ErrUnavailable) || v != nil {
		t.Errorf("%v, %+v", err, v)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was run all the same")
	}
	if v, err := grade.RunUnprotected(t.Context(), "python3", trials); err != nil || !v[0].Right {
		t.Errorf("unprotected: %v, %+v", err, v)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}
