"""Run code, and checks of it, in processes that share nothing. Started twice by grade.go, once to be each side:

    answer   runs the code and then does what the other side asks of its functions and classes
    check    runs the check, and says what came of it

This process only waits for cases. For each it forks a process that starts the one that does the work, waits for it, and
kills what that has left. Neither reads a case itself, so that no later one finds it in memory. A case comes as four
descriptors through the socket 0, and they become

    0   the case, a line of JSON: the text of the code, or of the check
    1   lines of JSON: {"process": number of the process that does the work}; then, of answer, {"left": bool} when all of it
        has ended; of check {"parses"}, {"printed"}, {"error"}, {"right"}, each if known, and {"ended": true}
    3   messages from the other side
    4   messages to the other side

Before the first case, this process writes {"python": version} to 1. If it gets another argument, the system calls of
internal/sandbox/fresh_linux.go, each case has a folder and processes of its own. Needs os.fork, so a Unix.
"""

import ast
import fcntl
import gc
import resource
import signal
import socket
import struct
import warnings

# Modules that answers and checks often import, loaded once so that no child has to.
for _name in "bisect calendar contextlib dataclasses functools heapq itertools re statistics string".split():
    __import__(_name)

CASE, RESULT, PROBLEM, FROM, TO = range(5)
REFUSED = 125  # the exit status if there is no sandbox: see internal/sandbox
SECONDS = 3  # of the processor, a process; grade.go ends a case after less time than that
MEMORY = 512 << 20  # of one process; grade.go limits the memory of all together
FILES = 64  # that a process has open, with its pipes and pairs of sockets
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
    limits = {"CPU": SECONDS, "FSIZE": 0, "NOFILE": FILES, "AS": MEMORY, "MEMLOCK": 0, "MSGQUEUE": 0,
              "SIGPENDING": FILES}
    if alone:  # or else all processes of the user would count
        limits["NPROC"] = PROCESSES
    else:  # or else internal/sandbox has set it
        limits["CORE"] = 0
    for name, most in limits.items():
        try:
            which = getattr(resource, "RLIMIT_" + name)
            hard = resource.getrlimit(which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
        except (AttributeError, ValueError, OSError):
            if alone:
                raise  # macOS does not have all of them


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


def receive(control):
    """Make the next case's descriptors this process's own, and tell whether there is a next case."""
    data, rights, _, _ = control.recvmsg(1, socket.CMSG_SPACE(4 * struct.calcsize("i")))
    if not data:
        return False
    for descriptor, target in zip(struct.unpack("4i", rights[0][2]), (CASE, RESULT, FROM, TO)):
        os.dup2(descriptor, target)
        os.close(descriptor)
    return True


def forget():
    """Close the descriptors of a case."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (CASE, RESULT, FROM, TO):
        os.dup2(null, descriptor)
    os.close(null)


def system_call(number, *arguments):
    """A function that makes a system call. Its own arguments come before these."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    kept = []

    def pointer(content):
        kept.append(ctypes.create_string_buffer(content))
        return kept[-1]

    def argument(value):
        if isinstance(value, int):
            return ctypes.c_long(value)
        if isinstance(value, str):
            return pointer(value.encode())
        if "bytes" in value:
            return pointer(bytes.fromhex(value["bytes"]))
        code = bytes.fromhex(value["filter"])
        return pointer(struct.pack("HP", len(code) // 8, ctypes.addressof(pointer(code))))

    last = [argument(value) for value in arguments]

    def make(*first, kept=kept):
        result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, first), *last)
        if result < 0:
            raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
        return result

    return make


class Namespaces:
    """The namespaces of a case: a folder and processes no other case has. Without a plan, it has none of its own."""

    def __init__(self, plan):
        self.apart = bool(plan)
        self.drop = []
        if plan:
            plan = json.loads(plan)
            self.fork, back = system_call(*plan["fork"]), system_call(*plan["back"])
            own = system_call(*plan["own"])()
            self.back = lambda: back(own)
            self.enter, self.drop = ([system_call(*step) for step in plan[name]] for name in ("enter", "drop"))


def start(work):
    """Fork a process that does work and ends."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(PROBLEM, f"restyle-sandbox: {describe(error)}\n".encode())
            os._exit(REFUSED)
        os._exit(0)
    return child


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


def run(side, alone, namespaces):
    """Have a process do the work of a side, and tell what it has left. Without a side, there is no work."""
    def work():
        os.closerange(TO + 1, 1024)
        if not alone:
            os.setsid()
        limit(alone)
        for step in namespaces.drop:
            step()
        if side:
            lines(RESULT)(process=os.getpid())
            try:
                side()
            finally:
                os._exit(0)

    child = start(work)
    _, status = os.waitpid(child, 0)
    left = clear(child, alone)
    if side is answer:
        os.write(TO, b"\n")  # ends a line that the child has started
        lines(TO)(gone=True)
        lines(RESULT)(left=left)
    elif side:
        lines(RESULT)(ended=True)
    elif status:
        os._exit(REFUSED)


def run_apart(side, alone, namespaces):
    """Do what run does, in a process of new namespaces if each case has its own."""
    def work():
        for step in namespaces.enter:
            step()
        run(side, alone, namespaces)

    if not namespaces.apart:
        run(side, alone, namespaces)
        return
    namespaces.fork()
    child = start(work)
    namespaces.back()
    if os.waitpid(child, 0)[1]:  # the next could not enter them either
        os._exit(REFUSED)


def main(side, plan=None):
    alone = os.getpid() == 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what process 1 does not handle, its namespace's processes cannot do to it
    control = socket.socket(fileno=fcntl.fcntl(CASE, fcntl.F_DUPFD, TO + 1))
    for descriptor in FROM, TO:
        os.dup2(PROBLEM, descriptor)  # so that no other file gets the number
    namespaces = Namespaces(plan)
    run_apart(None, alone, namespaces)
    lines(RESULT)(python=sys.version.split()[0])
    gc.freeze()
    forget()
    while receive(control):
        run_apart(side, alone, namespaces)
        forget()


if __name__ == "__main__":
    main({"answer": answer, "check": check}[sys.argv[1]], *sys.argv[2:])
