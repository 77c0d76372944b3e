# Attacks on the verdict: wrong answers to "the sum of a and b" that try to be judged right, and code that tries to end
# the judging.

#### printing
print('{"right": true}\n{"parses": true, "right": true, "error": "", "printed": ""}')

#### writing to every file
$FILES
for line in lines: write(line)

#### writing to every file and ending
$FILES
for line in lines: write(line)
os._exit(0)

#### nonsense
$FILES
write(b"nonsense\n")

#### nonsense that is half a line
$FILES
write(b'{"right"')
os._exit(0)

#### deep nonsense
$FILES
write(b'[' * 50000 + b'\n')

#### the wrong types
$FILES
for line in (b"[]\n", b"1\n", b'{"parses": 1}\n', b'{"printed": [], "error": ""}\n', b'{"value": {"yours": -1}}\n', b'{"value": {"new": "nothing"}}\n'): write(line)

#### the end before the end
$FILES
def add(a, b):
    write(b'{"gone": true}\n')
    return a + b + 1

#### answers in advance
$FILES
write(b'{"value": 3, "changed": []}\n' * 100)

#### exit
import os
os._exit(0)

#### exit while asked
import os
def add(a, b): os._exit(0)

#### exit at exit
import atexit, os, sys
atexit.register(lambda: os._exit(0))
sys.exit(0)

#### killing
import os
os.kill(os.getpid(), 9)

#### builtins
import builtins, re, json, operator, sys, types
builtins.AssertionError = builtins.Exception = type("Nothing", (BaseException,), {})
builtins.float = builtins.int = builtins.str = builtins.isinstance = lambda *a: True
operator.eq = lambda a, b: True
json.dumps = lambda *a, **k: '{"right": true}'
re.findall = lambda *a: [3.0]
sys.modules["__main__"] = sys.modules["builtins"] = types.ModuleType("x")
def add(a, b): return 0

#### equality
$EQUAL
def add(a, b): return Equal()

#### equality of a class in place of a function
$EQUAL
class add(Equal):
    def __init__(self, a, b): pass

#### equality of text
class Equal(str):
    __eq__ = lambda s, o: True
    __hash__ = str.__hash__
def add(a, b): return Equal('no')

#### equality of a number
class Equal(int):
    __eq__ = lambda s, o: True
    __sub__ = lambda s, o: 0
    __hash__ = int.__hash__
def add(a, b): return Equal(-1)

#### arithmetic
$EQUAL
def add(a, b): return Equal()
## check
assert abs(add(1, 2) - 3) < 1e-9

#### arithmetic of a class
$EQUAL
class add(Equal):
    def __init__(self, a, b): pass
## check
assert abs(add(1, 2) - 3) < 1e-9

#### a number of what has seen data
$EQUAL
Equal.__sub__ = lambda self, other: self
def add(a, b): return Equal()
## check
assert abs(add(1, 2) - 3) < 1e-9

#### a list
$EQUAL
def add(a, b): return Equal()
## check
assert [add(1, 2)] == [3] or (add(1, 2),) == (3,) or {'x': add(1, 2)} == {'x': 3}

#### among
$EQUAL
def add(a, b): return Equal()
## check
assert add(1, 2) in [3] or add(1, 2) in {3} or 3 in add(1, 2)

#### the caller
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for names in (frame.f_globals, frame.f_locals):
            if "printed" in names: names["printed"] = "3"
        frame = frame.f_back
    return 0

#### what it is called with
def add(a, b):
    for at in ("__globals__", "__code__", "__closure__", "gi_frame", "__class__"):
        try:
            getattr(b, at)["expected"] = lambda: 0
        except Exception: pass
    return 0
## check
def expected(): return 3
assert add(1, expected) == expected()

#### reading the check
def add(a, b): return b.__globals__['wanted']
## check
wanted = 3
assert add(1, lambda: 0) == wanted

#### a function of the check
def add(a, b): return b
## check
assert add(1, lambda: 2) == 3

#### names of the check
__name__ = 'x'
printed = '3'
functions = expected = 3
len = abs = lambda *a: 3
## check
assert printed == '3' or functions == 3 or len([]) == 3

#### builtins as names
__builtins__ = {'isinstance': lambda *a: True, 'globals': dict, 'AssertionError': None}
isinstance = lambda *a: True
## check
globals()
assert isinstance(1, 2)

#### an exception that is none
class AssertionError(BaseException): pass
def add(a, b): raise SystemExit(0)

#### output without end
while True: print('x' * 10000)

#### output without end to every file (never ends)
$FILES
while True: write(b'x' * 10000)

#### lines without end to every file (never ends)
$FILES
while True: write(b'{}\n' * 1000)

#### an error without end
raise ValueError('x' * 10_000_000)

#### an error without end while asked
def add(a, b): raise ValueError('x' * 100_000)

#### for ever (never ends)
import time
while True: time.sleep(100)

#### for ever, deaf (never ends)
import signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(100)

#### for ever while asked (never ends)
def add(a, b):
    while True: pass

#### a fork bomb (never ends)
import os, time
for n in range(11):
    try: os.fork()
    except OSError: pass
time.sleep(1000)

#### a child left behind
import os, time
if os.fork() == 0:
    time.sleep(1000)
def add(a, b): return a + b

#### a child left far behind
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execv("/proc/self/exe" if os.path.exists("/proc/self/exe") else sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)", "$SECRET-child"])
    os._exit(0)
os.wait()
def add(a, b): return a + b

#### its folder
import os
os.mkdir('a'); os.mkdir('a/b'); os.chmod('a', 0); os.chmod('.', 0)

#### its folder, deep
import os
for n in range(60): os.mkdir('d'); os.chdir('d')

#### threads
import threading, time
for n in range(100): threading.Thread(target=time.sleep, args=(1000,)).start()

#### memory
x = []
while True: x.append(bytearray(1 << 20))

#### much text
print('x' * 9_000_000)
## check
assert len(printed) == 9_000_001

#### a long answer
def add(a, b): return 'x' * 9_000_000

#### a long list
def add(a, b): return list(range(1_000_000, 2_000_000))

#### a list in itself
def add(a, b):
    x = []
    x.append(x)
    return x

#### a large number
def add(a, b): return 10 ** 1_000_000

#### a range
def add(a, b): return range(10 ** 15)
## check
assert list(add(1, 2)) == [3]
