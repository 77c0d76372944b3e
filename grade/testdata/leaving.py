# Attacks on the next answer: they change what it would find if it shared anything with them.

#### attributes of the directory
import os
n = 0
while n < 100: os.setxattr('.', f'user.{n}', bytes(4000)); n += 1

#### times and mode of the directory
import os
os.utime('.', (1, 1))
os.chmod('.', 0o500)

#### files
import os
for n in range(60): os.mkdir(str(n))

#### size of pipes
import fcntl
for fd in range(64):
    try: fcntl.fcntl(fd, 1031, 4096)
    except OSError: pass

#### flags of pipes
import os
for fd in range(64):
    try: os.set_blocking(fd, False)
    except OSError: pass
os._exit(0)

#### content of pipes
$FILES
write(b'{"value": 3}\n' * 100)
os._exit(0)

#### process numbers
import os
for n in range(300):
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)

#### mask, limits and signals
import os, resource, signal
os.umask(0o777)
resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [n])
    except (OSError, ValueError): pass

#### stopping all
import os, signal
for pid in (1, -1):
    for n in (signal.SIGSTOP, signal.SIGKILL):
        try: os.kill(pid, n)
        except OSError: pass

#### modules
import builtins, json, sys
json.loads = json.dumps = None
builtins.print = None
sys.modules.clear()
