# Attacks on what is outside the sandbox. Each prints "got" if it succeeds, and prints nothing otherwise.

#### environment of the parent
import os
for pid in {os.getppid(), $PID}:
    try:
        if b"$SECRET" in open(f"/proc/{pid}/environ", "rb").read(): print("got")
    except OSError: pass

#### environment and memory of all
import glob, re
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/*/cmdline") + ["/proc/self/environ"]:
    try:
        if b"$SECRET" in open(path, "rb").read(): print("got", path)
    except OSError: pass
for path in glob.glob("/proc/[0-9]*/mem"): print("got", path)

#### own environment
import os
if set(os.environ) - {'LC_CTYPE'}: print('got', os.environ)

#### ptrace
$LIBC
for pid in (os.getppid(), $PID):
    if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0: print("got", pid)

#### memory of others
$LIBC
for pid in (1, os.getppid(), $PID):
    buffer = ctypes.create_string_buffer(8)
    one = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    two = (ctypes.c_void_p * 2)(id(os), 8)
    if pid != os.getpid() and libc.process_vm_readv(pid, one, 1, two, 1, 0) > 0: print("got", pid)

#### network
import socket
try:
    socket.socket(); print("got")
    socket.create_connection(("127.0.0.1", $PORT), 1).send(b"$SECRET")
except OSError: pass

#### abstract socket
import socket
try:
    s = socket.socket(socket.AF_UNIX); s.connect("\0$SOCKET"); print("got")
except OSError: pass

#### socket in a folder
import socket
try:
    s = socket.socket(socket.AF_UNIX); s.connect("$FOLDER/socket"); print("got")
except OSError: pass

#### write outside
import os
for path in ("$FOLDER/written", "/tmp/$SECRET", "/dev/shm/$SECRET", "/var/tmp/$SECRET", "/$SECRET", os.path.dirname(os.__file__) + "/$SECRET"):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY)); os.unlink(path); print("got", path)
    except OSError: pass
try:
    open("$FOLDER/kept", "w"); print("got")
except OSError: pass

#### delete outside
import os, shutil
for call in (os.unlink, os.rmdir, shutil.rmtree):
    for path in ("$FOLDER/kept", "$FOLDER"):
        try: call(path); print("got", path)
        except OSError: pass

#### read a private file
import os
for path in ("$FOLDER/kept", os.path.expanduser("~/kept"), "$HOME/kept", "/etc/passwd", "/etc/shadow", "$FOLDER", "$HOME", "/proc", "/sys", "/run", "/.proc", "/.old"):
    if os.path.exists(path): print("got", path)

#### files that were open
import os
for fd in range(5, 200):
    try: os.fstat(fd); print("got", fd)
    except OSError: pass

#### a terminal
try:
    open('/dev/tty'); print('got')
except OSError: pass

#### shared memory
$LIBC
import glob
if glob.glob("/dev/shm*"): print("got")
if libc.shmget(0, 1 << 20, 0o1600) >= 0 or libc.msgget(0, 0o1600) >= 0 or libc.semget(0, 1, 0o1600) >= 0: print("got SysV")
if libc.memfd_create(b"x", 0) >= 0: print("got a file in memory")

#### rights
$LIBC
if libc.prctl(39, 0, 0, 0, 0) != 1: print("got: new privileges are not refused")
if any(libc.prctl(23, c, 0, 0, 0) > 0 for c in range(64)): print("got capabilities of the bounding set")
if any(libc.prctl(47, 1, c, 0, 0) > 0 for c in range(64)): print("got ambient capabilities")
header, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
if libc.capget(header, held) != 0 or any(held): print("got capabilities", list(held))
for call in (lambda: libc.unshare(0x10000000), lambda: libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0), lambda: libc.mount(b"x", b"$FOLDER", b"tmpfs", 0, None), lambda: libc.chroot(b"/")):
    if os.uname().machine == "x86_64" and call() >= 0: print("got namespaces")
if os.uname().machine == "x86_64" and (libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != 38): print("got clone3")
if libc.setuid(0) == 0 and os.getuid() == 0 and $ROOT: print("got root")

#### setuid programs
import os
for path in ("/", "/dev/null", os.__file__, "/usr/lib", "/folder"):
    if os.path.exists(path):
        flags = os.statvfs(path).f_flag
        if not flags & os.ST_NOSUID or path != "/folder" and not flags & os.ST_RDONLY: print("got", path)
for path in ("/bin/su", "/usr/bin/su", "/usr/bin/sudo", "/bin/sh", "/usr/bin/env"):
    if os.path.exists(path): print("got", path)

#### limits of process 1
import os, resource
for call in (lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)), lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19), lambda: os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0)),
             lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000)), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))):
    try: call(); print("got")
    except (OSError, ValueError): pass

#### own limits
import resource as r
for limit, most in ((r.RLIMIT_AS, 512 << 20), (r.RLIMIT_CPU, 3), (r.RLIMIT_NPROC, 24), (r.RLIMIT_FSIZE, 0), (r.RLIMIT_NOFILE, 64), (r.RLIMIT_SIGPENDING, 64), (r.RLIMIT_MSGQUEUE, 0), (r.RLIMIT_MEMLOCK, 0)):
    if r.getrlimit(limit) != (most, most): print("got", limit, r.getrlimit(limit))
try:
    r.setrlimit(r.RLIMIT_CORE, (0, 0)); print("got core files for the system's program")
except (OSError, ValueError): pass

#### many processes
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
for pid in children: os.waitpid(pid, 0)

#### a full disk
import os
try:
    open("big", "wb", 0).write(bytes(1000)); print("got")
except OSError: pass
n = 0
try:
    while n < 5000: os.mkdir(str(n)); n += 1
except OSError: pass
if n > 64: print("got", n)

#### signals to the process above
import os
for number in range(1, 65):
    try: os.kill(os.getppid(), number)
    except OSError: pass

#### other cases in memory
import gc, sys
frame, seen = sys._getframe(), []
while frame: seen += [frame.f_locals, frame.f_globals]; frame = frame.f_back
for o in gc.get_objects() + seen:
    for text in list(o.values()) if isinstance(o, dict) else list(o) if isinstance(o, (list, tuple, set)) else []:
        if isinstance(text, str) and "KCEHC-EHT"[::-1] in text: print("got")
