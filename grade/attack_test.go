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
	"restyle/internal/memory"
	"restyle/internal/sandbox"
	"restyle/internal/sandbox/sandboxtest"
)

// An attack is code that tries to do something forbidden. None would do lasting harm to this machine if it succeeded,
// not even as root.
type attack struct {
	name, code, check string
	endless           bool // it never ends, so that a short time limit does for it
}

// reaching are attacks on what is outside the sandbox. Each prints "got" if it succeeds, and prints nothing otherwise.
//
//nolint:lll // Python
var reaching = []attack{
	{name: "environment of the parent", code: `
import os
for pid in {os.getppid(), $PID}:
    try:
        if b"$SECRET" in open(f"/proc/{pid}/environ", "rb").read(): print("got")
    except OSError: pass`},
	{name: "environment and memory of all", code: `
import glob, re
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/*/cmdline") + ["/proc/self/environ"]:
    try:
        if b"$SECRET" in open(path, "rb").read(): print("got", path)
    except OSError: pass
for path in glob.glob("/proc/[0-9]*/mem"): print("got", path)`},
	{name: "own environment", code: "import os\nif set(os.environ) - {'LC_CTYPE'}: print('got', os.environ)"},
	{name: "ptrace", code: libc + `
for pid in (os.getppid(), $PID):
    if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0: print("got", pid)`},
	{name: "memory of others", code: libc + `
for pid in (1, os.getppid(), $PID):
    buffer = ctypes.create_string_buffer(8)
    one = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    two = (ctypes.c_void_p * 2)(id(os), 8)
    if pid != os.getpid() and libc.process_vm_readv(pid, one, 1, two, 1, 0) > 0: print("got", pid)`},
	{name: "network", code: `
import socket
try:
    socket.socket(); print("got")
    socket.create_connection(("127.0.0.1", $PORT), 1).send(b"$SECRET")
except OSError: pass`},
	{name: "abstract socket", code: `
import socket
try:
    s = socket.socket(socket.AF_UNIX); s.connect("\0$SOCKET"); print("got")
except OSError: pass`},
	{name: "socket in a folder", code: `
import socket
try:
    s = socket.socket(socket.AF_UNIX); s.connect("$FOLDER/socket"); print("got")
except OSError: pass`},
	{name: "write outside", code: `
import os
for path in ("$FOLDER/written", "/tmp/$SECRET", "/dev/shm/$SECRET", "/var/tmp/$SECRET", "/$SECRET", os.path.dirname(os.__file__) + "/$SECRET"):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY)); os.unlink(path); print("got", path)
    except OSError: pass
try:
    open("$FOLDER/kept", "w"); print("got")
except OSError: pass`},
	{name: "delete outside", code: `
import os, shutil
for call in (os.unlink, os.rmdir, shutil.rmtree):
    for path in ("$FOLDER/kept", "$FOLDER"):
        try: call(path); print("got", path)
        except OSError: pass`},
	{name: "read a private file", code: `
import os
for path in ("$FOLDER/kept", os.path.expanduser("~/kept"), "$HOME/kept", "/etc/passwd", "/etc/shadow", "$FOLDER", "$HOME", "/proc", "/sys", "/run", "/.proc", "/.old"):
    if os.path.exists(path): print("got", path)`},
	{name: "files that were open", code: `
import os
for fd in range(5, 200):
    try: os.fstat(fd); print("got", fd)
    except OSError: pass`},
	{name: "a terminal", code: "try:\n    open('/dev/tty'); print('got')\nexcept OSError: pass"},
	{name: "shared memory", code: libc + `
import glob
if glob.glob("/dev/shm*"): print("got")
if libc.shmget(0, 1 << 20, 0o1600) >= 0 or libc.msgget(0, 0o1600) >= 0 or libc.semget(0, 1, 0o1600) >= 0: print("got SysV")
if libc.memfd_create(b"x", 0) >= 0: print("got a file in memory")`},
	{name: "rights", code: libc + `
if libc.prctl(39, 0, 0, 0, 0) != 1: print("got: new privileges are not refused")
if any(libc.prctl(23, c, 0, 0, 0) > 0 for c in range(64)): print("got capabilities of the bounding set")
if any(libc.prctl(47, 1, c, 0, 0) > 0 for c in range(64)): print("got ambient capabilities")
header, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
if libc.capget(header, held) != 0 or any(held): print("got capabilities", list(held))
for call in (lambda: libc.unshare(0x10000000), lambda: libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0), lambda: libc.mount(b"x", b"$FOLDER", b"tmpfs", 0, None), lambda: libc.chroot(b"/")):
    if os.uname().machine == "x86_64" and call() >= 0: print("got namespaces")
if os.uname().machine == "x86_64" and (libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != 38): print("got clone3")
if libc.setuid(0) == 0 and os.getuid() == 0 and $ROOT: print("got root")`},
	{name: "setuid programs", code: `
import os
for path in ("/", "/dev/null", os.__file__, "/usr/lib", "/folder"):
    if os.path.exists(path):
        flags = os.statvfs(path).f_flag
        if not flags & os.ST_NOSUID or path != "/folder" and not flags & os.ST_RDONLY: print("got", path)
for path in ("/bin/su", "/usr/bin/su", "/usr/bin/sudo", "/bin/sh", "/usr/bin/env"):
    if os.path.exists(path): print("got", path)`},
	{name: "limits of process 1", code: `
import os, resource
for call in (lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)), lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19), lambda: os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0)),
             lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000)), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))):
    try: call(); print("got")
    except (OSError, ValueError): pass`},
	{name: "own limits", code: `
import resource as r
for limit, most in ((r.RLIMIT_AS, 512 << 20), (r.RLIMIT_CPU, 3), (r.RLIMIT_NPROC, 24), (r.RLIMIT_FSIZE, 0), (r.RLIMIT_NOFILE, 64), (r.RLIMIT_SIGPENDING, 64), (r.RLIMIT_MSGQUEUE, 0), (r.RLIMIT_MEMLOCK, 0)):
    if r.getrlimit(limit) != (most, most): print("got", limit, r.getrlimit(limit))
try:
    r.setrlimit(r.RLIMIT_CORE, (0, 0)); print("got core files for the system's program")
except (OSError, ValueError): pass`},
	{name: "many processes", code: `
import os, signal
children = []
try:
    while len(children) < 200:
        pid = os.fork()
        if pid == 0: signal.pause()
        children.append(pid)
except OSError: pass
if len(children) >= 30: print("got", len(children))
for pid in children: os.kill(pid, 9)
for pid in children: os.waitpid(pid, 0)`},
	{name: "a full disk", code: `
import os
try:
    open("big", "wb", 0).write(bytes(1000)); print("got")
except OSError: pass
n = 0
try:
    while n < 5000: os.mkdir(str(n)); n += 1
except OSError: pass
if n > 64: print("got", n)`},
	{name: "signals to the process above", code: `
import os
for number in range(1, 65):
    try: os.kill(os.getppid(), number)
    except OSError: pass`},
	{name: "other cases in memory", code: `
import gc, sys
frame, seen = sys._getframe(), []
while frame: seen += [frame.f_locals, frame.f_globals]; frame = frame.f_back
for o in gc.get_objects() + seen:
    for text in list(o.values()) if isinstance(o, dict) else list(o) if isinstance(o, (list, tuple, set)) else []:
        if isinstance(text, str) and "KCEHC-EHT"[::-1] in text: print("got")`},
}

