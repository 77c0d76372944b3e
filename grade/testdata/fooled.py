# What a check can do with values that an answer made in the other process.

#### data of all types
import collections, datetime, decimal, fractions
def same(x): return x
values = [None, True, 1, -2**70, 1.5, float("inf"), "a\ud800", b"\0\xff", bytearray(b"x"), 1j, (1, (2,)), {1, 2}, frozenset([3]), {"a": [1], (1, 2): None},
          range(1, 9, 2), slice(1, 2), decimal.Decimal("1.10"), fractions.Fraction(1, 3), datetime.date(2024, 2, 29), datetime.timedelta(1, 2, 3),
          datetime.datetime(2024, 1, 1, 5), collections.Counter("aab"), collections.OrderedDict(a=1), collections.deque([1, 2], 2), int, [[]]]
## check
import collections, datetime, decimal, fractions
expected = [None, True, 1, -2**70, 1.5, float("inf"), "a\ud800", b"\0\xff", bytearray(b"x"), 1j, (1, (2,)), {1, 2}, frozenset([3]), {"a": [1], (1, 2): None},
          range(1, 9, 2), slice(1, 2), decimal.Decimal("1.10"), fractions.Fraction(1, 3), datetime.date(2024, 2, 29), datetime.timedelta(1, 2, 3),
          datetime.datetime(2024, 1, 1, 5), collections.Counter("aab"), collections.OrderedDict(a=1), collections.deque([1, 2], 2), int, [[]]]
assert values == expected and [type(v) for v in values] == [type(v) for v in expected]
assert same(expected) == expected and [type(v) for v in same(expected)] == [type(v) for v in expected]

#### a class
class Point:
    """A point."""
    n = 0
    def __init__(self, x, y=0): self.x, self.y = x, y
    def __eq__(self, o): return (self.x, self.y) == (o.x, o.y)
    def __hash__(self): return hash(self.x)
    def __lt__(self, o): return self.x < o.x
    def __add__(self, o): return Point(self.x + o.x, self.y + o.y)
    def __mul__(self, k): return Point(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __matmul__(self, o): return self.x * o.x + self.y * o.y
    def __neg__(self): return Point(-self.x, -self.y)
    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5
    def __len__(self): return 2
    def __iter__(self): return iter((self.x, self.y))
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __setitem__(self, i, v): setattr(self, "xy"[i], v)
    def __contains__(self, v): return v in (self.x, self.y)
    def __str__(self): return f"({self.x}, {self.y})"
    def __repr__(self): return f"Point{self}"
    def __format__(self, spec): return spec + str(self)
    def __call__(self, k): return self.x + k
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): self.x = kind; return True
    def __bool__(self): return self.x != 0
    @property
    def both(self): return self.x + self.y
    @classmethod
    def origin(cls): return cls(0, 0)
    @staticmethod
    def two(): return 2
## check
p, q = Point(3, 4), Point(y=4, x=3)
assert p == q and p != Point(1) and not p == Point(1) and p is not q and isinstance(p, Point) and not isinstance(3, Point)
assert Point(1) < p and sorted([p, Point(1)])[0].x == 1 and max(Point(1), p).x == 3
assert (p + q).x == 6 and (p * 2).y == 8 and (2 * p).y == 8 and p @ q == 25 and (-p).x == -3 and abs(p) == 5.0 and p * 2 == Point(6, 8)
assert len(p) == 2 and list(p) == [3, 4] and p[1] == 4 and tuple(reversed(list(p))) == (4, 3) and 4 in p and 9 not in p
p[0] = 30
assert p.x == 30 and str(p) == "(30, 4)" and repr(p) == "Point(30, 4)" and f"{p:>}" == ">(30, 4)" and p(1) == 31
p.x = 3
assert p.both == 7 and Point.origin().x == 0 and Point.two() == 2 and Point.n == 0 and Point.__name__ == "Point" and Point.__doc__ == "A point."
assert len({p, q}) == 1 and p in [q] and bool(p) and not Point(0) and callable(Point) and hasattr(p, "x") and not hasattr(p, "z")
assert getattr(p, "z", 7) == 7 and vars(p) == {"x": 3, "y": 4} and issubclass(Point, object) and isinstance(Point, type)
x, y = p
assert (x, y) == (3, 4)
with p as same:
    assert same.x == 3
    raise ValueError("no")
