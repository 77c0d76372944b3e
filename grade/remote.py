"""Objects of one process in another, for a check that must not share a process with the code that it checks.

A Peer talks JSON lines with the Peer of the other process. Data go over as data: numbers, text, containers of data, a
few types of the standard library. Anything else stays where it is, and the other side gets a Remote, which asks for what
is done with it.

The side of the check must learn nothing from a value that the code made but data. So a comparison of a Remote with data
is never the other side's to decide: it is one with the data that the object is, such as a named tuple's items, or the
two differ. Arithmetic of a Remote with data may give another Remote, and that one no number. Objects of the check are functions to
the other side, which can call them and nothing else.
"""

import builtins
import collections
import dataclasses
import datetime
import decimal
import fractions
import io
import json
import math
import operator
import os
import sys
import types

MESSAGE = 8 << 20  # the longest line that is read, in bytes


class Ended(BaseException):
    """The other process has ended."""


# Types that go over as their name and what makes them again.
MADE = {
    **dict.fromkeys((bytes, bytearray, tuple, set, frozenset), lambda v: (list(v),)),
    **dict.fromkeys((dict, collections.OrderedDict), lambda v: ([list(item) for item in v.items()],)),
    **dict.fromkeys((range, slice), lambda v: (v.start, v.stop, v.step)),
    complex: lambda v: (v.real, v.imag),
    collections.Counter: lambda v: (dict(v),),
    collections.deque: lambda v: (list(v), v.maxlen),
    decimal.Decimal: lambda v: (str(v),),
    fractions.Fraction: lambda v: (v.numerator, v.denominator),
    datetime.timedelta: lambda v: (v.days, v.seconds, v.microseconds),
    datetime.date: lambda v: (v.year, v.month, v.day),
    datetime.time: lambda v: (v.hour, v.minute, v.second, v.microsecond),
    datetime.datetime: lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond),
}
DATA = (list, str, int, float)  # those that go over as they are
NAMED = {kind.__name__: kind for kind in MADE}
TYPES = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
TYPE_NAMES = {value: name for name, value in TYPES.items()}
SHOWN = (types.FunctionType, types.MethodType, types.CodeType, types.GeneratorType)  # what isinstance says of a Remote
CLASSES = {**TYPES, **NAMED, **{kind.__name__: kind for kind in SHOWN}}
CHANGED = (list, dict, set, bytearray)  # arguments that a function may change, and that are then sent back

# What a Peer may be asked to do with an object.
DOES = {name: getattr(operator, name) for name in (
    "eq ne lt le gt ge add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor neg pos invert index "
    "getitem setitem delitem contains").split()}
DOES.update((function.__name__, function) for function in (
    abs, bool, bytes, complex, delattr, dir, divmod, float, format, getattr, hash, int, isinstance, issubclass, iter, len,
    next, repr, reversed, round, setattr, str, math.ceil, math.floor, math.trunc))
DOES["call"] = lambda function, /, *args, **named: function(*args, **named)
DOES["enter"] = lambda manager: type(manager).__enter__(manager)
DOES["leave"] = lambda manager, *error: type(manager).__exit__(manager, *error)


def base_of(kind):
    """The type of data that a class is one of, or None."""
    return next((k for k in kind.__mro__ if k in MADE or k in DATA), None)