const libc = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"

// forging are attacks on the verdict: wrong answers to "the sum of a and b" that try to be judged right, and code that
// tries to end the judging.
//
//nolint:lll // Python
var forging = []attack{
	{name: "printing", code: `print('{"right": true}\n{"parses": true, "right": true, "error": "", "printed": ""}')`},
	{name: "writing to every file", code: everyFile + `
for line in lines: write(line)
`},
	{name: "writing to every file and ending", code: everyFile + `
for line in lines: write(line)
os._exit(0)`},
	{name: "nonsense", code: everyFile + `write(b"nonsense\n")`},
	{name: "nonsense that is half a line", code: everyFile + "write(b'{\"right\"')\nos._exit(0)"},
	{name: "deep nonsense", code: everyFile + "write(b'[' * 50000 + b'\\n')"},
	{name: "the wrong types", code: everyFile + `
for line in (b"[]\n", b"1\n", b'{"parses": 1}\n', b'{"printed": [], "error": ""}\n', b'{"value": {"yours": -1}}\n', b'{"value": {"new": "nothing"}}\n'): write(line)`},
	{name: "the end before the end", code: everyFile + `
def add(a, b):
    write(b'{"gone": true}\n')
    return a + b + 1`},
	{name: "answers in advance", code: everyFile + `write(b'{"value": 3, "changed": []}\n' * 100)`},
	{name: "exit", code: "import os\nos._exit(0)"},
	{name: "exit while asked", code: "import os\ndef add(a, b): os._exit(0)"},
	{name: "exit at exit", code: "import atexit, os, sys\natexit.register(lambda: os._exit(0))\nsys.exit(0)"},
	{name: "killing", code: "import os\nos.kill(os.getpid(), 9)"},
	{name: "builtins", code: `
import builtins, re, json, operator, sys, types
builtins.AssertionError = builtins.Exception = type("Nothing", (BaseException,), {})
builtins.float = builtins.int = builtins.str = builtins.isinstance = lambda *a: True
operator.eq = lambda a, b: True
json.dumps = lambda *a, **k: '{"right": true}'
re.findall = lambda *a: [3.0]
sys.modules["__main__"] = sys.modules["builtins"] = types.ModuleType("x")
def add(a, b): return 0`},
	{name: "equality", code: everEqual + "def add(a, b): return Equal()"},
	{name: "equality of a class in place of a function", code: everEqual +
		"class add(Equal):\n    def __init__(self, a, b): pass"},
	{name: "equality of text", code: "class Equal(str):\n    __eq__ = lambda s, o: True\n    __hash__ = " +
		"str.__hash__\ndef add(a, b): return Equal('no')"},
	{name: "equality of a number", code: "class Equal(int):\n    __eq__ = lambda s, o: True\n    __sub__ = lambda s, o: " +
		"0\n    __hash__ = int.__hash__\ndef add(a, b): return Equal(-1)"},
	{name: "arithmetic", code: everEqual + "def add(a, b): return Equal()", check: "assert abs(add(1, 2) - 3) < 1e-9"},
	{name: "arithmetic of a class", code: everEqual + "class add(Equal):\n    def __init__(self, a, b): pass",
		check: "assert abs(add(1, 2) - 3) < 1e-9"},
	{name: "a number of what has seen data", code: everEqual +
		"Equal.__sub__ = lambda self, other: self\ndef add(a, b): return Equal()", check: "assert abs(add(1, 2) - 3) < 1e-9"},
	{name: "a list", code: everEqual + "def add(a, b): return Equal()",
		check: "assert [add(1, 2)] == [3] or (add(1, 2),) == (3,) or {'x': add(1, 2)} == {'x': 3}"},
	{name: "among", code: everEqual + "def add(a, b): return Equal()",
		check: "assert add(1, 2) in [3] or add(1, 2) in {3} or 3 in add(1, 2)"},
	{name: "the caller", code: `
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for names in (frame.f_globals, frame.f_locals):
            if "printed" in names: names["printed"] = "3"
        frame = frame.f_back
    return 0`},
	{name: "what it is called with", code: `
def add(a, b):
    for at in ("__globals__", "__code__", "__closure__", "gi_frame", "__class__"):
        try:
            getattr(b, at)["expected"] = lambda: 0
        except Exception: pass
    return 0`, check: "def expected(): return 3\nassert add(1, expected) == expected()"},
	{name: "reading the check", code: "def add(a, b): return b.__globals__['wanted']",
		check: "wanted = 3\nassert add(1, lambda: 0) == wanted"},
	{name: "a function of the check", code: "def add(a, b): return b", check: "assert add(1, lambda: 2) == 3"},
	{name: "names of the check", code: "__name__ = 'x'\nprinted = '3'\nfunctions = expected = 3\nlen = abs = lambda *a: 3",
		check: "assert printed == '3' or functions == 3 or len([]) == 3"},
	{name: "builtins as names", code: "__builtins__ = {'isinstance': lambda *a: True, 'globals': dict, " +
		"'AssertionError': None}\nisinstance = lambda *a: True", check: "globals()\nassert isinstance(1, 2)"},
	{name: "an exception that is none", code: "class AssertionError(BaseException): pass\ndef add(a, b): raise " +
		"SystemExit(0)"},
	{name: "output without end", code: "while True: print('x' * 10000)"},
	{endless: true, name: "output without end to every file", code: everyFile + "\nwhile True: write(b'x' * 10000)"},
	{endless: true, name: "lines without end to every file", code: everyFile + "\nwhile True: write(b'{}\\n' * 1000)"},
	{name: "an error without end", code: "raise ValueError('x' * 10_000_000)"},
	{name: "an error without end while asked", code: "def add(a, b): raise ValueError('x' * 100_000)"},
	{endless: true, name: "for ever", code: "import time\nwhile True: time.sleep(100)"},
	{endless: true, name: "for ever, deaf", code: "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, " +
		"signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: time.sleep(100)"},
	{endless: true, name: "for ever while asked", code: "def add(a, b):\n    while True: pass"},
	{endless: true, name: "a fork bomb", code: "import os, time\nfor n in range(11):\n    try: os.fork()\n    except OSError: " +
		"pass\ntime.sleep(1000)"},
	{name: "a child left behind", code: "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\ndef add(a, b): " +
		"return a + b"},
	{name: "a child left far behind", code: `
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execv("/proc/self/exe" if os.path.exists("/proc/self/exe") else sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)", "$SECRET-child"])
    os._exit(0)
os.wait()
def add(a, b): return a + b`},
	{name: "its folder", code: "import os\nos.mkdir('a'); os.mkdir('a/b'); os.chmod('a', 0); os.chmod('.', 0)"},
	{name: "its folder, deep", code: "import os\nfor n in range(60): os.mkdir('d'); os.chdir('d')"},
	{name: "threads", code: "import threading, time\nfor n in range(100): threading.Thread(target=time.sleep, " +
		"args=(1000,)).start()"},
	{name: "memory", code: "x = []\nwhile True: x.append(bytearray(1 << 20))"},
	{name: "much text", code: "print('x' * 9_000_000)", check: "assert len(printed) == 9_000_001"},
	{name: "a long answer", code: "def add(a, b): return 'x' * 9_000_000"},
	{name: "a long list", code: "def add(a, b): return list(range(1_000_000, 2_000_000))"},
	{name: "a list in itself", code: "def add(a, b):\n    x = []\n    x.append(x)\n    return x"},
	{name: "a large number", code: "def add(a, b): return 10 ** 1_000_000"},
	{name: "a range", code: "def add(a, b): return range(10 ** 15)", check: "assert list(add(1, 2)) == [3]"},
}