assert p.x is ValueError
del p.x
assert not hasattr(p, "x")
assert p != 3 and not p == "(3, 4)" and [p] != [3] and p is not None

#### inheritance
class A:
    def f(self): return 'a'
class B(A):
    pass
## check
assert B().f() == 'a' and issubclass(B, A) and not issubclass(A, B) and isinstance(B(), A) and B.__bases__ == (A,) or B.__bases__[0] is not None

#### exceptions
class TooLarge(ValueError):
    def __init__(self, value, limit=9):
        super().__init__(f"{value} is more than {limit}")
        self.value = value
class Odd(TooLarge):
    def __str__(self): return "odd"
def check(n):
    if n == 11: raise Odd(n)
    if n > 9: raise TooLarge(n)
    if n < 0: raise KeyError("n")
    return {}[n] if n == 1 else 1 / n
## check
assert issubclass(Odd, TooLarge) and issubclass(Odd, ValueError)
for n, kind in [(10, TooLarge), (11, Odd), (11, TooLarge), (10, ValueError), (0, ZeroDivisionError), (1, KeyError), (-1, LookupError)]:
    try: check(n)
    except kind as error: assert type(error) is kind or n in (11, 10, -1)
    else: assert False
try: check(10)
except TooLarge as error: assert error.value == 10 and str(error) == "10 is more than 9" and error.args == ("10 is more than 9",)
try: check(11)
except Odd as error: assert str(error) == "odd" and isinstance(error, TooLarge)
try: check(-1)
except KeyError as error: assert error.args == ("n",)
assert TooLarge(5).value == 5 and str(TooLarge(5, limit=4)) == "5 is more than 4"
try: raise TooLarge(5)
except ValueError as error: assert error.value == 5
assert check(4) == 0.25

#### arguments that change
def add(items, key, value): items.append(value); key["x"] = value; return items
def sort(items): items.sort()
def fill(s, b): s.add(1); b += b"x"
## check
items, key, s, b = [3], {}, set(), bytearray()
assert add(items, key, 1) == [3, 1] and items == [3, 1] and key == {"x": 1}
sort(items)
fill(s, b)
assert items == [1, 3] and s == {1} and b == b"x"

#### functions of the check
import functools
def apply(f, *xs): return [f(x) for x in xs]
def twice(f):
    @functools.wraps(f)
    def inner(*args, **named): return 2 * f(*args, **named)
    return inner
def safe(f):
    try: return f()
    except ValueError as error: return str(error)
def first(items, key): return min(items, key=key)
## check
seen = []
def note(x): seen.append(x); return x + 1
assert apply(note, 1, 2) == [2, 3] and seen == [1, 2]
@twice
def three(a, b=1): return a + b
assert three(2) == 6 and three(1, b=4) == 10
def no(): raise ValueError("no")
assert safe(no) == "no"
assert first([3, -4, 2], key=abs) == 2 and first([3, -4], key=lambda x: x) == -4
assert apply(apply, note) if False else True

#### generators and closures
def count(n):
    for i in range(n): yield i
def adder(n): return lambda x: x + n
def memo():
    kept = {}
    def f(x): kept[x] = kept.get(x, 0) + 1; return kept[x]
    return f
## check
g = count(3)
assert next(g) == 0 and list(g) == [1, 2] and list(count(0)) == [] and sum(count(4)) == 6 and [a + b for a, b in zip(count(2), count(2))] == [0, 2]
try: next(g)
except StopIteration: pass
else: assert False
assert adder(2)(3) == 5 and list(map(adder(1), [1, 2])) == [2, 3]
f, g = memo(), memo()
assert (f(1), f(1), g(1)) == (1, 2, 1)

