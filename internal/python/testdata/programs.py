Programs for the tests, one after each line of four number signs and a name. All are Python 3.11.
#### greeting
name = "World"
print(f"Hello, {name}!")
#### factorial
def factorial(n):
    """Return n! for n >= 0."""
    if n < 2:
        return 1
    return n * factorial(n - 1)


print(factorial(10))
#### fibonacci generator
def fibonacci(limit):
    a, b = 0, 1
    while a < limit:
        yield a
        a, b = b, a + b

print(list(fibonacci(100)))  # up to 89
#### binary search
from typing import Optional, Sequence

def find(items: Sequence[int], wanted: int) -> Optional[int]:
    low, high = 0, len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        if items[middle] == wanted:
            return middle
        elif items[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return None
#### bubble sort
def bubble(values):
	n = len(values)
	for i in range(n):
		for j in range(0, n - i - 1):
			if values[j] > values[j + 1]:
				values[j], values[j + 1] = values[j + 1], values[j]
	return values
#### stack class
class Stack:
    '''A last-in, first-out list.'''

    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        if not self._items:
            raise IndexError("pop from an empty stack")
        return self._items.pop()

    def __len__(self):
        return len(self._items)
#### word count
import collections
import re

text = """It was dark.
It was "very" dark."""
words = re.findall(r"\b\w+\b", text.lower())
for word, n in collections.Counter(words).most_common(2):
    print(word, n, sep=": ")
#### comprehensions
squares = [x ** 2 for x in range(10) if x % 2 == 0]
table = {k: v for k, v in zip("abc", (1, 2, 3))}
unique = {len(w) for w in ["a", "bb", "cc"]}
total = sum(x * y for x in range(3) for y in range(3) if x != y)
matrix = [[row[i] for row in [[1, 2], [3, 4]]] for i in range(2)]
#### numbers
values = [0, 00, 7, 1_000_000, 0xFF, 0Xdead_beef, 0o17, 0b1010_1010, 3.14, .5, 5., 1e10, 1E-5, 2.5e+3, 10j, 1.5J, 1_0.0_1e1_0]
if 1if 0else 2: x = 0xfor 1
#### strings
a = 'single' "double" '''triple
over lines''' """another
one"""
b = r'\raw\n' + b'bytes\x00'.decode() + rb'\x' .decode() + Rb"\d".decode() + u'text'
c = 'it\'s' + "\"q\"" + '\\' + '\
joined' + '\101\x41\u0041\U00000041\N{LATIN SMALL LETTER A}'
d = ''
e = """ends in a quote\""""
#### f-strings
width, value, name = 10, 3.14159, 'pi'
print(f"{name}={value:.3f}", F'{name!r:>{width}}', fr'\{name}\d', rf"{value}" 'tail', f"{{literal}} {value:{width}.{2}}")
print(f'{value=}', f"{value = :.2f}", f"{'nested' + 'x'[0:1] if True else ''}" if False else f"{ {'a': 1}['a'] }")
print(f'''multi
{name}
line {value!s}''', f"{name!a}", f"{lambda_ if (lambda_ := 3) else 1:d}", f"{value!r:^{width}}", f"{width:%}")
print(f"{(lambda x: x + 1)(2)}", f"a" "b" f"{1}", f"", f"{x if (x := 2) != 3 else 4}", f"\N{BULLET} {1}\t{2}")
#### lambda and map
double = lambda x: x * 2
nothing = lambda: None
add = lambda a, b=1, *rest, key=None, **more: a + b
print(list(map(lambda pair: pair[0] + pair[1], [(1, 2), (3, 4)])), sorted("cba", key=lambda c: -ord(c)))
#### decorators
import functools
import time

def timed(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        try:
            return func(*args, **kwargs)
        finally:
            print(f"{func.__name__}: {time.perf_counter() - start:.6f}")
    return wrapper

@timed
def work(n: int = 1_000) -> int:
    return sum(range(n))

class Circle:
    @property
    def area(self): return 3.14 * self.r ** 2
    @area.setter
    def area(self, value): self.r = (value / 3.14) ** .5
    @staticmethod
    def unit(): return Circle()
    @classmethod
    async def make(cls): return cls()
#### exceptions
class ConfigError(ValueError):
    """Raised for a bad setting."""

def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError as e:
        raise ConfigError(f"no file {path}") from e
    except (OSError, UnicodeDecodeError):
        raise
    except:
        pass
    else:
        print("fine")
    finally:
        print("done")
#### exception groups
try:
    raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
except* ValueError as group:
    print(group.exceptions)
except* (TypeError, KeyError):
    pass
#### with statements
with open("a") as a, open("b") as b:
    pass
with (open("a") as a, open("b") as b,):
    pass
with (open("a")) as a: pass
with (yield_ := open("a")): pass
with (open("a"), open("b")): pass
with open("a") as (x, y), open("b") as z[0]: pass
with (a, b) as c: pass
with (open)("a").b as d: pass
#### async
import asyncio

async def fetch(n):
    await asyncio.sleep(0)
    return n

async def main():
    results = await asyncio.gather(*(fetch(i) for i in range(3)))
    async with lock as l, other:
        pass
    async for item in stream():
        print(item)
    else:
        print("end")
    values = [x async for x in stream() if await ok(x)]
    return [await f for f in results] or -await fetch(1) ** 2

asyncio.run(main())
#### match
def describe(thing):
    match thing:
        case 0 | -1 | 2.5:
            return "number"
        case "a" "b" | b'c' | None | True:
            return "constant"
        case [x, y, *rest] if x > y:
            return rest
        case (1, [2, _]) | [1, 2,]:
            return "nested"
        case {"kind": "circle", "r": r, **others}:
            return r
        case {}:
            return "empty"
        case Point(x=0, y=0) | shapes.Point(0, y=_):
            return "origin"
        case str() as s:
            return s
        case 1 + 2j | -1 - 3J:
            return "complex"
        case Colour.RED:
            return "red"
        case *start, last:
            return last
        case ():
            return ()
        case (only):
            return only

match a, b:
    case _: pass
match *a, b:
    case x, : pass
match -x:
    case 1: pass
#### soft keywords as names
match = 1
case = type = _ = match
match[0] = 1
match(1, 2)
print(match, case, type(_))
match.x = type
match * 2
match: int = 3
type = 5
type.x, case.y = 1, 2
match -1
match (case)
#### walrus
import re
if (m := re.match(r"(\d+)", "12ab")) is not None and (n := len(m.group())) > 1:
    print(m.group(1), n)
while chunk := next(iter([]), None): print(chunk)
print(y := 5, [y := 1, y ** 2], {z := 1})
items[i := 0]
[last := x for x in range(3)]
#### unpacking
first, *middle, last = range(5)
[a, [b, *c]], (d,) = [1, [2, 3]], (4,)
x, = 1,
() = []
[] = ()
(p), [q] = 1, [2]
print(*middle, *[1, 2], sep="", **{"end": ""})
merged = {**{"a": 1}, 'b': 2, **{}}
joined = [*range(3), *"ab"], (*middle, 1), {*middle, 2}
for i, (j, *k) in []: pass
def f(): return *middle, 1
#### slices
s = "abcdef"
s[1], s[-1], s[1:], s[:2], s[:], s[::2], s[1:5:2], s[::-1], s[:, 1], s[..., None], s[1:2, ::3], s[a:b, c], s[*a], s[*a, 1], s[x:=1]
s[1:2] = []
del s[0], s.x, (a, b), [c]
#### augmented assignment
x += 1; x -= 1; x *= 2; x /= 2; x //= 2; x %= 2; x **= 2; x >>= 1; x <<= 1; x &= 1; x |= 1; x ^= 1; x @= m
x.y += 1; x[0] += yield_; (x) += 1
a = b = c = 0; d = e, f = 1, 2
#### operators
r = 1 + 2 - 3 * 4 / 5 // 6 % 7 ** 8 @ 9 << 1 >> 2 & 3 | 4 ^ 5
r = -1 + +2 - ~3 ** -4
r = not a and b or c and not (d or e)
r = a < b <= c > d >= e == f != g
r = a is b, a is not b, a in b, a not in b
r = a if b else c if d else e
r = 2 ** 3 ** 2, not not x, - - + ~ 1
r = x if not y else lambda: z if w else v
#### annotations
from __future__ import annotations
count: int = 0
name: str
items: list[dict[str, int | None]] = []
self.x: float = 1.0
table[0]: int
(paren): int = 1
pair: tuple = 1, 2
def f(a: "int", /, b: int = 1, *args: int, c: str, d: bool = False, **kwargs: object) -> tuple[int, ...]: ...
def g(a, /): ...
def h(*, a): ...
def k(a, b, /, c, *, d=1, e, **f,): ...
def m(*args: *Ts): ...
#### dataclass
from dataclasses import dataclass, field
import enum

@dataclass(frozen=True, order=True)
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)

    def __add__(self, other: "Point") -> "Point":
        return Point(self.x + other.x, self.y + other.y)

class Colour(enum.Enum):
    RED = 1
    GREEN = enum.auto()
#### class forms
class A: pass
class B(): x = 1; y = 2
class C(A, B, metaclass=type, **{}): ...
class D(*[A]):
    "doc"
class E:
    """doc""" ; x = 1
class F:
    'a' "b"
    def method(self): "not in a block"; return 1
#### scope
total = 0
def outer():
    count = 0
    def inner():
        nonlocal count
        global total, other
        count += 1; total += count
        return count
    return inner
#### imports
import os, sys as system, os.path as p
import a.b.c
from os import (path,
                sep as separator,)
from . import sibling
from .. import parent as up
from ...pkg.mod import name
from .... import x, y
from math import *
#### imports inside
def f():
    import json
    from pathlib import Path; return json, Path
#### simple statements
assert x, "message"
assert (x)
pass; pass
del a
del (b), [c]
raise
raise E
raise E from None
return_ = 1
global g
def f():
    return
    return 1, 2
    yield
    yield 1, 2
    x = yield
    y = yield from g()
    x = y = yield z
    (yield)
    print((yield x))
    await z
while True: break
for _ in (): continue
#### line joining
total = 1 + \
    2 + \
    3
call(1,
     2,   # second

     3)
data = [
    1,
        2,
  3,
]
if total \
   and data:
    pass
assert total, \
    "text"
#### comments everywhere
# leading

x = 1  # trailing
    # indented oddly
def f():  # after the colon
# at the margin
    # before the body

    return x  # end
        # deeper

# last
#### blank lines and spaces
   
x = 1   
	
if x:

    y = 2

  
    z = 3

#### nested blocks
for i in range(3):
    if i:
        while True:
            try:
                with x:
                    def f():
                        class G:
                            y = 1
                        return G
            except E:
                pass
            break
    else:
        continue
else:
    pass
print("end")
#### uneven indentation
if a:
  b = 1
  if c:
          d = 2
  else:
     e = 3
elif f:
	g = 4
else: h = 5
#### one line blocks
if x: y = 1; z = 2
elif w: pass
else: v()
for i in x: print(i)
while x: x -= 1
try: f()
except E: pass
finally: g()
with a: b
class C: d = 1
def e(): return 1
#### unicode
größe = "Straße"
π = 3.14159
名前 = "太郎 🎉"
print(größe, π, 名前, "é", 'naïve')  # commentaire: été
#### dictionaries
config = {
    "name": "x",
    'list': [1, 2, 3,],
    "nested": {"a": {"b": {}}},
    (1, 2): lambda: 0,
    **defaults,
    f"{key}": value if value else None,
}
config["name"]["x"].y(z)[0] = 1
keys = {k: [v for v in vs] for k, vs in config.items() if k not in ("a",)}
#### calls
f()
f(1)
f(1, *a, k=2, *b, **c, d=3, **e)
f(x for x in y)
f((x for x in y), 1)
f(a)(b)[c].d(e)(*f)
f(a, b,)
f(k=lambda: 1, j=x if y else z)
f(a := 1, b)
f(*a or b, **c or d)
f(await_, print)
#### prime sieve
def primes(n):
    sieve = [True] * (n + 1)
    sieve[0:2] = [False, False]
    for i in range(2, int(n ** 0.5) + 1):
        if sieve[i]:
            sieve[i * i::i] = [False] * len(sieve[i * i::i])
    return [i for i, is_prime in enumerate(sieve) if is_prime]
#### palindrome
def is_palindrome(text):
    cleaned = ''.join(ch.lower() for ch in text if ch.isalnum())
    return cleaned == cleaned[::-1]

assert is_palindrome("A man, a plan, a canal: Panama!")
#### anagrams
from collections import defaultdict

def group(words):
    groups = defaultdict(list)
    for word in words:
        groups["".join(sorted(word))].append(word)
    return [g for g in groups.values() if len(g) > 1]
#### caesar cipher
def shift(text, k):
    out = []
    for ch in text:
        if 'a' <= ch <= 'z':
            out.append(chr((ord(ch) - ord('a') + k) % 26 + ord('a')))
        elif 'A' <= ch <= 'Z':
            out.append(chr((ord(ch) - ord('A') + k) % 26 + ord('A')))
        else:
            out.append(ch)
    return ''.join(out)
#### csv report
import csv, io

source = io.StringIO("name,score\nAnn,90\nBob,85\n")
rows = list(csv.DictReader(source))
average = sum(int(r["score"]) for r in rows) / len(rows)
print("{:<10}|{:>6}".format("name", "score"))
for r in rows:
    print("%-10s|%6d" % (r['name'], int(r['score'])))
print(f"average: {average:.1f}")
#### linked list
class Node:
    __slots__ = ("value", "next")

    def __init__(self, value, next=None):
        self.value, self.next = value, next

def reverse(head):
    """Reverse in place.

    Returns the new head.
    """
    before = None
    while head:
        head.next, before, head = before, head, head.next
    return before
#### matrix
def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]