//nolint:lll // Python
const (
	everEqual = `
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = lambda self: hash(3)
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __abs__ = __neg__ = lambda self, *a: 0
    def __bool__(self): return True
`
	everyFile = `
import os
lines = [b'{"right": true}\n', b'{"parses": true, "right": true, "ended": true}\n', b'{"left": false, "clean": true}\n', b'{"gone": true}\n',
         b'{"parses": true}\n', b'{"printed": "3", "error": "", "names": {"object": 0}, "functions": []}\n']
for fd in range(64):
    try: os.set_blocking(fd, True)
    except OSError: pass
def write(line):
    for fd in range(64):
        try: os.write(fd, line)
        except OSError: pass
`
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
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(folder) })
		program := filepath.Join(folder, "test")
		copyFile(t, program, os.Args[0])
		home := filepath.Join(folder, "home")
		if err := errors.Join(os.Chmod(folder, 0o755), os.Mkdir(home, 0o777), os.Chmod(home, 0o777)); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
}

func attacked(t *testing.T) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(folder, "kept")
	reached := new(atomic.Int32)
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Write(open, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), "kept"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	root := "False"
	if os.Geteuid() == 0 {
		root = "True"
	}
	fill := strings.NewReplacer("$PID", fmt.Sprint(os.Getpid()), "$SECRET", secret, "$PORT", fmt.Sprint(port), "$SOCKET",
		name, "$FOLDER", folder, "$HOME", os.Getenv("HOME"), "$ROOT", root)

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
	for _, a := range forging {
		if os.Getenv("RESTYLE_ATTACKS") != "all" || a.endless {
			continue // it does not depend on the user, or is one of TestEndless_IsStopped
		}
		if a.check == "" {
			a.check = "assert add(1, 2) == 3"
		}
		trials = append(trials, grade.Trial{Code: fill.Replace(a.code), Check: a.check}, honest)
	}
	// What ends has so much time that it ends on any machine.
	defer grade.SetTrialTime(time.Minute)()
	verdicts, err := grade.Run(t.Context(), os.Getenv("RESTYLE_ATTACKED"), trials)
	if err != nil {
		t.Fatal(err)
	}
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