#### kinds of data
import collections, enum
Pair = collections.namedtuple("Pair", "a b")
class Colour(enum.Enum): RED = 1; BLUE = 2
class Level(enum.IntEnum): LOW = 1; HIGH = 2
class Names(list):
    def first(self): return self[0]
class Text(str): pass
def pair(): return Pair(1, 2)
def names(): return Names(["x", "y"])
def text(): return Text("abc")
def counts(s): return collections.Counter(s)
## check
p = pair()
assert p == (1, 2) and p.a == 1 and p[1] == 2 and isinstance(p, tuple) and len(p) == 2 and p != (1, 3) and tuple(p) == (1, 2)
assert Colour.RED != Colour.BLUE and Colour.RED == Colour(1) and Colour.RED.value == 1 and Colour["BLUE"].name == "BLUE" and len(Colour) == 2 and [c.name for c in Colour] == ["RED", "BLUE"]
assert Level.HIGH > Level.LOW and Level.HIGH == 2 and Level.LOW < 2 and Level.LOW + 1 == 2 and 1 + Level.LOW == 2
n = names()
assert n == ["x", "y"] and n.first() == "x" and isinstance(n, list) and n[1:] == ["y"] and n + ["z"] == ["x", "y", "z"]
assert text() == "abc" and text().upper() == "ABC" and text() + "d" == "abcd"
assert counts("aab") == {"a": 2, "b": 1} and counts("a").most_common(1) == [("a", 1)]

#### a data class
import dataclasses
@dataclasses.dataclass(order=True, frozen=True)
class Item:
    name: str
    price: float = 0.0
    tags: list = dataclasses.field(default_factory=list, compare=False)
## check
import dataclasses
assert dataclasses.is_dataclass(Item) and [f.name for f in dataclasses.fields(Item)] == ["name", "price", "tags"]
assert Item("a") < Item("b") and Item("a", 2) == Item("a", 2.0) and Item("a").tags == [] and repr(Item("a")) == "Item(name='a', price=0.0, tags=[])"
try: Item("a").name = "b"
except dataclasses.FrozenInstanceError: pass
except AttributeError: pass
else: assert False

#### what a function looks like
import functools
@functools.lru_cache
def fib(n: int, *, kind="x") -> int:
    "Fibonacci."
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def plain(a, b=2): return a
## check
import inspect
assert "fib" in getattr(fib, "__wrapped__", fib).__code__.co_names and fib.__doc__ == "Fibonacci." and fib(30) == 832040
assert plain.__name__ == "plain" and plain.__defaults__ == (2,) and plain.__code__.co_varnames == ("a", "b") and fib.cache_info().hits > 0
assert inspect.isfunction(plain) and list(inspect.signature(plain).parameters) == ["a", "b"]
assert functions[0](5) == 5 and functions[1](7) == 7 and len(functions) == 2

#### printing
def hello(name): print('hello', name)
def ask(f): print('a'); f(); print('b')
print('start')
## check
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as out:
    hello("you"); print("and"); hello("me")
assert out.getvalue() == "hello you\nand\nhello me\n" and printed == "start\n"

#### all names
x, y = 1, [2]
import math
def f(): return x
class C: pass
c = C()
## check
g = globals()
assert g['x'] == 1 and g['y'] == [2] and g['f']() == 1 and [v for v in g.values() if isinstance(v, C)] and math.pi > 3 and 'z' not in g

#### state between calls
total = 0
def add(n):
    global total
    total += n
    return total
## check
assert add(1) == 1 and add(2) == 3

#### threads
import threading
def run():
    out = []
    ts = [threading.Thread(target=out.append, args=(i,)) for i in range(4)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    return sorted(out)
## check
assert run() == [0, 1, 2, 3]

#### asyncio
import asyncio
async def f():
    await asyncio.sleep(0)
    return 5
def run(): return asyncio.run(f())
## check
assert run() == 5

#### a child that is waited for
import os, sys
def run():
    pid = os.fork()
    if pid == 0: os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
## check
assert run() == 7