class Peer:
    """One end. serve says which operations the other side may ask for."""

    def __init__(self, reading, writing, serve):
        self.reading, self.writing, self.serve = reading, writing, serve
        self.received = b""
        self.objects = []  # that the other side knows, by their number
        self.numbers = {}  # of objects, by id
        self.errors = {}  # exception classes of the other side

    def send(self, message):
        line = memoryview(json.dumps(message).encode() + b"\n")
        while line:
            line = line[os.write(self.writing, line):]

    def line(self):
        pieces, size = [self.received], len(self.received)
        while b"\n" not in pieces[-1]:
            piece = os.read(self.reading, 1 << 16)
            size += len(piece)
            if not piece or size > MESSAGE:
                raise Ended("gave too much" if piece else "ended without a result")
            pieces.append(piece)
        line, _, self.received = b"".join(pieces).partition(b"\n")
        return line

    def receive(self):
        while not (line := self.line()):
            pass
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("not a message")
        if "gone" in message:
            raise Ended("ended without a result")
        return message

    def number(self, value):
        """The number under which the other side knows an object."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return self.numbers[id(value)]

    def pack(self, value):
        kind = type(value)
        if kind is int and value.bit_length() > 64:
            return {"int": hex(value)}  # JSON's digits are limited
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.pack(v) for v in value]
        if kind in MADE:
            if getattr(value, "tzinfo", None) is None:
                return {"new": kind.__name__, "of": [self.pack(v) for v in MADE[kind](value)]}
        if is_remote(value):
            return {"yours": number_of(value)}
        if isinstance(value, type):
            if value in TYPE_NAMES:
                return {"type": TYPE_NAMES[value]}
            if value in self.errors.values():
                return {"yours": next(n for n, e in self.errors.items() if e is value)}
            if issubclass(value, BaseException):
                bases = [self.pack(b) for b in value.__bases__]
                return {"error": self.number(value), "name": value.__name__, "bases": bases}
            return {"class": self.number(value)}
        if kind is dataclasses.Field and self.serve is DOES:
            known = [self.pack(getattr(value, name, None)) for name in ("name", "type", "init", "repr", "compare")]
            return {"field": known, "is": str(getattr(value._field_type, "name", ""))}
        if isinstance(value, type(sys)):
            return {"module": value.__name__, "object": self.number(value)}
        base = base_of(kind) or kind
        return {"object": self.number(value), "base": base.__name__ if CLASSES.get(base.__name__) is base else None}

    def unpack(self, value):
        if isinstance(value, list):
            return [self.unpack(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "int" in value:
            return int(value["int"], 16)
        if "new" in value:
            kind, of = NAMED[value["new"]], [self.unpack(v) for v in value["of"]]
            if kind is range or kind is slice:
                return kind(*of)
            if kind in (bytes, bytearray) and len(of[0]) > MESSAGE:
                raise ValueError("too long")
            return kind(*of)
        if "yours" in value:
            return self.objects[value["yours"]]
        if "type" in value:
            return TYPES[value["type"]]
        if "error" in value:
            return self.error_class(value)
        if "field" in value:
            return field(*[self.unpack(v) for v in value["field"]], value["is"])
        if "module" in value and value["module"] in sys.modules:
            return sys.modules[value["module"]]
        if "class" in value:
            return RemoteClass(self, value["class"], "type")
        return Remote(self, value["object"], value.get("base"))

    def error_class(self, value):
        """An exception class that stands for one of the other side, so that it can be caught and raised."""
        number = value["error"]
        if number not in self.errors:
            peer = self

            def __init__(self, *args, **named):
                BaseException.__init__(self, *args)
                self._remote = peer.ask("call", Remote(peer, number), *args, **named)

            bases = [self.unpack(b) for b in value["bases"]]
            bases = tuple(b for b in bases if isinstance(b, type) and issubclass(b, BaseException))
            self.errors[number] = type(str(value["name"]), bases or (Exception,), {
                "__init__": __init__, "__str__": lambda self: str(self._remote),
                "__getattr__": lambda self, name: getattr(self.__dict__["_remote"], name)})
        return self.errors[number]

    def ask(self, what, *args, **named):
        """Have the other side do something, and serve it until it has."""
        sent = [self.pack(a) for a in args]
        self.send({"do": what, "args": sent, "named": {k: self.pack(v) for k, v in named.items()}})
        while True:
            message = self.receive()
            if "do" in message:
                self.answer(message)
                continue
            if message.get("printed"):
                sys.stdout.write(message["printed"])
            for index, value in message.get("changed", []):
                change(args[index], self.unpack(value))
            if "raised" in message:
                raise self.raised(message["raised"])
            return self.unpack(message["value"])

    def raised(self, message):
        kind, instance = self.unpack(message["class"]), self.unpack(message["object"])
        if not (isinstance(kind, type) and issubclass(kind, BaseException)) or issubclass(kind, Ended):
            raise ValueError("not an exception")
        error = kind.__new__(kind)
        if kind in TYPE_NAMES:
            try:
                error.__init__(*self.unpack(message["args"]))
            except Exception:
                error.args = (message["text"],)
        else:
            error.args = tuple(self.unpack(message["args"]))
            error._remote = instance
        return error

    def answer(self, message):
        """Do what the other side asks for, and say what came of it."""
        printed = sys.stdout.tell() if self.serve is DOES and isinstance(sys.stdout, io.StringIO) else None
        reply = {}
        args = [self.unpack(a) for a in message["args"]]
        try:
            named = {k: self.unpack(v) for k, v in message["named"].items()}
            reply["value"] = self.pack(self.serve[message["do"]](*args, **named))
        except Ended:
            raise
        except BaseException as error:
            reply["raised"] = {"class": self.pack(type(error)), "object": {"object": self.number(error)},
                               "args": [self.pack(a) for a in error.args], "text": str(error)}
        if self.serve is DOES:
            changed = [[i, self.pack(a)] for i, a in enumerate(args) if type(a) in CHANGED]
            reply["changed"] = [[i, value] for i, value in changed if value != message["args"][i]]
        if printed is not None:
            sys.stdout.seek(printed)
            reply["printed"] = sys.stdout.read()
        self.send(reply)


def change(value, new):
    """Give a container the contents that the other side has given it."""
    if type(value) is not type(new) or type(value) not in CHANGED:
        raise ValueError("not a change")
    if isinstance(value, (list, bytearray)):
        value[:] = new
    else:
        value.clear()
        value.update(new)


def field(name, kind, init, shown, compare, what):
    """A field of a data class, which dataclasses.fields looks for by identity."""
    made = dataclasses.field(init=init, repr=shown, compare=compare)
    made.name, made.type, made._field_type = name, kind, getattr(dataclasses, what, None)
    return made


class Remote:
    """An object of the other side."""

    __slots__ = ("_peer", "_number", "_base", "_made", "_derived")

    def __init__(self, peer, number, base=None):
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_base", base)
        object.__setattr__(self, "_made", False)  # by a call of its class
        object.__setattr__(self, "_derived", False)  # from data of the check

    def __getattribute__(self, name):
        if name == "__class__":
            return CLASSES.get(inside(self, "_base"), type(self))
        return peer_of(self).ask("getattr", self, name)

    def __setattr__(self, name, value):
        peer_of(self).ask("setattr", self, name, value)

    def __delattr__(self, name):
        peer_of(self).ask("delattr", self, name)

    def __call__(self, /, *args, **named):
        value = peer_of(self).ask("call", self, *args, **named)
        if type(value) is Remote and type(self) is RemoteClass:
            object.__setattr__(value, "_made", True)
        return value

    def __contains__(self, item):
        if inside(self, "_made") or is_remote(item):
            return truth(peer_of(self).ask("contains", self, item))
        return any(item is value or item == value for value in self)

    def __exit__(self, kind, error, trace):
        return peer_of(self).ask("leave", self, kind, error and str(error), None)

    def __hash__(self):
        return peer_of(self).ask("hash", self)


class RemoteClass(Remote):
    """A class of the other side."""

    __slots__ = ()

    def __instancecheck__(self, value):
        return is_remote(value) and truth(peer_of(self).ask("isinstance", value, self))

    def __subclasscheck__(self, kind):
        return truth(peer_of(self).ask("issubclass", kind, self))


inside = object.__getattribute__


def peer_of(remote):
    return inside(remote, "_peer")


def number_of(remote):
    return inside(remote, "_number")


def is_remote(value):
    return type(value) in (Remote, RemoteClass)


def truth(value):
    """value, which must be True or False: nothing else is asked what it means."""
    if value is not True and value is not False:
        raise TypeError("neither True nor False")
    return value


def data_of(remote):
    """The data that an object is, if its class is one of data, or else None."""
    kind = CLASSES.get(inside(remote, "_base"))
    return peer_of(remote).ask("data", remote) if kind in DATA or kind in MADE else None


def as_data(value):
    """An object's data, as its type of data makes it and not as the class that may have changed how."""
    kind = base_of(type(value))
    if kind in DATA:
        return kind.__getitem__(value, slice(None)) if kind in (str, list) else kind.__add__(value, 0)
    return dict(dict.items(value)) if issubclass(kind, dict) else kind(*MADE[kind](value))