print(multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]))
#### breadth first
from collections import deque

def shortest(graph, start, goal):
    queue, seen = deque([(start, [start])]), {start}
    while queue:
        node, path = queue.popleft()
        if node == goal: return path
        for other in graph.get(node, ()):
            if other not in seen:
                seen.add(other)
                queue.append((other, path + [other]))
#### memo
from functools import lru_cache

@lru_cache(maxsize=None)
def ways(n: int) -> int:
    return 1 if n <= 1 else ways(n - 1) + ways(n - 2)
#### bank account
class Account:
    rate = 0.02

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def withdraw(self, amount):
        if amount > self.balance:
            print('Insufficient funds')
            return False
        self.balance -= amount
        return True

class Savings(Account):
    def add_interest(self):
        super().withdraw(0)
        self.balance *= 1 + self.rate
#### quiz
questions = {"2 + 2": "4", "3 * 3": "9"}
score = 0
for question, answer in questions.items():
    guess = input(question + " = ")
    if guess.strip() == answer:
        print("Right!")
        score += 1
    else:
        print("No, it is", answer)
print("You got %d of %d" % (score, len(questions)))
#### guess
import random

secret = random.randint(1, 100)
while True:
    try:
        guess = int(input('Guess: '))
    except ValueError:
        print("A number, please."); continue
    if guess < secret: print("higher")
    elif guess > secret: print("lower")
    else:
        print("yes")
        break