// TestEndless_IsStopped checks that what never ends is stopped.
func TestEndless_IsStopped(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTimes(300*time.Millisecond, 0)()
	var trials []grade.Trial
	for _, a := range forging {
		if a.endless {
			trials = append(trials, grade.Trial{Code: a.code, Check: "assert add(1, 2) == 3"})
		}
	}
	verdicts, err := grade.Run(t.Context(), "python3", trials)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		if verdicts[0].Right || verdicts[2].Right {
			t.Fatalf("what never ends is right: %+v", verdicts)
		}
		if verdicts[1].Right && verdicts[3].Right {
			return
		}
	}
	t.Error("no answer after one that never ends is right")
}

// leaving are attacks on the next answer: they change what it would find if it shared anything with them.
//
//nolint:lll // Python
var leaving = []attack{
	{name: "attributes of the directory", code: "import os\nn = 0\nwhile n < 100: os.setxattr('.', f'user.{n}', bytes(4000)); n += 1"},
	{name: "times and mode of the directory", code: "import os\nos.utime('.', (1, 1))\nos.chmod('.', 0o500)"},
	{name: "files", code: "import os\nfor n in range(60): os.mkdir(str(n))"},
	{name: "size of pipes", code: "import fcntl\nfor fd in range(64):\n    try: fcntl.fcntl(fd, 1031, 4096)\n    except OSError: pass"},
	{name: "flags of pipes", code: "import os\nfor fd in range(64):\n    try: os.set_blocking(fd, False)\n    except OSError: pass\nos._exit(0)"},
	{name: "content of pipes", code: everyFile + "write(b'{\"value\": 3}\\n' * 100)\nos._exit(0)"},
	{name: "process numbers", code: "import os\nfor n in range(300):\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)"},
	{name: "mask, limits and signals", code: `
import os, resource, signal
os.umask(0o777)
resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [n])
    except (OSError, ValueError): pass`},
	{name: "stopping all", code: "import os, signal\nfor pid in (1, -1):\n    for n in (signal.SIGSTOP, signal.SIGKILL):\n        try: os.kill(pid, n)\n        except OSError: pass"},
	{name: "modules", code: "import builtins, json, sys\njson.loads = json.dumps = None\nbuiltins.print = None\nsys.modules.clear()"},
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

// TestTrial_NothingRemains checks that an answer finds nothing that another one has left, where each has namespaces of
// its own and where each has a Python of its own.
func TestTrial_NothingRemains(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(time.Minute)()
	defer grade.SetWorkers(1)()
	defer syscall.Umask(syscall.Umask(0o22))
	trials := []grade.Trial{untouched}
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
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
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

// taking are attacks that take more memory than all processes together may have, though each is within its own limits.
// If nothing stopped them, each would take less than 1.5 GiB.
//
//nolint:lll // Python
var taking = []attack{
	{name: "memory", code: inMany + "def take(n): return bytearray(b'x') * (60 << 20)\nmany(20, take)"},
	{name: "memory, with signals to all", code: inMany + `
def take(n):
    if n > 1: return bytearray(b'x') * (60 << 20)
    while True:
        for pid in range(1, 5):
            try: os.kill(pid, signal.SIGCHLD)
            except OSError: pass
many(20, take)`},
	{name: "memory of what a second thread starts", code: inMany + `
import threading
def take(n): return bytearray(b'x') * (60 << 20)
threading.Thread(target=many, args=(20, take)).start()
signal.pause()`},
	{name: "memory that moves from process to process", code: inMany + `
def take(n):
    x = bytearray(b'x') * (100 << 20)
    while os.fork() == 0: pass
    os._exit(0)
many(10, take)`},
	{name: "page tables", code: inMany + libc + `
libc.mmap.restype = ctypes.c_void_p
def take(n):
    for k in range(12000):
        at = 0x100000000000 + n * 0x40000000000 + k * 0x40200000 % 0x30000000000
        if libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(4096), 1, 0x100022, -1, ctypes.c_long(0)) == at: ctypes.string_at(at, 1)
many(8, take)`},
	{name: "mappings", code: inMany + libc + `
libc.mmap.restype = ctypes.c_void_p
def take(n):
    at = libc.mmap(None, ctypes.c_size_t(60000 * 4096), 0, 0x22, -1, ctypes.c_long(0))
    for k in range(0, 60000, 2): libc.mprotect(ctypes.c_void_p(at + k * 4096), ctypes.c_size_t(4096), 1)
many(8, take)`},
}

// inMany has processes take something and keep it.
const inMany = `
import os, signal
def many(n, take):
    for i in range(n):
        if os.fork() == 0:
            kept = take(i)
            signal.pause()
    signal.pause()
`

// TestMemoryOfAll checks the limit on the memory of all processes together, where the kernel enforces it and where this
// process measures it.
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
		if err != nil {
			t.Fatal(err)
		}
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