DOES["data"] = as_data


def comparison(name):
    def compare(self, other):
        if is_remote(other):
            return truth(peer_of(self).ask(name, self, other))
        data = data_of(self)
        return NotImplemented if data is None else getattr(operator, name)(data, other)
    return compare


def arithmetic(name, swapped):
    what = name + "_" if name in ("and", "or") else name

    def compute(self, other):
        data = None if is_remote(other) else data_of(self)
        if data is not None:
            return DOES[what](*((other, data) if swapped else (data, other)))
        value = peer_of(self).ask(what, *((other, self) if swapped else (self, other)))
        if not is_remote(other) or inside(self, "_derived") or inside(other, "_derived"):
            if type(value) is not Remote:
                raise TypeError("arithmetic of an object of the answer with data gave data")
            object.__setattr__(value, "_derived", True)
        return value
    return compute


def conversion(name):
    def convert(self, *args):
        if inside(self, "_derived"):
            raise TypeError("an object of the answer has no value of its own here")
        return peer_of(self).ask(name, self, *args)
    return convert


def plain(name):
    def do(self, *args):
        return peer_of(self).ask(name, self, *args)
    return do


for _name in "eq ne lt le gt ge".split():
    setattr(Remote, f"__{_name}__", comparison(_name))
for _name in "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor divmod".split():
    setattr(Remote, f"__{_name}__", arithmetic(_name, False))
    setattr(Remote, f"__r{_name}__", arithmetic(_name, True))
for _name in "abs bool int float complex round index ceil floor trunc neg pos invert".split():
    setattr(Remote, f"__{_name}__", conversion(_name))
for _name in "str repr format bytes len iter next reversed getitem setitem delitem enter dir".split():
    setattr(Remote, f"__{_name}__", plain(_name))