#### temperature
def to_fahrenheit(c): return c * 9 / 5 + 32
def to_celsius(f):
    return (f - 32) * 5 / 9
for c in range(0, 101, 20):
    print(f'{c:>5} °C = {to_fahrenheit(c):6.1f} °F')
#### dates
from datetime import date, timedelta
today = date(2024, 2, 28)
for n in range(3):
    print((today + timedelta(days=n)).strftime("%Y-%m-%d"), end="\n" if n == 2 else ", ")
#### json
import json
text = '{"a": [1, 2, {"b": null}], "c": "\\u00e9"}'
data = json.loads(text)
print(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))
#### sql
import sqlite3
with sqlite3.connect(":memory:") as db:
    db.execute("""
        CREATE TABLE people (
            id INTEGER PRIMARY KEY,  -- not a comment of ours
            name TEXT NOT NULL
        )
    """)
    db.executemany("INSERT INTO people (name) VALUES (?)", [("Ann",), ("Bob",)])
    for (name,) in db.execute('SELECT name FROM people WHERE name LIKE "A%"'): print(name)
#### iterator
class Countdown:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n + 1
print(*Countdown(3))
#### context manager
from contextlib import contextmanager
@contextmanager
def tag(name):
    print(f"<{name}>"); yield; print(f"</{name}>")
with tag("p"), tag('b'):
    print("text")
#### strings as statements
"module docstring"
"second string, not a docstring"
x = 1
"third"
def f(x):
    'doc'
    "kept"
    return x
def g(x):
    b"bytes, kept"
def h(x):
    f"format, kept"
def i(x):
    ("brackets")
def j(x):
    "a" + "b"
class K:
    # comment first

    """doc"""
    "kept"
if x:
    "kept"
#### numpy style
import numpy as np
a = np.arange(12).reshape(3, 4)
print(a[:, 1], a[..., -1], a[1:3, ::2], a @ a.T, a[a > 5])
a[a % 2 == 0] = -1
#### main guard
#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""Command line."""
import argparse
import sys

def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--number", type=int, default=3, help="how many")
    args = parser.parse_args(argv)
    print(*range(args.number), sep="\n", file=sys.stderr)
    return 0

if __name__ == "__main__":
    sys.exit(main())
#### no line end
x = (1,
     2)  # and no line end