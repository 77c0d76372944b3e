"""Decide whether answers are right by running them.

Reads JSON lines {"code", "check"} from stdin and writes, in the same order, JSON lines
{"parses": bool, "right": bool, "error": str, "printed": str}.

Each case runs in a child process of its own, with limits on time, memory and file size. The code is executed as
__main__ with stdout captured and nothing on stdin. Then the check is executed in a copy of the code's namespace, less
the names that hide a builtin, with two more names: `printed` (what the code printed) and `functions` (the functions
and classes that the code defined, in order). An exception or a failed assert in either makes the answer wrong; a
sys.exit() in the code ends it as it would end a program. Needs os.fork, so a Unix.
"""

import ast
import builtins
import io
import json
import os
import resource
import select
import signal
import sys
import time
import types
import warnings

# Modules that answers and checks often import, loaded once so that no child has to.
for _name in "bisect calendar collections decimal functools heapq itertools math operator re statistics string".split():
    __import__(_name)

SECONDS = 2
MEMORY = 512 << 20
PRINTED = 20_000


def defined(namespace):
    """The functions and classes that the code itself defined, in order."""
    found = []
    for value in namespace.values():
        made = isinstance(value, (types.FunctionType, type)) or hasattr(value, "__wrapped__")
        if made and getattr(value, "__module__", None) == "__main__" and not any(value is f for f in found):
            found.append(value)
    return found


def describe(error):
    """One line: the exception's type and the first line of its text."""
    text = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def run(code, check, report):
    """Run one case; report(parses=…) and so on may be called several times, the last value of a key counts."""
    warnings.simplefilter("ignore")
    try:
        program = compile(ast.parse(code, "answer.py"), "answer.py", "exec")
    except Exception as error:
        report(parses=False, error=describe(error))
        return
    report(parses=True)

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.stdout = captured = io.StringIO()
    try:
        exec(program, module.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0):
            report(error=describe(error))
            return
    except BaseException as error:
        report(error=describe(error))
        return
    finally:
        printed = captured.getvalue()
        report(printed=printed[:PRINTED])

    namespace = {name: value for name, value in module.__dict__.items() if name == "__builtins__" or not hasattr(builtins, name)}
    namespace.update(__name__="__main__", printed=printed, functions=defined(module.__dict__))
    sys.stdout = io.StringIO()
    try:
        exec(compile(check, "check.py", "exec"), namespace)
    except BaseException as error:
        report(error="check: " + describe(error))
        return
    report(right=True)


def child(code, check, pipe):
    """The child's whole life: limits, the case, the result into the pipe. Never returns."""
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + 1, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        except (ValueError, OSError):
            pass  # macOS has no such limit
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        sys.stdin = io.StringIO()
        sys.stderr = io.StringIO()

        def report(**facts):
            line = json.dumps(facts).encode() + b"\n"
            while line:
                line = line[os.write(pipe, line):]

        run(code, check, report)
    finally:
        os._exit(0)


def judge(code, check):
    """Run one case in a child and return its result."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(code, check, writing)
    os.close(writing)
    deadline = time.monotonic() + SECONDS
    result = {"parses": False, "right": False, "error": "", "printed": ""}
    received = b""
    ended = False
    while not ended:
        ready, _, _ = select.select([reading], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            break
        piece = os.read(reading, 1 << 16)
        received += piece
        ended = not piece
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or has not reached setsid
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    os.close(reading)
    for line in received.split(b"\n")[:-1]:
        result.update(json.loads(line))
    if not ended:
        result.update(right=False, error=f"ran longer than {SECONDS} s")
    elif not result["right"] and not result["error"]:
        result["error"] = "ended without a result"
    return result


def main():
    for number, line in enumerate(sys.stdin, 1):
        try:
            case = json.loads(line)
            code, check = case["code"], case["check"]
            if not isinstance(code, str) or not isinstance(check, str):
                raise TypeError("code and check must be strings")
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"line {number} is not a case, {describe(error)}: give one JSON object with code and check a line")
        sys.stdout.write(json.dumps(judge(code, check)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
