"""Run code, and checks of it, in processes that share nothing. Started twice by grade.go, once to be each side:

    answer   runs the code and then does what the other side asks of its functions and classes
    check    runs the check, and says what came of it

This process only waits for a case, forks a child that reads it and does the work, and kills what the child has left; it
never reads a case itself, so that no later child finds one in its memory. The descriptors are

    0   the case, a line of JSON: the text of the code, or of the check
    1   lines of JSON: {"python": version} once; of each case {"process": number of the child}; then, of answer,
        {"left": bool, "clean": bool} when all of it has ended; of check {"parses"}, {"printed"}, {"error"}, {"right"}, each
        if known, and {"ended": true}
    3   messages from the other side
    4   messages to the other side

and 9, in a sandbox, is a folder with its /proc. Needs os.fork, so a Unix.
"""

import ast
import gc
import resource
import select
import signal
import warnings

# Modules that answers and checks often import, loaded once so that no child has to.
for _name in "bisect calendar contextlib dataclasses functools heapq itertools re statistics string".split():
    __import__(_name)

CASE, RESULT, FROM, TO, PROC = 0, 1, 3, 4, 9
SECONDS = 3  # of the processor, a process; grade.go ends a case after less time than that
MEMORY = 512 << 20  # of one process, and of all together where /proc can be had
PROCESSES = 24  # with their threads
PRINTED = 20_000
TEXT = 300  # of an error


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
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:TEXT]


def read_case():
    """The case that waits."""
    pieces = []
    while not pieces or b"\n" not in pieces[-1]:
        piece = os.read(CASE, 1 << 16)
        if not piece:
            os._exit(0)
        pieces.append(piece)
    return json.loads(b"".join(pieces))


def limit(alone):
    """Limit this process and all that come of it."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if alone:  # or else all processes of the user would count
        resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ValueError, OSError):
        pass  # macOS has no such limit


def lines(descriptor):
    """A function that writes facts to a descriptor, a line of JSON each."""
    def say(**facts):
        line = memoryview(json.dumps(facts).encode() + b"\n")
        while line:
            line = line[os.write(descriptor, line):]
    return say


def silence():
    """Nothing is read from or written to the descriptors that a program expects."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def answer():
    """Run the code, then serve the check."""
    code = read_case()
    silence()
    peer = Peer(FROM, TO, DOES)
    warnings.simplefilter("ignore")
    try:
        program = compile(ast.parse(code, "answer.py"), "answer.py", "exec")
    except Exception as error:
        peer.send({"parses": False, "error": describe(error)})
        peer.receive()
    peer.send({"parses": True})

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.stdin, sys.stderr = io.StringIO(), io.StringIO()
    sys.stdout = captured = io.StringIO()
    problem = ""
    try:
        exec(program, module.__dict__)
    except SystemExit as error:
        problem = "" if error.code in (None, 0) else describe(error)
    except BaseException as error:
        problem = describe(error)
    namespace = {name: value for name, value in module.__dict__.items() if not hasattr(builtins, name)}
    functions = defined(module.__dict__)

    def names(of):
        return {name: namespace[name] for name in (namespace if of is None else of) if name in namespace}

    peer.send({"printed": captured.getvalue(), "error": problem,
               "names": peer.pack(names), "functions": peer.pack(functions)})
    while True:
        peer.answer(peer.receive())


def names_in(code):
    """The names that a program mentions."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_in(constant)
    return found


def check():
    """Run the check beside what the other side has run."""
    text = read_case()
    say = lines(os.dup(RESULT))
    silence()
    warnings.simplefilter("ignore")
    sys.stdin, sys.stderr, sys.stdout = io.StringIO(), io.StringIO(), io.StringIO()
    peer = Peer(FROM, TO, {"call": DOES["call"], "getattr": name_of})
    try:
        judge(text, peer, say)
    except Ended as error:
        say(error=describe(error).partition(": ")[2])
        return
    except BaseException as error:
        say(error="check: " + describe(error))
    # The last message says that all processes of the other side have ended: what is behind it is no later case's.
    peer.send({"gone": True})
    try:
        while True:
            peer.receive()
    except BaseException:
        pass


def name_of(value, name):
    """What the other side may know of a function of the check: what functools.wraps copies."""
    if name not in ("__name__", "__qualname__", "__doc__", "__module__"):
        raise AttributeError(name)
    return getattr(value, name)


def judge(text, peer, say):
    first = peer.receive()
    if first.get("parses") is not True:
        say(parses=False, error=str(first.get("error"))[:TEXT])
        return
    say(parses=True)
    ran = peer.receive()
    printed = ran["printed"]
    if not isinstance(printed, str):
        raise ValueError("not a text")
    say(printed=printed[:PRINTED])
    if ran["error"] != "":
        say(error=str(ran["error"])[:TEXT])
        return
    program = compile(text, "check.py", "exec")
    wanted = names_in(program)
    everything = wanted & {"globals", "locals", "vars", "dir", "eval", "exec"}
    named = peer.unpack(ran["names"])(None if everything else sorted(wanted)) if wanted else {}
    # Whatever the other side sends, a builtin is this side's own.
    namespace = {name: value for name, value in named.items() if not hasattr(builtins, name) and name != "__builtins__"}
    namespace.update(__name__="__main__", printed=printed)
    if everything or "functions" in wanted:
        namespace["functions"] = peer.unpack(ran["functions"])
    exec(program, namespace)
    say(right=True)


def used():
    """Bytes of memory that all processes here have."""
    total = 0
    for name in os.listdir(PROC):
        if name.isdigit() and name != "1":
            try:
                with open(os.open(f"{name}/statm", os.O_RDONLY, dir_fd=PROC)) as file:
                    total += int(file.read().split()[1])
            except (OSError, IndexError):
                pass  # it has ended
    return total * resource.getpagesize()


def wait(child, alone):
    """Wait for the child, and end it when all processes together have more memory than they may."""
    if not alone or not has_proc:
        os.waitpid(child, 0)
        return
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if signal.sigtimedwait([signal.SIGCHLD], 0.02) is None and used() > MEMORY:
            os.kill(child, signal.SIGKILL)


def clear(child, alone):
    """Kill what the child has left, and tell whether it left anything."""
    try:
        os.kill(-1, signal.SIGKILL) if alone else os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return True


def main(side):
    global has_proc
    alone = os.getpid() == 1
    try:
        has_proc = alone and bool(os.listdir(PROC))
    except OSError:
        has_proc = False
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what process 1 does not handle, its namespace's processes cannot do to it
    say = lines(RESULT)
    say(python=sys.version.split()[0])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    gc.freeze()
    mode = os.stat(".").st_mode
    poll = select.poll()
    poll.register(CASE, select.POLLIN)
    while any(events & select.POLLIN for _, events in poll.poll()):
        child = os.fork()
        if child == 0:
            try:
                if not alone:
                    os.setsid()
                os.closerange(TO + 1, 1024)
                say(process=os.getpid())
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
                limit(alone)
                side()
            finally:
                os._exit(0)
        wait(child, alone)
        left = clear(child, alone)
        if side is answer:
            os.write(TO, b"\n")  # ends a line that the child has begun
            lines(TO)(gone=True)
            say(left=left, clean=os.listdir() == [] and os.stat(".").st_mode == mode)
        else:
            say(ended=True)


if __name__ == "__main__":
    main({"answer": answer, "check": check}[sys.argv[1]])
