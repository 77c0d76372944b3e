#!/usr/bin/env python3
"""Find false statements that answers make about their own code and about the question.

    python3 data/claims.py FILE.json [--field output_passive_aggressive] [--diversity]

FILE holds a list of rows {"instruction", "input", FIELD}; an answer is Markdown prose with Python in fences. Prints a
line per false statement (row number from 0, rule, sentence, why), then how many statements each rule checked, so that a
rule that never applies is visible. The exit status is 1 if a statement is false, 2 if FILE cannot be read.

The rules are of English and Python, not of any set of phrases: a sentence in which no rule recognizes an assertion is
not judged. An assertion is about the code ("There is a loop in it", "The loop ...", "It returns `x`") or about the
question ("your list", "You asked for 10"); "my list of grievances" and "much like a loop" are neither. Four or more
words of the question in a row are the question's own, and not judged either.
"""

import argparse
import ast
import builtins
import collections
import functools
import json
import re
import sys

NUMBERS = {word: n for n, word in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty".split())}
NUMBER = r"(?:\d+|" + "|".join(NUMBERS) + r"|a single|a couple of|half a dozen|a dozen)"
CODE = r"\[\[c\d+\]\]"  # what hide makes of text in backticks
QUOTE = r"\[\[q\d+\]\]"  # ... of text in quotation marks
VALUE = rf"(?:{CODE}|{QUOTE}|-?\d+(?:\.\d+)?|True|False|None|" + "|".join(NUMBERS) + ")"
# Words between a verb and its object that do not change what is asserted.
FILL = (r"(?:(?:the|a|an|its|your|this|that|these|those|each|every|all|of|only|just|simply|merely|exactly|plain|both|"
        r"in|"
        r"from|\w+ly|values?|results?|variables?|names?|numbers?|items?|elements?|words?|letters?|characters?|keys?|"
        r"strings?|lists?|texts?|expressions?|functions?|methods?|dictionary|tuple|contents|modules?|sum|good|old|new|"
        r"whole|entire|little|trusty|exceptions?|errors?) )*?")

# ---------------------------------------------------------------------------------------------------------------- code

TOKEN = re.compile(r"""
    (?P<string>[rbfuRBFU]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
             |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<comment>\#[^\n]*) | (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[jJ]?) | (?P<name>[^\W\d]\w*)
  | (?P<op>\*\*=|//=|>>=|<<=|\.\.\.|[-+*/%@&|^<>=!:]=|\*\*|//|>>|<<|->|[^\s])""", re.X | re.S)


def tokens(text):
    """The tokens of Python text, also of part of a statement; equal strings are equal tokens, whatever their quotes."""
    found = []
    for match in TOKEN.finditer(text):
        token = match.group()
        if match.lastgroup == "comment":
            continue
        if match.lastgroup == "string":
            quote = re.search("[\"']", token).start()
            prefix, body = token[:quote].lower().replace("u", ""), token[quote:]
            body = body[3:-3] if body[:3] in ('"""', "'''") else body[1:-1]
            token = prefix + '"' + body.replace('\\"', '"').replace("\\'", "'") + '"'
        found.append(token)
    return found


def joined(parts):
    return "\x1f" + "".join(part + "\x1f" for part in parts)


def bare(text):
    """The tokens of an expression, joined, without what prose leaves out: outer brackets, a colon, an empty call."""
    parts = tokens(text)
    while len(parts) > 1 and parts[-1] in ":;,":
        parts.pop()
    if len(parts) > 2 and parts[-2:] == ["(", ")"]:
        parts = parts[:-2]
    if len(parts) > 1 and parts[0] == "." and re.match(r"\w", parts[1]):
        parts = parts[1:]
    while len(parts) > 2 and parts[0] == "(" and parts[-1] == ")" and closes(parts) == len(parts) - 1:
        parts = parts[1:-1]
    return joined(parts)


def closes(parts):
    """The index of the bracket that closes the first one."""
    depth = 0
    for i, part in enumerate(parts):
        depth += (part in "([{") - (part in ")]}")
        if depth == 0:
            return i
    return -1


def literal(node):
    """The number that a node is, sums and products of numbers included, or None."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        a, b = literal(node.left), literal(node.right)
        if a is not None and b is not None:
            return a + b if isinstance(node.op, ast.Add) else a - b if isinstance(node.op, ast.Sub) else a * b
    return None


LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CONTAINERS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
STRING_METHODS = {name for name in dir(str) if not name.startswith("_")} - {"count", "index"}
METHODS = {name for kind in (str, list, dict, set, tuple, int, float, bytes, frozenset) for name in dir(kind)}
EXCEPTIONS = {name for name, value in vars(builtins).items()
              if isinstance(value, type) and issubclass(value, BaseException)}


class Code:
    """What a piece of Python has in it."""

    def __init__(self, text):
        self.text = text
        self.lines = text.split("\n")
        try:
            self.tree = ast.parse(text)
        except SyntaxError:
            self.tree = None
        self.nodes = list(ast.walk(self.tree)) if self.tree else []
        parts = tokens(text)
        self.tokens, self.stream = set(parts), joined(parts)
        for part in parts:  # the expressions of an f-string are code too
            if part.split('"')[0] in ("f", "rf", "fr"):
                for inner in re.findall(r"\{([^{}]+)\}", part):
                    inner = tokens(inner)
                    self.tokens.update(inner)
                    self.stream += joined(inner)
        self.functions = self.all(*FUNCTIONS)
        self.classes = self.all(ast.ClassDef)
        self.methods = [f for c in self.classes for f in c.body if isinstance(f, FUNCTIONS)]
        self.called = {self.name(call.func) for call in self.all(ast.Call)}
        self.stored = {n.id for n in self.all(ast.Name) if isinstance(n.ctx, ast.Store)}
        self.stored |= {n.attr for n in self.all(ast.Attribute) if isinstance(n.ctx, ast.Store)}
        self.parameters = {a.arg for a in self.all(ast.arg)}
        self.imported = {part for i in self.all(ast.Import, ast.ImportFrom) for part in self.imports(i)}
        self.ranges = [r for r in (self.range(c) for c in self.all(ast.Call)) if r]
        documented = (ast.Module, ast.ClassDef) + FUNCTIONS
        self.docstrings = {id(n.body[0].value) for n in self.nodes if isinstance(n, documented) and n.body
                           and isinstance(n.body[0], ast.Expr) and ast.get_docstring(n, clean=False) is not None}
        self.strings = [n for n in self.all(ast.Constant) if isinstance(n.value, str) and id(n) not in self.docstrings]

    def all(self, *types):
        return [node for node in self.nodes if isinstance(node, types)]

    def source(self, node):
        """The tokens of a node, joined, as bare makes them."""
        lines = self.lines[node.lineno - 1:node.end_lineno] or [""]  # before 3.12 what is in an f-string is misplaced
        lines[-1] = lines[-1].encode()[:node.end_col_offset].decode()
        lines[0] = lines[0].encode()[node.col_offset:].decode()
        return bare("\n".join(lines))

    def same(self, text, node):
        """Whether the text of a statement stands for exactly this node."""
        if node is None:
            return False
        value = literal(node)
        if value is not None and re.fullmatch(r"-?\d+(\.\d+)?", text):
            return float(text) == value
        return bare(text) == self.source(node)

    def within(self, text, node):
        """Whether the text is this node or a part of it, also inside an f-string."""
        return node is not None and (self.same(text, node) or bare(text) in self.source(node)
                                     or bare(text) in self.formatted(node))

    def formatted(self, node):
        """The tokens inside the f-strings of a node; before Python 3.12 their nodes have no true positions."""
        parts = self.source(node).split("\x1f")
        inner = [i for part in parts if re.match('r?fr?"', part) for i in re.findall(r"\{([^{}]+)\}", part)]
        return "".join(joined(tokens(i)) for i in inner)

    def headers(self):
        """The statements without the blocks that they open."""
        for node in self.all(ast.stmt):
            if getattr(node, "body", None):
                yield ast.Pass(lineno=node.lineno, col_offset=node.col_offset, end_lineno=node.lineno,
                               end_col_offset=len(self.lines[node.lineno - 1].encode()))
            else:
                yield node

    @staticmethod
    def name(node):
        return getattr(node, "id", getattr(node, "attr", ""))

    @staticmethod
    def imports(node):
        names = [alias.asname or alias.name for alias in node.names] + [alias.name for alias in node.names]
        return names + ([node.module] if getattr(node, "module", None) else [])

    def range(self, call):
        """(first, one past the last, step) of a call of range, a node each or None."""
        if self.name(call.func) != "range" or call.keywords or not 1 <= len(call.args) <= 3:
            return None
        first, stop = (None, call.args[0]) if len(call.args) == 1 else call.args[:2]
        return first, stop, call.args[2] if len(call.args) == 3 else None

    def function(self, name):
        """The functions of that name; of a class, its __init__."""
        found = [f for f in self.functions if f.name == name]
        for c in self.classes:
            if c.name == name:
                found += [f for f in c.body if isinstance(f, FUNCTIONS) and f.name == "__init__"]
        lambdas = [a.value for a in self.all(ast.Assign) if isinstance(a.value, ast.Lambda)
                   and any(self.name(t) == name for t in a.targets)]
        return found + lambdas

    def arguments(self, function):
        """The names of a function's parameters, as a caller counts them."""
        a = function.args
        named = [p.arg for p in getattr(a, "posonlyargs", []) + a.args + [a.vararg] + a.kwonlyargs + [a.kwarg] if p]
        return named[1:] if function in self.methods and named[:1] in (["self"], ["cls"]) else named

    def defaults(self):
        """(function, parameter, node) for each default value."""
        for function in self.functions + self.all(ast.Lambda):
            a = function.args
            positional = getattr(a, "posonlyargs", []) + a.args
            for parameter, value in zip(positional[len(positional) - len(a.defaults):], a.defaults):
                yield function, parameter.arg, value
            for parameter, value in zip(a.kwonlyargs, a.kw_defaults):
                if value is not None:
                    yield function, parameter.arg, value

    def recursive(self, name=None):
        return any(isinstance(n, ast.Call) and self.name(n.func) == f.name
                   for f in self.functions if name in (None, f.name) for n in ast.walk(f))

    def assigned(self):
        """(name, node) for each value that a name is bound to."""
        for node in self.all(ast.Assign, ast.AnnAssign):
            for target in getattr(node, "targets", None) or [node.target]:
                if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                    yield from ((self.name(t), v) for t, v in zip(target.elts, node.value.elts))
                elif node.value is not None:
                    yield self.name(target), node.value

    def iterated(self):
        """What the loops, the comprehensions and the functions that read to the end go through."""
        for node in self.all(ast.For, ast.AsyncFor, ast.comprehension):
            yield node.iter
        for call in self.all(ast.Call):
            if self.name(call.func) in ("sum", "sorted", "max", "min", "any", "all", "map", "filter", "zip",
                                        "enumerate",
                                        "list", "set", "tuple", "dict", "join", "reversed", "Counter", "reduce",
                                        "extend"):
                yield from call.args

    def tests(self):
        """The expressions that decide something."""
        for node in self.nodes:
            if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
                yield node.test
            elif isinstance(node, ast.comprehension):
                yield from node.ifs
            elif isinstance(node, (ast.Compare, ast.BoolOp)):
                yield node
            elif isinstance(node, (ast.Return, ast.Lambda)):
                value = node.value if isinstance(node, ast.Return) else node.body
                if isinstance(value, (ast.Call, ast.UnaryOp)):
                    yield value

    def printed(self):
        for call in self.all(ast.Call):
            if self.name(call.func) in ("print", "write", "writelines", "pprint"):
                yield from call.args
                yield from (k.value for k in call.keywords)

    def reversed(self):
        def negative(node):
            value = literal(node) if node is not None else None
            return value is not None and value < 0
        return ("reversed" in self.called or "reverse" in self.called
                or any(k.arg == "reverse" and getattr(k.value, "value", True) for k in self.all(ast.keyword))
                or any(negative(s.step) for s in self.all(ast.Slice)) or any(negative(r[2]) for r in self.ranges)
                or any(isinstance(n.op, ast.Sub) for n in self.all(ast.AugAssign))
                or any(negative(n) for n in self.all(ast.UnaryOp)))

    def nested_loops(self):
        loops = self.all(*LOOPS)
        return (any(inner is not outer and isinstance(inner, LOOPS) for outer in loops for inner in ast.walk(outer))
                or any(len(c.generators) > 1 for c in self.all(*COMPREHENSIONS, ast.GeneratorExp)))


def calls(*names):
    return lambda c: bool(c.called & set(names))


def has(*types):
    return lambda c: bool(c.all(*types))


def operation(*kinds, names=()):
    return lambda c: bool(c.called & set(names)) or any(
        isinstance(n.op, kinds) for n in c.all(ast.BinOp, ast.AugAssign))


def either(*tests):
    return lambda c: any(test(c) for test in tests)


def token(*texts):
    return lambda c: bool(c.tokens & set(texts))


def has_list(c):
    return (has(ast.List, ast.ListComp)(c) or "list" in c.tokens or "List" in c.tokens
            or calls("sorted", "split", "splitlines", "rsplit", "append", "findall", "readlines", "most_common")(c))


def has_dict(c):
    return (has(ast.Dict, ast.DictComp)(c) or "dict" in c.tokens
            or calls("Counter", "defaultdict", "OrderedDict", "items", "keys", "values", "setdefault", "fromkeys")(c))


def has_string(c):
    return bool(c.strings) or has(ast.JoinedStr)(c) or "str" in c.tokens or bool(c.called & STRING_METHODS)


def has_sort(c):
    return bool(c.called & {"sorted", "sort", "nlargest", "nsmallest", "heapify", "most_common", "insort"})


def nested(c):
    def deeper(*types):
        return any(inner is not outer and isinstance(inner, types) for outer in c.all(*types)
                   for inner in ast.walk(outer))
    return c.nested_loops() or deeper(*FUNCTIONS) or deeper(*CONTAINERS) or deeper(ast.If) or deeper(ast.Subscript) \
        or deeper(ast.Call)


# Things that prose can say are in the code: its name here, the words for it, whether the code has it. Plain words are
# nearly always meant technically; the others need a sentence that is plainly about the code.
THINGS = [(name, re.compile(words, re.I), test, plain) for name, words, test, plain in [
    ("nested loops", r"(?:nested|double) loops?|loops? in(?:side)? a loop", Code.nested_loops, True),
    ("while loop", r"while[- ]loops?", has(ast.While), True),
    ("for loop", r"for[- ]loops?", has(ast.For, ast.AsyncFor), True),
    ("infinite loop", r"(?:infinite|endless) loops?", lambda c: any(
        isinstance(getattr(w.test, "value", None), (bool, int)) for w in c.all(ast.While)), True),
    ("loop", r"loops?|iteration", has(*LOOPS), True),
    ("list comprehension", r"list comprehensions?", has(ast.ListComp), True),
    ("dictionary comprehension", r"dict(?:ionary)? comprehensions?", has(ast.DictComp), True),
    ("set comprehension", r"set comprehensions?", has(ast.SetComp), True),
    ("comprehension", r"comprehensions?", has(*COMPREHENSIONS), True),
    ("generator expression", r"generator expressions?", has(ast.GeneratorExp), True),
    ("generator", r"generators?", has(ast.GeneratorExp, ast.Yield, ast.YieldFrom), True),
    ("recursion", r"recursion|recursive (?:call|step|function)s?", lambda c: c.recursive(), True),
    ("lambda", r"lambdas?|anonymous functions?", has(ast.Lambda), True),
    ("f-string", r"f-?strings?", has(ast.JoinedStr), True),
    ("decorator", r"decorators?", lambda c: any(d.decorator_list for d in c.functions + c.classes), True),
    ("type hint", r"type (?:hint|annotation)s?", lambda c: any(a.annotation for a in c.all(ast.arg))
     or has(ast.AnnAssign)(c) or any(f.returns for f in c.functions), True),
    ("docstring", r"docstrings?", lambda c: bool(c.docstrings), True),
    ("default", r"default (?:values?|arguments?|parameters?)", lambda c: any(True for _ in c.defaults())
     or calls("get", "setdefault", "defaultdict", "getattr", "next", "pop")(c), True),
    ("keyword argument", r"keyword arguments?", lambda c: any(k.arg for k in c.all(ast.keyword)), True),
    ("constructor", r"constructors?", lambda c: any(f.name in ("__init__", "__new__") for f in c.methods), True),
    ("subclass", r"subclass(?:es)?|inheritance|parent class(?:es)?", lambda c: any(k.bases for k in c.classes), True),
    ("class method", r"class methods?", token("classmethod"), True),
    ("static method", r"static methods?", token("staticmethod"), True),
    ("slice", r"slices?|slicing", either(has(ast.Slice), calls("slice", "islice")), True),
    ("tuple", r"tuples?", either(has(ast.Tuple), calls("tuple", "zip", "items", "enumerate", "divmod", "partition",
                                                      "most_common", "namedtuple")), True),
    ("dictionary", r"dictionar(?:y|ies)|dicts?", has_dict, True),
    ("list", r"lists?", has_list, True),
    ("string", r"strings?", has_string, True),
    ("regular expression", r"regular expressions?|regex(?:es)?", token("re", "regex"), True),
    ("conditional expression", r"conditional expressions?|ternar(?:y|ies)(?: \w+)?", has(ast.IfExp), True),
    ("if", r"if[- ](?:statement|clause|branch|condition)(?:e?s)?",
     lambda c: has(ast.If, ast.IfExp)(c) or any(g.ifs for g in c.all(ast.comprehension)), True),
    ("else", r"else[- ](?:statement|clause|branch)(?:e?s)?",
     lambda c: "else" in c.tokens or "elif" in c.tokens, True),
    ("try", r"try(?:[-/]| and )except|try[- ](?:statement|clause|block)s?", has(ast.Try), True),
    ("except", r"except[- ](?:statement|clause|block)s?|exception handler", has(ast.ExceptHandler), True),
    ("with", r"with[- ](?:statement|block)s?|context managers?", has(ast.With, ast.AsyncWith), True),
    ("return", r"return(?: statements?)", has(ast.Return), True),
    ("print", r"print(?: statements?| calls?)", calls("print"), True),
    ("import", r"import(?: statements?)|imports", has(ast.Import, ast.ImportFrom), True),
    ("assert", r"assert(?:ion)?s?(?: statements?)?", has(ast.Assert), True),
    ("global", r"global (?:variable|statement)s?", lambda c: has(ast.Global)(c) or any(
        isinstance(n, (ast.Assign, ast.AnnAssign)) for n in (c.tree.body if c.tree else [])), True),
    ("function", r"functions?", either(has(*FUNCTIONS), has(ast.Lambda)), True),
    ("class", r"class(?:es)?", has(ast.ClassDef), False),
    ("method", r"methods?", lambda c: bool(c.methods) or any(
        isinstance(k.func, ast.Attribute) for k in c.all(ast.Call)), False),
    ("module", r"modules?|imports?", has(ast.Import, ast.ImportFrom), False),
    ("set", r"sets?", either(has(ast.Set, ast.SetComp), token("set", "frozenset")), False),
    ("variable", r"variables?", lambda c: bool(c.stored | c.parameters), False),
    ("parameter", r"parameters?|arguments?", lambda c: bool(c.parameters) or any(k.args for k in c.all(ast.Call)),
     False),
    ("condition", r"conditions?|conditionals?|branch(?:es)?", lambda c: has(
        ast.If, ast.IfExp, ast.While, ast.Compare, ast.BoolOp)(c), False),
    ("exception", r"exceptions?|error handling", lambda c: has(ast.Try, ast.Raise)(c)
     or any(Code.name(b).endswith(("Error", "Exception")) for k in c.classes for b in k.bases), False),
    ("sort", r"sorts?|sorting", has_sort, False),
    ("format", r"formats?|formatting|format specs?", lambda c: has(ast.JoinedStr)(c) or bool(
        c.called & {"format", "zfill", "rjust", "ljust", "center", "round", "strftime"}) or "%" in c.tokens, False),
    ("file", r"files?", calls("open", "read_text", "write_text", "Path"), False),
    ("comment", r"comments?", lambda c: "#" in c.text, False),
    ("attribute", r"attributes?", has(ast.Attribute), False),
    ("index", r"index(?:es)?|indices|subscripts?", has(ast.Subscript), False),
    ("curly brackets", r"curly (?:brackets|braces)|braces", lambda c: "{" in c.text, True),
    ("square brackets", r"(?:square )?brackets", token("["), True),
    ("quotation marks", r"quotes|quotation marks", has_string, True),
    ("arithmetic", r"arithmetic", lambda c: has(ast.BinOp)(c) or bool(c.all(ast.AugAssign)) or bool(
        c.called & {"sum", "pow", "divmod", "abs", "sqrt", "gcd", "round", "prod", "mean", "len", "max", "min"}),
     False),
    ("multiplication", r"multiplications?", operation(ast.Mult, ast.Pow, names=("prod",)), True),
    ("division", r"divisions?", operation(ast.Div, ast.FloorDiv, names=("divmod",)), False),
    ("remainder", r"remainders?|modulo", operation(ast.Mod, names=("divmod", "fmod")), True),
    ("addition", r"additions?", operation(ast.Add, names=("sum",)), False),
    ("subtraction", r"subtractions?", operation(ast.Sub), True),
    ("counter", r"counters?", lambda c: "Counter" in c.called or any(
        literal(n.value) == 1 for n in c.all(ast.AugAssign)), False),
    ("base case", r"base cases?", lambda c: c.recursive(), True),
    ("unpacking", r"unpacking", lambda c: has(ast.Starred)(c) or any(
        isinstance(t.ctx, ast.Store) for t in c.all(ast.Tuple)), True),
]]
THING = r"(?P<thing>" + "|".join(words.pattern for _, words, _, _ in THINGS) + r")(?![-\w])"
PLAIN = r"(?P<thing>" + "|".join(words.pattern for _, words, _, plain in THINGS if plain) + r")(?![-\w])"
# At most two words before the thing; words of grammar would make it another phrase.
KINDLY = (r"(?:(?!(?:to|of|for|and|or|that|which|who|is|was|are|in|on|with|as|than|way|from|at|by|so|if|it|not|no)\b)"
          r"[\w'-]+ ){0,2}?")
DATA = {"list": list, "dictionary": dict, "string": str, "tuple": tuple, "set": set}
# The question may bring these without the word.
SYNONYMS = {"string": r"texts?|words?|sentences?|letters?|characters?|strings?|name", "dictionary": r"dict\w*",
            "sort": r"sort\w*|order\w*|ascending|descending", "function": r"functions?|def", "lambda": r"lambdas?",
            "for loop": r"loops?|for", "while loop": r"loops?|while", "recursion": r"recurs\w*|calls itself",
            "condition": r"if|condition\w*|whether|when|unless", "comprehension": r"comprehensions?",
            "exception": r"\w*exception\w*|\w*error\w*|invalid|bad", "slice": r"slic\w*", "loop": r"loops?|looping",
            "format": r"format\w*|places|decimals?|padded|f-string\w*", "list": r"lists?|values|numbers|words|items"}


def thing(words):
    """(name, test) of the thing that some words are for."""
    return next((name, test) for name, pattern, test, _ in THINGS if pattern.fullmatch(words))


# ---------------------------------------------------------------------------------------------------------------- prose

FENCE = re.compile(r"^(`{3,})[ \t]*(\w*)[^\n]*\n(.*?)(?:^\1[ \t]*$|\Z)", re.M | re.S)
MARK = re.compile(r"\[\[([cqt])(\d+)\]\]")


class Row:
    """A row: what the answer says, its code, and the question."""

    def __init__(self, instruction, given, answer):
        self.instruction, self.given = instruction, given
        self.question = instruction + "\n" + given
        self.code = Code("\n".join(m.group(3) for m in FENCE.finditer(answer) if m.group(2) in ("", "python", "py")))
        self.segments = [part for part in FENCE.sub("\0", answer).split("\0") if part.strip()]
        self.hidden = []
        self.sentences = [s for part in self.segments for paragraph in re.split(r"\n\s*\n", part)
                          for s in self.split(" ".join(paragraph.split()))]
        self.data = Code(given) if given else Code("")
        self.asked = tokens(self.question)
        self.asked_stream = joined(self.asked)
        self.asked_words = set(re.findall(r"\w+", self.question))

    def hide(self, kind, text):
        self.hidden.append(text)
        return f"[[{kind}{len(self.hidden) - 1}]]"

    def split(self, paragraph):
        """The sentences of a paragraph; what is code, quoted or the question's own is hidden from the rules."""
        text = re.sub(r"(`+)(.+?)\1", lambda m: self.hide("c", m.group(2).strip()), paragraph)
        text = re.sub(r'"([^"]*)"|“([^”]*)”', lambda m: self.hide("q", m.group(1) or m.group(2) or ""), text)
        text = self.hide_task(text)
        return [self.own(s) for s in re.split(r"(?<=[.!?:])['\")]*\s+(?=[A-Z\[(])", text) if s.strip()]

    def own(self, sentence):
        """A sentence, with what is hidden in it numbered from 0, so that rows that say the same share a search."""
        hidden = []

        def again(m):
            hidden.append(self.show(self.hidden[int(m.group(2))]))
            return f"[[{m.group(1)}{len(hidden) - 1}]]"
        return MARK.sub(again, sentence), hidden

    def hide_task(self, text):
        """The text with each run of four or more words of the question hidden."""
        def plain(text):
            return [w for w in (re.sub(r"^\W+|\W+$", "", word).lower() for word in text.split()) if w]
        asked = plain(self.instruction)
        words, made, i = text.split(), [], 0
        plains = [plain(self.show(word)) for word in words]
        while i < len(words):
            longest = 0
            for start in [k for k, word in enumerate(asked) if plains[i][:1] == [word]]:
                at, j = start, i
                while j < len(words) and asked[at:at + len(plains[j])] == plains[j]:
                    at, j = at + len(plains[j]), j + 1
                if at - start >= 4:
                    longest = max(longest, j - i)
            if longest:
                whole = " ".join(words[i:i + longest])
                end = re.search(r"(?<!\])[.,;:!?]*$", whole).group() if not whole.endswith("]]") else ""
                made.append(self.hide("t", whole[:len(whole) - len(end)]) + end)
                i += longest
            else:
                made.append(words[i])
                i += 1
        return " ".join(made)

    def show(self, text):
        """The text with nothing hidden."""
        def back(m):
            inner = self.hidden[int(m.group(2))]
            around = {"c": "`", "q": '"', "t": ""}[m.group(1)]
            return around + self.show(inner) + around
        return MARK.sub(back, text)

    def value(self, text):
        """What an object in a sentence is, as Python text."""
        match = MARK.fullmatch(text)
        if match:
            inner = self.hidden[int(match.group(2))]
            return inner if match.group(1) == "c" else json.dumps(inner, ensure_ascii=False)
        return str(NUMBERS.get(text.lower(), text))

    def in_question(self, text):
        return bare(text) in self.asked_stream or text.lower() in self.question.lower()

    def asks_for(self, name):
        """Whether the question has the word for a thing, or brings the thing as its input."""
        words = SYNONYMS.get(name) or next(pattern.pattern for n, pattern, _, _ in THINGS if n == name)
        return bool(re.search(rf"\b(?:{words})\b", self.question, re.I)) or self.brings(name)

    def brings(self, name):
        """Whether the input has a literal of that type."""
        if not self.given or name not in DATA:
            return False
        types = {"list": ast.List, "dictionary": ast.Dict, "tuple": ast.Tuple, "set": ast.Set}
        return name == "string" and (not self.data.tree or bool(self.data.strings)) or \
            name in types and bool(self.data.all(types[name]))

    def names_given(self):
        """The names of the code that the question chose: all that the input has, and those its words name."""
        code = self.code
        bound = {f.name for f in code.functions} | {c.name for c in code.classes} | code.stored | code.parameters
        given = (self.data.stored | self.data.parameters | {f.name for f in self.data.functions}
                 | {c.name for c in self.data.classes}) if self.data.tree else set()
        for name in bound - {"self", "cls"}:
            text = re.escape(name)
            defined = any(d.name == name for d in code.functions + code.classes)
            if re.search(rf"(?:called|named|variables?|arguments?|parameters?) {text}\b|[`\"]{text}[`\"]|\b{text} "
                         rf"?[(=]",
                         self.question) or (defined or "_" in name
                                            or name in code.parameters) and name in self.asked_words:
                given.add(name)
        return given & bound


def number(text):
    words = {"a single": 1, "a couple of": 2, "half a dozen": 6, "a dozen": 12}
    text = text.lower()
    return int(text) if text.isdigit() else words[text] if text in words else NUMBERS[text]


# ---------------------------------------------------------------------------------------------------------------- rules
#
# A rule is a generator of (whether it is true, why it is false) for the assertions it finds in a sentence.

RULES = {}


def rule(function):
    RULES[function.__name__.replace("_", "-")] = function
    return function


UNSAID = re.compile(r"\b(?:would|could|might|should have|if there|imagine|instead of|rather than|as if|as though|like|"
                    r"unlike|not|never|no|without|nobody|hardly|had (?:I|you)|were there|cannot|need not|nothing|no "
                    r"one)\b"
                    r"(?!\s+(?:only|just|surprisingly|doubt|idea|matter)\b)|n't\b", re.I)


def clause(sentence, at):
    """What stands before a place in its clause."""
    return re.split(r"[;:,()]| [-–—] |\b(?:but|because|so that|although|since)\b", sentence[:at])[-1]


def said(sentence, match):
    """Whether a match is asserted: not denied, supposed or compared."""
    return not UNSAID.search(clause(sentence, match.start()))


def finder(*patterns):
    """A function that finds the places of a sentence where one of the patterns asserts something."""
    compiled = [re.compile(p, re.I) for p in patterns]

    @functools.lru_cache(maxsize=None)  # answers share most of their sentences
    def find(sentence, guard=True):
        return [m for pattern in compiled for m in pattern.finditer(sentence) if not guard or said(sentence, m)]
    return find


ELSEWHERE = re.compile(r"instead of|rather than|as opposed to|\b(?:no|not|without|unlike|avoid\w*|spared?|skip\w*|"
                       r"forgo\w*|"
                       r"could have used|might have used|would have been|do without|had no need of|nor|neither|never)\b"
                       r"[^.;:]{0,40}$", re.I)
TYPED = re.compile(r"\b(?:type|types|typing|run|runs|enter|try|search for|google|install) (?:\w+ )?$", re.I)


@rule
def name(row, s):
    """What is in backticks is in the code or in the question, unless the sentence says that it is not used."""
    code = row.code
    for match in re.finditer(CODE, s):
        text, before = row.value(match.group()), s[:match.start()]
        if TYPED.search(before) and re.match(r"help\(|python|pip ", text):
            continue
        parts = tokens(text)
        alone = joined(parts)
        known = alone in code.stream or bare(text) in code.stream or row.in_question(text)
        known = known or text in ("[]", "()", "{}") and text[0] in code.tokens
        known = known or text in ('""', "''", '"', "'", "#", "f\"\"", "f''") and text.strip("\"'")[:1] in code.text
        likened = re.search(r"\b(?:is|are) (?:simply|only|just|merely|really) an? $", before) and re.match(
            r" (?:with|without|that|which|in|who)\b", s[match.end():])
        if not known and (likened or ELSEWHERE.search(before) or re.search(r"\btoo \w+ for (?:an? |the )?$", before)):
            continue
        if not known and len(parts) > 1:  # the same with its sums worked out, or other brackets
            known = any(code.within(text, n) for n in code.all(ast.BinOp, ast.UnaryOp, ast.Call)) or folded(code, text)
        yield known, f"`{text}` is neither in the code nor in the question"


def folded(code, text):
    """Whether an expression of numbers is in the code but for sums left to do: range(1, 11) for range(1, 10 + 1)."""
    try:
        want = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False

    def key(node):
        value = literal(node)
        if value is not None:
            return repr(value)
        if isinstance(node, ast.Call):
            return (ast.dump(node.func), tuple(map(key, node.args)),
                    tuple((k.arg, key(k.value)) for k in node.keywords))
        return ast.dump(node)
    return any(isinstance(n, ast.expr) and type(n) is type(want) and key(n) == key(want) for n in code.nodes)


CODE_SUBJECT = (rf"(?:it|this|(?:the|this|that|my) (?:code|program|answer|solution|snippet|script|function|thing|class|"
                rf"method|loop|line|lines|whole thing|first line|last line|result|version)|what follows|{CODE}|which|"
                rf"and)")
HERE = (r"(?:in(?:to)? (?:it|there|here|this|the (?:code|middle|answer|snippet))|involved|at work|inside|below|above|"
        r"at play)")
END = rf"(?=[,.;:!?]|$| {HERE}| (?:that|which|here|there|so|because|and|for|to|with|over|by|doing|going|called)\b)"
SEEN = (r"(?:you (?:will|may|can|might|should|shall)?(?: \w+ly)? ?(?:have )?(?:see|come across|meet|spotted|spot|"
        r"find|notice|"
        r"noticed|seen|encounter|observe)|you are about to (?:meet|see)|(?:note|observe|notice|behold|see|mind|"
        r"admire|spot)|"
        r"I (?:have )?(?:see|wrote|written|use|used|chose|chosen|put in|added|included|went with|gone with|picked|"
        r"reached "
        r"for|threw in|thrown in|made|built|employed|needed|brought in|brought along|left in|settled on|opted for|"
        r"resorted "
        r"to|gone so far as to use|have gone so far as to use|kept it to|put it (?:all )?in(?:to)?|put this "
        r"in(?:to)?|wrapped "
        r"it (?:up )?in(?:to)?|packed it in(?:to)?|turned it into|folded \w+(?: \w+)? into)|be warned that there is|"
        r"meet)")
HAS = (r"(?:uses|takes|has|contains|needs|includes|features|relies on|involves|defines|builds|makes|creates|runs on|"
       r"consists of|comes with|brings|employs|starts with|ends with|opens with|lives in|sits in|works with|"
       r"(?:keeps|holds|stores|puts|collects|does|gathers|wraps) (?:\w+ ){1,2}(?:in|into|with))")
MASS = (r"(?P<thing>recursion|slicing|formatting|arithmetic|sorting|unpacking|multiplication|division|addition|"
        r"subtraction)\b")
present = finder(
    rf"\bthere(?: is|'s| are|) (?:(?:an?|one|some|also an?|two|three|even an?|of course an?|naturally an?) )"
    rf"{KINDLY}{THING}{END}",
    rf"\b{SEEN} (?:that )?(?:an?|one|some|that it is an?) {KINDLY}{PLAIN}(?! of\b)",
    rf"\b{SEEN} (?:an?|one) {KINDLY}{THING}{END}",
    rf"\b{CODE_SUBJECT} (?:\w+ly |even |also |is told to |has to )?{HAS} (?:an?|one|some|its|the) {KINDLY}{THING}(?! "
    rf"of\b)",
    rf"(?:^|[;:,] |and )an? {KINDLY}{THING} (?:comes? up|is (?:involved|used|at work|in (?:it|there)|all)|does|"
    rf"appears?|"
    rf"turns up|will do|was (?:used|needed|enough|called for)|makes|takes|sits|stands|keeps|holds|handles)\b",
    rf"^an? {KINDLY}{THING},? (?:so that|because|with|which|since|no less|naturally|obviously|of course|apparently)\b",
    rf"\bit is (?:\w+ly )?(?:called )?an? {KINDLY}(?P<thing>(?:list |dict\w* |set )?comprehension|lambda|tuple|slice|"
    rf"generator expression|f-string|decorator)(?! of\b)",
    rf"\bwith (?:an?|one|two|three|several) {KINDLY}{THING} {HERE}\b",
    rf"\bmakes it an? {KINDLY}{PLAIN}",
    rf"(?:^|[;:,] )it is (?:\w+ly |only |just |merely |all )?an? {KINDLY}(?P<thing>class|function|loop|lambda|"
    rf"dictionary|"
    rf"list|tuple|generator)(?! of\b){END}",
    rf"\b(?:it|the (?:code|answer)|this) (?:takes|comes in|has taken) the (?:form|shape) of an? {KINDLY}{THING}",
    rf"\bit (?:looks|finds) (?:\w+ )?(?:things )?up in an? {KINDLY}{THING}",
    rf"\b(?:in (?:it|there|here)|somewhere|inside),? (?:there is )?an? {KINDLY}{PLAIN} (?!of\b)\w+s\b",
    rf"\bthere is (?:some |a little |a bit of |even )?{MASS}{END}",
    rf"(?:^|[;:,] ){MASS} (?:is|was|comes|gets) (?:\w+ly )?(?:involved|at work|used|needed|in|called for)\b",
)
VERB = (r"(?:\w+ly |itself |alone |above |below |in (?:it|there|here) |there |here |then |also |even |at least |only )*"
        r"(?:is|are|was|were|has|have|had|does|do|did|may|might|can|will|would|should|must|need|needs|goes|runs|"
        r"reads|says|"
        r"looks|takes|takes|keeps|holds|maps|makes|starts|stops|ends|gets|gives|returns|prints|sits|sit|go|run|read|"
        r"look|"
        r"take|keep|hold|make|start|stop|end|get|give|comes|come|stands|stand|works|work|saves|counts|adds|builds|"
        r"visits|"
        r"walks|never|always|in (?:it|there|here)|calls|knows|decides|handles|checks|turns|does|repeats|waits|"
        r"belongs)\b")
definite = finder(
    rf"(?:^|[;:,] |\b(?:if|when|while|because|that|and|how|what|where|but|since|once|although|though|as) )"
    rf"(?:the|that|this|those|these) {KINDLY}{THING} {VERB}",
    rf"(?:^|[;:,] |\b(?:if|when|while|because|and|how|where|but|since|once|although|though) )"
    rf"(?:the|that|this|those|these) {PLAIN}(?! (?:of|that|which|who|I|we|you|for|from|question|problem)\b)(?= \w)",
    rf"\b(?:observe|note|notice|see|read|follow|following|watch|look at|mind|study|inspect|behold|admire|unrolled|"
    rf"unroll|skip|trace|spotted|appreciate|enjoy|thank|consider|respect|ask|credit|regard|think of|folded|understand|"
    rf"let|blame|explain|inside|within|through) (?:the|that|this|those|these) {KINDLY}{PLAIN}(?! of\b)",
    rf"\b(?:the|that|this|those|these) {KINDLY}{THING} {HERE}\b",
    r"\b(?:text|parts?|words?|letters|whatever|anything|everything|all|what)(?: \w+){0,2} (?:in|between|inside)"
    r" (?:the )?(?P<thing>quotes|quotation marks|square brackets|curly brackets|braces)\b",
)
IDIOM = re.compile(r"in the loop|out of the loop|the list goes on|exception (?:that )?proves|strings? attached|sort of|"
                   r"on (?:the|my) list|list of (?:my|people|things|grievances|regrets|favou?rs|complaints)|set of|"
                   r"the class clown|comments? section|method to|the method in|no exception|conditions? (?:of|in) |"
                   r"make an exception|set in|first class|world-class|by default|pull\w* (?:some|the) strings", re.I)
FORMS = {"for", "while", "if", "else", "try", "except", "with", "return", "print", "import", "assert", "set", "dict",
         "lambda", "class"}


def plainly(row, s):
    """The sentence with the keywords in backticks as words, so that a `while` loop is a while loop."""
    return re.sub(rf"({CODE})(?=[- ](?:loop|statement|clause|branch|block|function|call|comprehension))",
                  lambda m: row.value(m.group()) if row.value(m.group()) in FORMS else m.group(), s)


def inside_idiom(s, match):
    return any(i.start() < match.end("thing") and match.start("thing") < i.end() for i in IDIOM.finditer(s))


def truth(row, s, words):
    label, test = thing(words)
    yes = test(row.code)
    if not yes and label == "loop":  # of a comprehension one may say that it was one, or is one with better manners
        yes = bool(re.search(r"comprehension|generator", s)) and has(*COMPREHENSIONS, ast.GeneratorExp)(row.code)
    if not yes and label in DATA:  # a function of a list has to do with lists
        yes = row.asks_for(label)
    return label, yes


@rule
def present_thing(row, s):
    """There is a loop; it uses a list; you will see a comprehension; a slice does it: the code has one."""
    s = plainly(row, s)
    seen = set()
    for match in present(s):
        if match.start("thing") in seen or inside_idiom(s, match):
            continue
        seen.add(match.start("thing"))
        label, yes = truth(row, s, match.group("thing"))
        yield yes, f"the code has no {label}"


@rule
def the_thing(row, s):
    """The loop ...; observe the loop; that comprehension: the code has one."""
    s = plainly(row, s)
    seen = set()
    for match in definite(s, guard=False):
        words = match.group("thing")
        unused = re.search(r"\b(?:instead of|rather than|without|unlike|avoid\w*|spared?|not (?:use|need|"
                           r"write)\w*)[^.;:]{0,20}$",
                           s[:match.start("thing")], re.I)
        if match.start("thing") in seen or inside_idiom(s, match) or unused:
            continue
        seen.add(match.start("thing"))
        label, yes = truth(row, s, words)
        yield yes, f"the code has no {label}"


absent = finder(
    rf"\bthere (?:is|are|was) (?:no|not an?|not a single|no need (?:of|for) an?) {KINDLY}{THING}{END}",
    rf"(?:^|[,;:] |and )(?:no|not a single|not one) {KINDLY}{THING}"
    rf"(?= (?:{HERE}|(?:is|was|were|are)(?: \w+)? (?:needed|required|used|harmed|involved|necessary))|[,;.] no\b|[.]$)",
    rf"\bI (?:did not|have not|never) (?:use|used|need|needed|write|written)(?: \w+ly)? (?:an?|any) {KINDLY}{PLAIN}",
    rf"\b(?:it|the (?:code|function|program)) (?:uses|needs|has|contains|does not (?:use|need|have|contain)) "
    rf"(?:no|any|an?(?<=not use a)) {KINDLY}{PLAIN}",
    rf"\b(?:does it|works|manages|done|gets by|it is done|managed) (?:\w+ )?without (?:an?|any|a single) "
    rf"{KINDLY}{PLAIN}",
    rf"\bI (?:avoided|spared you|left out|omitted) (?:the|an?|any) {KINDLY}{PLAIN}",
)


@rule
def absent_thing(row, s):
    """There is no loop in it; no import is needed; without a single loop: the code has none."""
    s = plainly(row, s)
    for match in absent(s, guard=False):
        label, test = thing(match.group("thing"))
        yield not test(row.code), f"the code has a {label}"


LESSONS = {"loop", "list", "dictionary", "string", "tuple", "class", "function", "comprehension", "slice", "lambda",
           "generator", "decorator", "recursion", "f-string", "set", "exception", "module"}
topic_of = finder(
    rf"^(?:ah|oh|yes|right|so)?,? ?{KINDLY}(?P<thing>(?:list|dictionarie|string|tuple|classe|function|comprehension|"
    rf"slice|"
    rf"lambda|loop|generator|decorator|exception|module)s|recursion)(?:,? (?:then|again|yes|no less))?(?=[.!?,])",
    rf"\bah, (?P<thing>\w+s|recursion)\b",
    rf"\b(?:so much for|(?:on )?the subject of|let us talk about|through with|to hear about|to find out about|"
    rf"chapter on|"
    rf"nothing against|have met|mention|told that) (?P<thing>\w+s|recursion)\b",
    rf"\b(?:the|another|one's|our|elementary|next|a|this) (?P<thing>\w+) (?:question|problem|exercise|matter|"
    rf"business)\b",
    rf"^an? {PLAIN}(?:,| is\b| holds\b| needs\b| means\b| gets\b)",
    rf"(?:^|\bnote that |\bremember that )(?P<thing>(?:list|dictionarie|string|tuple|function|comprehension|slice|"
    rf"lambda|"
    rf"loop|generator|decorator)s|recursion|slicing) (?:is|are|go|start|answer|hold|keep|come|do|can|have)\b",
)


@rule
def topic(row, s):
    """Lists, then; another list question; a string is ...: the code or the question has to do with it."""
    seen = set()
    for match in topic_of(s, guard=False):
        words = match.group("thing").lower()
        if not any(pattern.fullmatch(words) for _, pattern, _, _ in THINGS) or match.start("thing") in seen:
            continue
        seen.add(match.start("thing"))
        label, test = thing(words)
        if label in LESSONS:
            yield test(row.code) or row.asks_for(label) or truth(row, s, words)[1] or label == "comprehension" and has(
                ast.GeneratorExp)(row.code) and "comprehension" not in s, \
                f"neither the code nor the question has to do with a {label}"


CHOSE = (r"\b(?:I|we) (?:have |had |simply |naturally |obviously |therefore |just |of course )*(?:used|chose|chosen|"
         r"went with|"
         r"gone with|picked|opted for|settled on|decided on|decided for|reached for|selected|elected to use|(?:gone|"
         r"went) so "
         r"far as to use|made (?:it|this) in?to|made (?:it|this)|turned (?:it|this) into|put (?:it|this|"
         r"everything)(?: \w+)? "
         r"in(?:to)?|split (?:it|this)(?: up)? into|wrapped (?:it|this)(?: up)? in(?:to)?|resorted to|volunteered|"
         r"suggested|"
         r"thought of using|took the liberty of using)")
chose = finder(rf"{CHOSE} (?:an?|one|two|three|the|some) {KINDLY}{THING}(?! of\b)",
               rf"\b(?:an?|the) {KINDLY}{THING} was my (?:choice|idea)")
DEFAULTED = re.compile(r"as you (?:asked|wished|wanted|said)|you asked|at your request|by request|as (?:asked|ordered)",
                       re.I)


@rule
def choice(row, s):
    """I used, chose, went with a list: it was not the question that asked for one, or brought it."""
    s = plainly(row, s)
    for match in chose(s):
        if inside_idiom(s, match) or DEFAULTED.search(s):
            continue
        label, test = thing(match.group("thing"))
        words = SYNONYMS.get(label, "") if label not in DATA else ""
        words = words or next(pattern.pattern for n, pattern, _, _ in THINGS if n == label)
        asked = re.search(rf"\b(?:{words})\b", row.instruction, re.I)
        types = {"list": (ast.List, ast.ListComp), "dictionary": (ast.Dict, ast.DictComp), "tuple": (ast.Tuple,),
                 "set": (ast.Set, ast.SetComp), "string": (ast.Constant, ast.JoinedStr)}
        if not asked and row.brings(label):  # the list may yet be another one than the question's
            brought = {row.data.source(n) for n in row.data.nodes if isinstance(n, types[label])}
            asked = not any(row.code.source(n) not in brought for n in row.code.all(*types[label]))
        yield not asked, f"the question asked for a {label} or brought it"


named = finder(rf"\bI (?:have )?(?:called|named|christened) (?:it|this|that|the \w+|him|her) (?P<x>{CODE})",
               rf"\b(?P<x>{CODE}) (?:was|is) my (?:idea|choice|own name)",
               rf"\bI (?:came up with|invented|chose|picked|made up)(?: the name)? (?P<x>{CODE})")


@rule
def own_name(row, s):
    """I called it `x`; I chose the name `x`: the question has no such name."""
    for match in named(s):
        text = row.value(match.group("x"))
        yield text not in row.asked_words, f"`{text}` is a word of the question"


kept = finder(rf"\bI (?:did not|have not|never|did not dare to|dared not|would not) (?:even )?(?:renamed?|change|"
              rf"touch) "
              rf"(?:(?P<x>{CODE})|(?:the|your|any|a single) (?:variable )?names?)",
              r"\bI (?:have )?(?:kept|left) (?:the|your|all)(?: of)?(?: the| your)?(?: variable)? names?\b",
              r"\b(?:names?|variables?) (?:as (?:you|they) (?:had|are|were|gave|wrote)|are (?:all )?yours|you "
              r"(?:gave|chose))\b",
              rf"\b(?:I (?:have )?(?:kept|left)) (?P<x>{CODE}) (?:as (?:it (?:is|was)|you)|its name|alone|untouched)",
              r"\byour (?:own )?(?:variable )?names?\b(?= (?:are|were|is|was)(?: still)? (?:kept|untouched|as|intact|"
              r"there))",
              r"\b(?:renamed nothing|nothing (?:was|is|has been) renamed|no name was changed)\b")


@rule
def rename(row, s):
    """I did not rename `x`; I kept the names: the question had the name, or names at all."""
    done = False
    for match in kept(s, guard=False):
        if done:
            continue
        done = True
        text = row.value(match.groupdict().get("x") or "") if match.groupdict().get("x") else None
        if text:
            ok = row.data.tree is not None and text in tokens(row.given) or text in row.names_given()
            yield ok, f"the question has no name `{text}`"
        else:
            yield bool(row.names_given()), "the question gives no names"


# What runs once, or only declares: nobody would be here longer without it.
IDLE = {"print", "return", "def", "class", "pass", "self", "import", "from", "__init__", "break", "continue", "=",
        "global"}
without = finder(rf"\bwithout (?:the |a |an |that |this )?(?P<x>{CODE}|{PLAIN})[^.;:]*"
                 r"\b(?P<long>all (?:day|night|week)|for ?ever|hours|weeks|until|till|evening|a good deal longer|"
                 r"still be)\b")
silent = finder(rf"\bwithout (?:the |a |an )?(?P<x>{CODE}),? (?P<what>nothing|you|we|nobody)\b[^.;:]*"
                rf"\b(?P<how>come back|returned|printed|seen?|shown?|show up|appear|on the screen|repeat\w*)")


@rule
def necessity(row, s):
    """Without `x` we should have been here all day: `x` repeats, or works something out."""
    for match in without(s, guard=False):
        text = row.value(match.group("x")) if re.fullmatch(CODE, match.group("x")) else match.group("x")
        parts = [p for p in tokens(text) if re.match(r"\w", p)] or [text]
        if match.group("thing"):
            yield truth(row, s, text)[1], f"the code has no {text}"
            continue
        idle = parts[0] in IDLE or text in row.code.stored | row.code.parameters or text in {
            c.name for c in row.code.classes}
        yield not idle, f"`{text}` saves no time: the code without it would be no slower"
    for match in silent(s, guard=False):
        text, how = row.value(match.group("x")), match.group("how")
        first = (tokens(text) or [text])[0]
        if re.match("come back|returned", how):
            yield first == "return" and any(r.value is not None for r in row.code.all(ast.Return)), \
                f"`{text}` gives nothing back"
        elif re.match("repeat", how):
            yield first in ("for", "while", "range"), f"`{text}` repeats nothing"
        else:
            yield first == "print" and "print" in row.code.called, f"`{text}` shows nothing"


COUNTED = {
    "lines?": lambda r, c: {sum(bool(line.strip()) for line in c.lines)},  # as one counts by eye, blank ones not
    "functions?|defs?": lambda r, c: {len(c.functions), len([f for f in c.functions if f not in c.methods]),
                                      len(c.functions) + len(c.all(ast.Lambda))},
    "methods?": lambda r, c: {len(c.methods), len([m for m in c.methods if m.name != "__init__"]),
                              len([m for m in c.methods if not m.name.startswith("__")])},
    "class(?:es)?": lambda r, c: {len(c.classes)},
    "loops?": lambda r, c: {len(c.all(*LOOPS)), len(c.all(*LOOPS, ast.comprehension))},
    "comprehensions?": lambda r, c: {len(c.all(*COMPREHENSIONS))},
    "lambdas?": lambda r, c: {len(c.all(ast.Lambda))},
    "imports?|modules?": lambda r, c: {len(c.all(ast.Import, ast.ImportFrom)),
                                       sum(len(i.names) for i in c.all(ast.Import, ast.ImportFrom))},
    "arguments?|parameters?": lambda r, c: {len(c.arguments(f)) for f in c.functions} | {
        len(k.args) + len(k.keywords) for k in c.all(ast.Call)},
    "variables?": lambda r, c: {len(c.stored), len(c.stored | c.parameters), len(c.stored | c.parameters - {"self"}),
                                len({t.id for a in c.all(ast.Assign) for t in a.targets if isinstance(t, ast.Name)})},
    "prints?|print (?:statement|call)s?": lambda r, c: {sum(c.name(k.func) == "print" for k in c.all(ast.Call))},
    "returns?|return statements?": lambda r, c: {len(c.all(ast.Return))},
    "conditions?|ifs|tests|comparisons?": lambda r, c: {len(c.all(ast.If, ast.IfExp)), len(c.all(ast.Compare)), len(
        c.all(ast.If, ast.IfExp, ast.While))},
    "branch(?:es)?": lambda r, c: {len(c.all(ast.If, ast.IfExp)) + e for e in (0, 1)},
    "lists": lambda r, c: {len(c.all(ast.List)), len(c.all(ast.List, ast.ListComp)), len(r.data.all(ast.List))},
    "dictionar(?:y|ies)": lambda r, c: {len(c.all(ast.Dict)), len(c.all(ast.Dict, ast.DictComp)), len(
        r.data.all(ast.Dict))},
    "strings?": lambda r, c: {len(c.strings), len(c.strings) + len(c.all(ast.JoinedStr))},
    "statements?": lambda r, c: {len(c.all(ast.stmt)), len(c.tree.body) if c.tree else 0},
}
counting = finder(
    rf"(?P<than>(?:more|fewer|less) than |at (?:least|most) |no (?:more|fewer|less) than )?(?<![\w.,])(?P<n>{NUMBER}) "
    r"(?:(?:short|whole|mere|neat|simple|elementary|basic|lovely|small|tiny|modest|little|plain|entire|honest|separate|"
    rf"nested|different|lazy|of these|of those) )*(?P<what>{'|'.join(COUNTED)})\b(?! (?:of|in|from) (?:the |your |a |"
    rf"any "
    r"|my )?(?:manual|documentation|docs|text|poetry|prose|an? e-?mail|tutorial|page|book|small talk|complaint|inbox|"
    r"school|"
    r"apology))")
roughly = finder(r"\ba (?P<n>handful|few) (?:of )?(?:\w+ )?(?P<what>lines)\b(?! (?:of|in|from) (?:the |an? |my )"
                 r"?(?:manual|documentation|docs|poetry|prose|e-?mail))")


def counts(row, what):
    return next(count for words, count in COUNTED.items() if re.fullmatch(words, what, re.I))(row, row.code)


@rule
def count(row, s):
    """Three lines; two functions; four methods: the code has as many."""
    for match in counting(s):
        before = clause(s, match.start())
        if re.search(r"\b(?:I have|I had|other|others|another|between|lesson|page|drop|pick-up|earlier|manual|last "
                     r"week|"
                     r"yesterday)\b[^,;]*$", before):
            continue
        n, counted = number(match.group("n")), counts(row, match.group("what"))
        if n == 1 and (re.match(r" (?:after|at a time|by|or|upon)\b", s[match.end():])
                       or re.search(r"\b(?:took|takes|costs?|adds?) (?:just |only )?$", s[:match.start()])):
            continue  # one line after the other; importing took one line
        if n == 1 and re.match(r"[^,;]* (?:inside|in|within|around) (?:the other|another)\b", s[match.end():]):
            if match.group("what").startswith("loop"):
                yield row.code.nested_loops(), "no loop is inside another"
            continue
        than = (match.group("than") or "").strip().lower()
        compare = {"more than": lambda k: k > n, "fewer than": lambda k: k < n, "less than": lambda k: k < n,
                   "at least": lambda k: k >= n, "at most": lambda k: k <= n, "no more than": lambda k: k <= n,
                   "no fewer than": lambda k: k >= n, "no less than": lambda k: k >= n}.get(than, lambda k: k == n)
        one = n == 1 and "line" in match.group("what")  # a body of one line is a function of one line
        yield any(map(compare, counted)) or one and any(len(f.body) == 1 for f in row.code.functions), \
            f"{match.group('what')} in the code: {' or '.join(map(str, sorted(counted)))}"
    for match in roughly(s):
        if re.search(r"\bof lines\b|\b(?:a few|handful of) lines\b", match.group()):
            counted = counts(row, "lines")
            yield any(2 <= k <= 9 for k in counted), f"lines in the code: {' or '.join(map(str, sorted(counted)))}"


ITEMS = r"(?:entries|entry|keys?|items?|elements?|values?|numbers?|words?|names?|members?|pairs?|letters?|characters?)"
size_of = finder(rf"(?P<x>{CODE}) (?:\w+ly )?(?:has|holds|contains|comes with|lists|counts) (?:\w+ly "
                 rf")?(?P<n>{NUMBER}) {ITEMS}",
                 rf"\b(?P<kind>list|dictionary|tuple|set) (?:of|with) (?:\w+ly )?(?P<n>{NUMBER})\b(?! (?:of|times|"
                 rf"people))",
                 rf"\b(?:your|these|those|all|the) (?P<n>{NUMBER}) (?P<items>{ITEMS})\b(?! (?:of|that are not))")


@rule
def size(row, s):
    """`d` has 3 entries; a list of five; your four words: a literal of the code or of the input is as long."""
    for match in size_of(s):
        groups, n = match.groupdict(), number(match.group("n"))
        kinds = {"list": ast.List, "dictionary": ast.Dict, "tuple": ast.Tuple, "set": ast.Set}
        wanted = (kinds[groups["kind"].lower()],) if groups.get("kind") else CONTAINERS + (ast.Constant,)
        lengths = set()
        for code in (row.code, row.data):
            nodes = code.all(*wanted)
            if groups.get("x"):
                text = row.value(groups["x"])
                nodes = [v for target, v in code.assigned() if target == text]
            for node in nodes:
                if isinstance(node, ast.Constant):
                    if isinstance(node.value, str):
                        lengths |= {len(node.value), len(node.value.split())}
                elif isinstance(node, CONTAINERS):
                    lengths.add(len(node.keys if isinstance(node, ast.Dict) else node.elts))
        if groups.get("x") and not lengths:
            continue  # a value that only running the code would tell
        if groups.get("items"):
            words = row.given.split()
            lengths |= {len(words), len(row.given), len(row.given.splitlines()),
                        len(re.findall(r"-?\d+", row.question))}
            lengths |= {k for k in range(21) if re.search(
                rf"\b(?:{k}|{list(NUMBERS)[k]})\b", row.instruction, re.I)} if n < 21 else set()
        if not groups.get("kind") or lengths:
            yield n in lengths, f"of length {', '.join(map(str, sorted(lengths))) or 'unknown'}"


LETTING = rf"(?:(?P<f>{CODE}) (?:then |\w+ly |always |never fails to |is what |that )?)?"


def relation(*patterns):
    return finder(*(p.replace("_X", rf"{FILL}(?P<x>{VALUE})").replace("_C", rf"{FILL}(?P<x>{CODE})")
                    .replace("_Y", rf"{FILL}(?P<y>{VALUE})").replace("_F", LETTING) for p in patterns))


def about(row, match):
    """The values in a match, by group, and what its subject in backticks calls itself."""
    return {key: row.value(text) if MARK.fullmatch(text) or key in "xy" else text
            for key, text in match.groupdict().items() if text}


returning = relation(r"_F(?:returns|gives (?:you |us )?back|hands (?:you |us )?back|sends back|hands over|answers with|"
                     r"comes back with) _X(?!\w)(?! (?:loop|statement))",
                     rf"(?P<x>{CODE}) (?:is|gets) (?:what (?:it |is )?)?(?:returned|handed back|given back|sent back)")


@rule
def returns(row, s):
    """Returns, gives back `x`; `x` is returned: a return has it."""
    code = row.code
    for match in returning(s):
        parts = about(row, match)
        text, of = parts["x"], parts.get("f")
        if tokens(text) == ["return"] or not re.fullmatch(rf"{CODE}|{QUOTE}|True|False|None|-?\d+", match.group("x")):
            continue
        if of == "return" or not code.function(of or ""):
            roots = [code.tree] if code.tree else []
        else:
            roots = code.function(of)
        values = []
        for root in roots:
            for node in ast.walk(root):
                value = node.value if isinstance(node, (ast.Return, ast.Yield)) else node.body if isinstance(
                    node, ast.Lambda) else None
                values += alternatives(value) if value is not None else []
        boolean = text in ("True", "False") and any(isinstance(v, (ast.Compare, ast.BoolOp)) or isinstance(
            v, ast.UnaryOp) and isinstance(v.op, ast.Not) or isinstance(v, ast.Call) for v in values)
        quoted = MARK.fullmatch(match.group("x")) and match.group("x")[2] == "q" and any(
            code.within(text, v) or text[1:-1] in code.source(v) for v in values)
        yield boolean or quoted or any(code.same(text, v) for v in values), f"nothing returns `{text}`"


def alternatives(node):
    """What an expression can come to: the branches of a conditional, the parts of a tuple."""
    if isinstance(node, ast.IfExp):
        return [node] + alternatives(node.body) + alternatives(node.orelse)
    if isinstance(node, (ast.Tuple, ast.BoolOp)):
        return [node] + list(getattr(node, "elts", None) or node.values)
    return [node]


going = relation(r"\b(?:loops|iterates|goes|walks|runs|steps|marches|works its way|travels|cycles|passes|wanders|"
                 r"strolls|"
                 r"moves|crawls|trudges|ambles|makes its way)(?: \w+ly| once| all the way| patiently)? (?:over|through|"
                 r"across|along|around|round) _C", r"\b(?:traverses|visits|iterates over) _C",
                 r"\b(?:for|to|at|over|through) (?:each|every)(?: single)? (?:\w+|"
                 + CODE + r") (?:in|of) (?P<x>" + CODE + ")")


@rule
def iterates(row, s):
    """Loops over, goes through, walks along `x`; for each item in `x`: something iterates over it."""
    for match in going(s):
        text = row.value(match.group("x"))
        ok = any(row.code.within(text, n) for n in row.code.iterated())
        ok = ok or any(row.code.within(text, w.test) for w in row.code.all(ast.While))
        yield ok, f"nothing iterates over `{text}`"


printing = relation(r"\b(?:prints|shows|displays|outputs|puts (?=[^.]*on the screen)|printing|printed) _C",
                    rf"\bscreen\b(?: \w+| \w+,){{0,3}} (?P<x>{CODE})",
                    rf"(?P<x>{CODE})(?: \w+){{0,4}} (?:on|to) (?:the|your) screen\b",
                    rf"(?P<x>{CODE}) (?:is|gets|are) (?:then |\w+ly )?(?:printed|displayed|shown|output)\b",
                    rf"(?P<x>{CODE}) (?:goes|ends up|lands|appears) (?:straight )?(?:to|on) the screen")


@rule
def prints(row, s):
    """Prints, displays `x`; `x` is printed: it is in what is printed."""
    for match in printing(s):
        text = row.value(match.group("x"))
        if text == "print":
            continue
        yield any(row.code.within(text, n) for n in row.code.printed()), f"nothing prints `{text}`"
        if re.match(r"[^.;:]*\b(?:nothing else|alone)\b", s[match.end("x"):]):
            yield sum(row.code.name(k.func) == "print" for k in row.code.all(ast.Call)) == 1, "there are more prints"


LINKS = (r"(?:holds|keeps|stores|gets|becomes|means|is|is set to|stands for|goes (?:straight )?in(?:to)?|belongs to|"
         r"inherits from|leaves|comes out of|ends in|gets everything that|remembers|carries|takes|wants|needs|asks for|"
         r"goes by the name of|is filed under|is (?:just |\w+ly )?another word for|hands back|works out|(?:is )?pinned to)")
linking = finder(rf"(?P<x>{CODE}) (?:\w+ly |then |always )?{LINKS} (?:(?:the|a|an|its|their|your|own|new|end|back|of|"
                 rf"\w+ly) ){{0,3}}(?P<y>{CODE})")


@rule
def links(row, s):
    """`x` holds, gets, means, goes into, comes out of `y`: one statement has both, or one is named after its block."""
    code = row.code
    for match in linking(s):
        x, y = row.value(match.group("x")), row.value(match.group("y"))
        found = any(code.within(x, n) and code.within(y, n) for n in code.headers())
        for block in code.functions + code.classes:
            for name, other in ((x, y), (y, x)):
                found = found or block.name == name and code.within(other, block)
        yield found, f"no statement has both `{x}` and `{y}`"


testing = relation(r"\b(?:checks|tests|asks|verifies|makes sure|ensures|wonders|looks|sees|decides|inquires|finds out|"
                   r"compares|checking|testing|asking) (?:to see )?(?:(?:whether|if|that|against) )?(?:it is )?_C",
                   r"\b(?:checks|tests|looks|checking|testing) for _C")


@rule
def tests(row, s):
    """Checks, tests, asks whether `x`: a condition has it."""
    for match in testing(s):
        text = row.value(match.group("x"))
        if text not in ("if", "while", "else", "elif"):
            yield any(row.code.within(text, n) for n in row.code.tests()), f"no condition has `{text}`"


COMPARED = [(r"(?:less|smaller|lower|fewer) than|below|under", ast.Lt, ast.Gt),
            (r"(?:greater|larger|bigger|more|higher) than|above|over", ast.Gt, ast.Lt),
            (r"at least", ast.GtE, ast.LtE), (r"at most", ast.LtE, ast.GtE),
            (r"not (?:equal to|the same as)", ast.NotEq, ast.NotEq),
            (r"equal to|the same as", ast.Eq, ast.Eq), (r"not in", ast.NotIn, None), (r"in", ast.In, None)]
comparing = relation(rf"(?P<x>{CODE}) (?:is|are|was|stays|remains|becomes) (?P<how>"
                     + "|".join(words for words, _, _ in COMPARED) + r"|divisible by|a multiple of) _Y")


@rule
def compares(row, s):
    """`x` is less than, greater than, at least, equal to, divisible by, in `y`: the code compares so."""
    code = row.code
    for match in comparing(s):
        parts = about(row, match)
        x, y, how = parts["x"], parts["y"], parts["how"].lower()
        if how == "in" and not match.group("y").startswith("[[c"):
            continue
        if how in ("divisible by", "a multiple of"):
            yield any(isinstance(n.op, ast.Mod) and code.within(x, n.left) and code.same(y, n.right)
                      for n in code.all(ast.BinOp)), f"no remainder of `{x}` by `{y}`"
            continue
        straight, swapped = next((a, b) for words, a, b in COMPARED if re.fullmatch(words, how))
        found = False
        for node in code.all(ast.Compare):
            sides = [node.left] + node.comparators
            for op, a, b in zip(node.ops, sides, sides[1:]):
                found = found or isinstance(op, straight) and code.within(x, a) and code.same(y, b)
                found = found or bool(swapped) and isinstance(op, swapped) and code.within(x, b) and code.same(y, a)
        if straight in (ast.In, ast.NotIn):
            found = found or any(code.within(x, n.target) and code.within(y, n.iter) for n in code.all(
                ast.For, ast.comprehension)) or any(code.within(y, v) for _, v in code.assigned())
        yield found, f"no comparison of `{x}` with `{y}` that way"


BINARY = {"add": ast.Add, "append": ast.Add, "attach": ast.Add, "put": ast.Add, "insert": ast.Add, "join": ast.Add,
          "subtract": ast.Sub, "take": ast.Sub, "multipl": ast.Mult, "divide": (ast.Div, ast.FloorDiv),
          "raise": ast.Pow}
combining = relation(rf"\b(?P<verb>add|append|attach|insert|put)s _X (?:to|onto|into|in|on|at the end of|to the end "
                     rf"of) _Y",
                     rf"\b(?P<verb>subtract|take)s _X (?:away )?from _Y", rf"\b(?P<verb>multipl)ies _X (?:by|with) _Y",
                     rf"\b(?P<verb>divide)s _X by _Y", rf"\b(?P<verb>raise)s _X to the (?:power of )?_Y",
                     rf"(?P<x>{CODE}) is (?P<verb>add|append|attach|insert|put)(?:ed)? (?:to|onto|into|in) _Y",
                     rf"(?P<x>{CODE}) is (?P<verb>multipl)ied (?:by|with) _Y",
                     rf"(?P<x>{CODE}) is (?P<verb>divide)d by _Y")
alone = relation(r"\b(?P<verb>add|append|attach|insert|subtract|multiply|multiplie|divide)s (?P<x>" + CODE
                 + r")(?! (?:to|onto|into|in|on|by|with|from|at)\b)")


@rule
def combines(row, s):
    """Adds, appends `x` to `y`; multiplies, divides `x` by `y`; subtracts `x` from `y`: the code does."""
    code = row.code
    for match in combining(s):
        parts = about(row, match)
        x, y, verb = parts["x"], parts["y"], parts["verb"].lower()
        if not (match.group("x").startswith("[[c") or match.group("y").startswith("[[c")):
            continue
        if verb in ("subtract", "take"):
            x, y = y, x
        yield combined(code, x, y, BINARY[verb], verb), f"the code does not {parts['verb']} `{x}` and `{y}`"
    for match in alone(s):
        x, verb = row.value(match.group("x")), match.group("verb").lower().replace("multiplie", "multipl")
        kind = next(v for k, v in BINARY.items() if verb.startswith(k))
        ok = any(isinstance(n.op, kind) and code.within(x, n) for n in code.all(ast.BinOp, ast.AugAssign))
        ok = ok or kind is ast.Add and any(code.within(x, a) for k in code.all(ast.Call) if code.name(k.func) in (
            "append", "add", "insert", "extend", "sum", "update", "setdefault") for a in k.args)
        yield ok, f"the code does not {match.group('verb')} `{x}`"


def combined(code, x, y, kind, verb):
    for node in code.all(ast.BinOp, ast.AugAssign):
        if isinstance(node.op, kind):
            left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            if code.within(x, left) and code.within(y, right):
                return True
            if kind in (ast.Add, ast.Mult) and code.within(y, left) and code.within(x, right):
                return True
    if kind is not ast.Add:
        return False
    for call in code.all(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in (
                "append", "add", "insert", "extend", "update", "setdefault", "appendleft", "heappush"):
            if code.within(y, call.func.value) and any(code.within(x, a) for a in call.args):
                return True
    if verb in ("put", "insert", "add"):
        for node in code.all(ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and code.within(y, target.value) and (
                        code.within(x, target) or code.within(x, node.value)):
                    return True
        return any(code.same(y, n) or y in (target,) and code.within(x, n) for target, n in code.assigned()
                   if target == y and code.within(x, n))
    return False


BEGIN = r"(?:starts|begins|sets out|opens|kicks off|starting|beginning)(?: \w+ly)?(?: its)?(?: life| out| off)?"
starting = relation(rf"(?P<v>{CODE}) {BEGIN} (?:as|at|with|from|equal to) _X(?! (?:of|or)\b)",
                    rf"(?P<v>{CODE}) is (?:first |initially )?(?:set to|initiali[sz]ed (?:to|with|as)|initially) _X")
counting_from = relation(rf"\b(?:{BEGIN}|counts(?: up| down)?|counting(?: up| down)?) (?:at|from) _X(?! (?:to|"
                         rf"through)\b)"
                         r"(?! (?:of|minutes|o'clock)\b)")
counting_to = relation(r"\b(?:stops|ends|finishes|halts|leaves off|quits|breaks off)(?: \w+ly)? (?P<how>(?:just |"
                       r"right |one )?"
                       r"(?:before|short of)|at|with|on) _X(?! (?:of|o'clock)\b)",
                       r"\b(?:goes|counts|runs)(?: \w+ly)? (?P<how>up to|as far as) _X(?! (?:of)\b)")
counting_both = relation(r"\b(?:counts|goes|runs|ranges|loops|walks|counting|numbers|steps)(?: \w+ly| up| down)? "
                         r"from _X "
                         r"(?P<how>to|through|up to|down to|till|until) _Y")
DEFINITION = re.compile(r"\b(?:lists|strings|tuples|indexes|indices|positions|Python|counting|index|everything|"
                        r"story)\b")


def bounds(code):
    """(first, last, one past the last) of each range as Python text; None where only running would tell."""
    for first, stop, step in code.ranges:
        by = 1 if step is None else literal(step)
        start = "0" if first is None else str(literal(first)) if literal(first) is not None else code.source(first)
        end = literal(stop)
        past = str(end) if end is not None else code.source(stop)
        last = None
        if end is not None and by and re.fullmatch(r"-?\d+", start):
            values = range(int(start), int(end), int(by or 1))
            last = str(values[-1]) if len(values) else None
        elif isinstance(stop, ast.BinOp) and literal(stop.right) == 1 and isinstance(stop.op, ast.Add) and by == 1:
            last = code.source(stop.left)
        elif isinstance(stop, ast.BinOp) and literal(stop.left) == 1 and isinstance(stop.op, ast.Add) and by == 1:
            last = code.source(stop.right)
        yield start, last, past


def whiled(code, x):
    """Whether a while loop without a range is bounded by x, or begins with it."""
    return any(code.within(x, w.test) for w in code.all(ast.While)) or bool(code.all(ast.While)) and any(
        code.same(x, v) for _, v in code.assigned())


def as_bound(text):
    return text if re.fullmatch(r"-?\d+", text) else bare(text)


@rule
def begins(row, s):
    """`x` starts as 0: it is first bound to that. Starts at 1; counts from 2: a range, a slice or a name does."""
    code = row.code
    for match in starting(s):
        target, x = row.value(match.group("v")), row.value(match.group("x"))
        known = [v for t, v in code.assigned() if t == target] + [v for _, t, v in code.defaults() if t == target]
        if match.group("v").startswith("[[c") and tokens(target)[:1] == ["range"]:
            yield any(start == as_bound(x) for start, _, _ in bounds(code)), f"no range starts at `{x}`"
            continue
        loops = [n.iter for n in code.all(ast.For, ast.comprehension) if code.within(target, n.target)]
        ranged = [start for n in loops for call in ast.walk(n) if isinstance(call, ast.Call) and code.range(call)
                  for start in ["0" if len(call.args) == 1 else code.source(call.args[0]).strip("\x1f")]]
        enum = any(isinstance(k, ast.Call) and code.name(k.func) == "enumerate" for k in loops)
        ok = any(code.same(x, v) for v in known[:1]) or x in ranged or enum and (x == "0" or any(
            code.same(x, a) for k in loops if isinstance(k,
                                                         ast.Call) for a in k.args[1:] + [w.value for w in k.keywords]))
        ok = ok or bool(re.fullmatch(QUOTE, match.group("x")) and any(code.within(x, v) for v in known))
        yield ok, f"`{target}` does not start as `{x}`"
    for match in counting_from(s):
        if DEFINITION.search(s[:match.start()]) or re.search(rf"{CODE} $", s[:match.start()]):
            continue
        x = row.value(match.group("x"))
        ok = any(start == as_bound(x) for start, _, _ in bounds(code)) or whiled(code, x)
        ok = ok or any(code.same(x, n.lower) for n in code.all(ast.Slice)) or any(code.same(x, v) for _,
                                                                                  v in code.assigned())
        ok = ok or any(code.name(k.func) in ("enumerate", "count") and any(code.same(x, a) for a in k.args + [
            w.value for w in k.keywords]) for k in code.all(ast.Call)) or x == "0" and "enumerate" in code.called
        yield ok, f"nothing starts at `{x}`"


@rule
def ends(row, s):
    """Stops before 10; stops at 9; counts from 1 to 9: a range does, or a while loop has that bound."""
    code = row.code
    for match in counting_to(s):
        x = row.value(match.group("x"))
        before = re.search("before|short", match.group("how"))
        ok = any((past if before else last) == as_bound(x) for _, last, past in bounds(code))
        ok = ok or whiled(code, x) or any(code.same(x, n.upper) for n in code.all(ast.Slice))
        yield ok, f"nothing stops {'before' if before else 'at'} `{x}`"
    for match in counting_both(s):
        x, y = row.value(match.group("x")), row.value(match.group("y"))
        ok = any(start == as_bound(x) and last == as_bound(y) for start, last, _ in bounds(code))
        ok = ok or not code.ranges and whiled(code, x) and whiled(code, y)
        yield ok, f"nothing counts from `{x}` to `{y}`"


calling = relation(r"_F(?:calls|invokes|calls on|calls upon) (?P<x>" + CODE + "|itself)",
                   rf"(?P<x>{CODE}) (?:is|gets) (?:then |\w+ly )?(?:called|invoked)(?= (?:with|on|by|once|twice|in|"
                   rf"from|for|to|at"
                   r"|again|here|there|at the)\b|[.,;])",
                   r"\bby calling (?P<x>" + CODE + "|itself)")


@rule
def calls_it(row, s):
    """Calls `f`; `f` is called with ...; calls itself: there is such a call, in the function named as the caller."""
    code = row.code
    for match in calling(s):
        of = row.value(match.groupdict().get("f") or "")
        if match.group("x").lower() == "itself":
            yield code.recursive(of if code.function(of) else None), f"{of or 'no function'} does not call itself"
            continue
        text = row.value(match.group("x"))
        last = [p for p in bare(text).split("\x1f") if re.fullmatch(r"\w+", p)]
        simple = re.fullmatch(r"[\w.]+(?:\(\))?", text.strip("."))
        roots = code.function(of) or ([code.tree] if code.tree else [])
        made = [n for root in roots for n in ast.walk(root) if isinstance(n, ast.Call)]
        if simple:
            ok = bool(last) and any(code.name(n.func) == last[-1] for n in made)
        else:
            ok = any(code.same(text, n) for n in made) or folded(code, text)
        yield ok, f"{of + ' does not call' if code.function(of) else 'nothing calls'} `{text}`"


importing = relation(r"\b(?:imports|importing) _C", rf"(?P<x>{CODE}) is (?:\w+ly )?imported",
                     rf"\bthe (?P<x>{CODE}) (?:module|import|library)\b", rf"\bthe (?:module|library) (?P<x>{CODE})")


@rule
def imports(row, s):
    """Imports `m`; `m` is imported; the `m` module: it is imported."""
    for match in importing(s):
        text = re.sub(r"^(?:import|from) ", "", row.value(match.group("x")))
        if text != "import":
            yield text.split(" ")[0] in row.code.imported or text.split(".")[0] in row.code.imported, \
                f"`{text}` is not imported"


raising = relation(r"\b(?:raises|throws|raising|throwing) _C(?! to)",
                   rf"(?P<x>{CODE}) is (?:\w+ly )?(?:raised|thrown)\b")
catching = relation(r"\b(?:catches|handles|intercepts|forgives|swallows|catching|handling|absorbs|survives) _C",
                    rf"(?P<x>{CODE}) is (?:\w+ly )?(?:caught|handled|forgiven|swallowed)\b")


def exceptional(row, text):
    last = (re.findall(r"\w+", text.split("(")[0]) or [""])[-1]
    return last if last in EXCEPTIONS or re.search(r"(?:Error|Exception|Warning)$", last) else None


@rule
def raises(row, s):
    """Raises, throws `E`: a raise does."""
    for match in raising(s):
        error = exceptional(row, row.value(match.group("x")))
        if error:
            raised = {Code.name(n.exc.func if isinstance(n.exc, ast.Call) else n.exc) for n in row.code.all(ast.Raise)}
            yield error in raised, f"no raise of `{error}`"


@rule
def catches(row, s):
    """Catches, handles `E`: an except clause does."""
    for match in catching(s):
        error = exceptional(row, row.value(match.group("x")))
        if error:
            caught = {Code.name(n) for h in row.code.all(ast.ExceptHandler) for n in ast.walk(h.type or ast.Pass())}
            yield error in caught, f"no except clause for `{error}`"


TAKES = r"(?:takes|accepts|wants|expects|requires|receives|is given|asks for)"
taking = relation(rf"(?P<f>{CODE}|\bthe (?:function|method|lambda)|\bit) {TAKES} (?:\w+ly )?(?P<n>{NUMBER}|no|an|a) "
                  rf"(?:\w+ )?"
                  r"(?:arguments?|parameters?)\b",
                  rf"(?P<f>{CODE}|\bthe (?:function|method|lambda)|\bit) {TAKES} (?:an? |the |only |two |both |three "
                  rf")*(?:argument"
                  rf"s? |parameters? |number |list |string )?(?P<x>{CODE})(?P<more>(?:(?:,| and|, and) (?:an? |the "
                  rf")?{CODE})*)"
                  r"(?! (?:lines?|minutes?))")


@rule
def takes(row, s):
    """`f` takes two arguments; `f` takes `a` and `b`: these are its parameters."""
    code = row.code
    for match in taking(s):
        parts = match.groupdict()
        of = row.value(parts["f"])
        functions = code.function(of) if re.fullmatch(CODE, parts["f"]) else code.functions + code.all(ast.Lambda)
        made = [k for k in code.all(ast.Call) if code.name(k.func) == of.split(".")[-1]] if not functions else []
        if parts.get("n"):
            n = {"no": 0, "a": 1, "an": 1}.get(parts["n"].lower())
            n = number(parts["n"]) if n is None else n
            have = {len(code.arguments(f)) for f in functions} | {len(k.args) + len(k.keywords) for k in made}
            if not functions and not made and code.classes and any(c.name == of for c in code.classes):
                have = {0}
            yield n in have, f"it takes {' or '.join(map(str, sorted(have))) or 'nothing'}"
            continue
        for text in [row.value(t) for t in re.findall(CODE, parts["x"] + parts["more"])]:
            ok = any(text in code.arguments(f) for f in functions) or any(
                code.within(text, a) for k in made for a in k.args + [w.value for w in k.keywords])
            yield ok, f"`{text}` is no parameter of it"


defaulting = relation(rf"(?P<p>{CODE}) (?:\w+ly )?(?:defaults to|falls back (?:to|on)|has (?:the|a) default(?: "
                      rf"value)? of) _X",
                      rf"\bdefault(?: value)? (?:of|for) (?P<p>{CODE}) (?:is|being) _X",
                      rf"(?P<p>{CODE}) is _X by default",
                      r"\bdefault(?:s to| value of| is| of) _X(?! (?:of)\b)",
                      rf"(?P<p>{CODE}) has a default\b(?! (?:value )?of)")


@rule
def default(row, s):
    """`b` defaults to 5; the default for `b` is 5; `b` has a default: so it is declared."""
    code = row.code
    for match in defaulting(s):
        parts = about(row, match)
        target = parts.get("p")
        if "x" not in parts:
            yield any(p == target for _, p, _ in code.defaults()), f"`{target}` has no default"
            continue
        values = [v for _, p, v in code.defaults() if target in (None, p)]
        values += [k.args[-1] for k in code.all(ast.Call) if target in (None, code.name(k.func)) and len(k.args) > 1
                   and code.name(k.func) in ("get", "setdefault", "pop", "getattr", "next")]
        values += [a for k in code.all(ast.keyword) if k.arg == "default" for a in [k.value]]
        yield any(code.same(parts["x"], v) for v in values), f"no such default as `{parts['x']}`"


sorting = relation(r"\b(?:sorted|sorts|ordered|orders|sorting)(?: \w+| " + CODE + r"){0,3}? by _C",
                   r"\b(?:sorts|orders) _C(?! by)")
backwards = finder(rf"\b(?:sorts|sorted|{CODE} (?:is sorted|goes|runs|counts|walks)|it (?:goes|counts|walks|runs|"
                   rf"sorts|reads))"
                   r"(?: \w+| " + CODE + r"){0,5}? (?:in reverse|backwards|in descending order|from (?:the "
                                         r")?(?:largest|highest|"
                   r"biggest|end|back|last)|down)\b")


@rule
def order(row, s):
    """Sorted by `k`: the key has it. Sorts `x`: that is sorted. Sorted in reverse, backwards: something is reversed."""
    code = row.code
    sorts = [k for k in code.all(ast.Call) if code.name(k.func) in (
        "sorted", "sort", "max", "min", "nlargest", "nsmallest")]
    for match in sorting(s):
        text = row.value(match.group("x"))
        if text in ("sorted", "sort", "list.sort"):
            yield bool(sorts), "nothing is sorted"
        elif " by " in match.group():
            yield any(w.arg == "key" and code.within(text, w.value) for k in sorts for w in k.keywords), \
                f"no key of a sort has `{text}`"
        else:
            yield any(code.within(text, n) for k in sorts for n in k.args + [k.func]), f"`{text}` is not sorted"
    for match in backwards(s):
        if not re.search(r"\b(?:I|you|we) (?:\w+ )?$", s[:match.start()]):
            yield code.reversed(), "nothing in the code is reversed"


DOES = {  # verb: what it needs to have after it, and the test
    r"loops|iterates": (r"", either(has(*LOOPS), has(ast.comprehension))),
    r"recurses": (r"", lambda c: c.recursive()),
    r"sorts": (r"", has_sort),
    r"prints": (r"", calls("print")),
    r"returns": (r" (?:it|an?|the|one|whatever|what|something|nothing|everything|your)\b", has(ast.Return, ast.Lambda)),
    r"raises|throws": (r" (?:an?|the) (?:\w+ )?(?:exception|error)\b", has(ast.Raise)),
    r"catches": (r" (?:an?|the|any) (?:\w+ )?(?:exception|error)s?\b", has(ast.ExceptHandler)),
    r"imports": (r" ", has(ast.Import, ast.ImportFrom)),
    r"multiplies": (r"", operation(ast.Mult, ast.Pow, names=("prod",))),
    r"divides": (r"", operation(ast.Div, ast.FloorDiv, ast.Mod, names=("divmod",))),
    r"subtracts": (r"", operation(ast.Sub)),
    r"slices": (r"", has(ast.Slice)),
    r"reverses": (r"", lambda c: c.reversed()),
}
ACTOR = (r"(?:it|the (?:code|program|function|snippet|script|answer|class|method|loop)|this (?:code|program|function|"
         r"snippet)|"
         rf"{CODE})")
doing = [(re.compile(rf"(?:^|[;:,] |\band |\bthat )(?P<who>{ACTOR}) (?:\w+ly |then |also |even |just "
                     rf")?(?:{verb})\b{after}",
                     re.I), verb, test) for verb, (after, test) in DOES.items()]


@rule
def does(row, s):
    """It, the code, `f` sorts, loops, prints, multiplies, divides, slices: something in the code does."""
    for pattern, verb, test in doing:
        for match in pattern.finditer(s):
            if said(s, match):
                yield test(row.code), f"nothing in the code {verb.split('|')[0]}"


ROLES = {"counting": ("len", "count", "Counter", "range", "enumerate", "sum", "+="), "sorting": ("sorted", "sort"),
         "printing": ("print",), "talking": ("print",), "adding": ("sum", "+=", "+", "add", "append"),
         "looping": ("for", "while", "range"), "repeating": ("for", "while", "range", "*"),
         "joining": ("join", "+", "zip"), "splitting": ("split",), "rounding": ("round",), "importing": ("import",)}
role_of = finder(rf"(?P<x>{CODE}) (?:does|is doing|do|takes care of|handles|will do)(?: all| most)?(?: of)? the "
                 rf"(?P<role>{'|'.join(ROLES)})\b", rf"\b(?:let|lets|leaves|left|blame|have|has|use|uses) "
                                                    rf"(?P<x>{CODE}) "
                 rf"(?:to )?(?:do|for)(?: all| most)?(?: of)? the (?P<role>{'|'.join(ROLES)})\b",
                 rf"\b(?P<x>Python|it|I) (?:do|does|did)(?: all| most)?(?: of)? the (?P<role>{'|'.join(ROLES)})\b")


@rule
def role(row, s):
    """`x` does the counting, sorting, talking: that is what `x` is for; Python does it: something in the code is."""
    for match in role_of(s):
        of = ROLES[match.group("role").lower()]
        if not match.group("x").startswith("[["):
            yield bool(row.code.tokens & set(of)), f"nothing in the code does the {match.group('role')}"
            continue
        parts = set(tokens(row.value(match.group("x"))))
        own = [n for p in parts for f in row.code.function(p) for n in tokens(ast.dump(f))]
        ok = bool(parts & set(of)) or bool(own) or match.group("role") in ("counting", "adding") and any(
            isinstance(n.op, ast.Add) and parts & set(row.code.source(n.target).split("\x1f"))
            for n in row.code.all(ast.AugAssign))
        yield ok, f"`{row.value(match.group('x'))}` does no {match.group('role')}"


KINDS = {"variable": lambda c, x: x in c.stored | c.parameters,
         "function": lambda c, x: bool(c.function(x)) or x in c.called or x in vars(builtins) or x == "lambda",
         "method": lambda c, x: any(m.name == x for m in c.methods) or any(
             isinstance(k.func, ast.Attribute) and k.func.attr == x for k in c.all(ast.Call)),
         "class": lambda c, x: any(k.name == x for k in c.classes) or isinstance(vars(builtins).get(x), type),
         "parameter": lambda c, x: x in c.parameters or any(k.arg == x for k in c.all(ast.keyword)),
         "argument": lambda c, x: x in c.parameters or any(c.within(x, a) for k in c.all(ast.Call) for a in k.args + [
             w.value for w in k.keywords]) or any(k.arg == x for k in c.all(ast.keyword)),
         "attribute": lambda c, x: any(a.attr == x for a in c.all(ast.Attribute)),
         "module": lambda c, x: x in c.imported,
         "exception": lambda c, x: x in EXCEPTIONS or any(k.name == x and k.bases for k in c.classes),
         "keyword": lambda c, x: x in __import__("keyword").kwlist,
         "operator": lambda c, x: bool(re.fullmatch(r"[^\w\s\"']+|and|or|not|in|is|not in|is not", x))}
KINDS.update(constant=KINDS["variable"], name=lambda c, x: bool(re.fullmatch(r"[\w.]+", x)))
TYPES = {"list": (ast.List, ast.ListComp), "dictionary": (ast.Dict, ast.DictComp), "tuple": (ast.Tuple,),
         "set": (ast.Set, ast.SetComp), "string": (ast.JoinedStr,), "lambda": (ast.Lambda,)}
KIND = r"(?P<kind>" + "|".join(KINDS) + r"|list|dictionary|tuple|set|string|lambda)\b"
kind_of = finder(rf"(?P<x>{CODE}) is (?:only |simply |just |merely |\w+ly )?(?:an? |the )(?:built-in |humble |plain |"
                 rf"simple |basic |"
                 rf"mere |perfectly \w+ )?{KIND}(?! (?:of|for|name|comprehension))",
                 rf"\b{KIND}(?: is| that is)? (?:called|named|by the name of) (?P<x>{CODE})",
                 rf"\bthe (?:built-in )?{KIND} (?P<x>{CODE})(?! (?:loop|statement))",
                 rf"\bthe (?P<x>{CODE}) {KIND}(?! (?:of|comprehension))")


@rule
def kind(row, s):
    """`x` is a variable, a function, a list; the function `x`; a class called `x`: it is one."""
    code = row.code
    for match in kind_of(s):
        text, what = row.value(match.group("x")), match.group("kind").lower()
        short = bare(text).strip("\x1f").replace("\x1f", "")
        if what in KINDS:
            yield KINDS[what](code, short) or what != "name" and row.data.tree is not None and KINDS[what](
                row.data, short), f"`{text}` is no {what}"
            continue
        values = [v for code_ in (code, row.data) for t, v in code_.assigned() if t == short]
        types = [t for v in values for t, nodes in TYPES.items() if isinstance(v, nodes)
                 or t == "string" and isinstance(v, ast.Constant) and isinstance(v.value, str)]
        known = bool(types) or any(isinstance(v, ast.Constant) for v in values)
        if known:
            yield what in types, f"`{text}` is a {' or '.join(types) or 'number'}"
        elif short in KINDS and short != what or tokens(text)[:1] and tokens(text)[0] in __import__("keyword").kwlist:
            yield what == short, f"`{text}` is no {what}"


built = finder(rf"(?P<x>{CODE}) (?:is|comes) (?:\w+ly )?(?:built[- ]in\b|with Python|part of (?:Python|the language))",
               rf"\b(?:the )?built-in (?:function |method )?(?P<x>{CODE})")


@rule
def built_in(row, s):
    """`x` is built in; the built-in `x`: Python has it, and the code does not define it."""
    for match in built(s):
        text = bare(row.value(match.group("x"))).strip("\x1f").split("\x1f")
        own = {f.name for f in row.code.functions} | {c.name for c in row.code.classes} | row.code.stored
        yes = text[-1] not in own and (text[-1] in vars(builtins) or text[-1] in METHODS
                                       or text[0] in __import__("keyword").kwlist or text[0] in row.code.imported)
        yield yes, f"`{'.'.join(text)}` is not built in"


quoting = finder(rf"\byou (?:said|say|wrote|write|typed|asked|put it|call(?:ed)? it|mention(?:ed)?|spoke of|phrased "
                 rf"it|ordered|"
                 rf"demanded|request(?:ed)?)(?: \w+){{0,3}}?[,:]? (?P<q>{QUOTE})",
                 rf"(?P<q>{QUOTE}),? (?:you (?:said|say|wrote|write|asked|typed|ask|called it|put it)|in your (?:own "
                 rf")?words|as you "
                 r"(?:put|wrote|said|say|call))",
                 rf"\byour (?:own )?(?:words?|phrase|question|message|request)(?: (?:was|were|is|are|says?|"
                 rf"said))?[,:]? (?P<q>{QUOTE})",
                 rf"\bthe words? (?P<q>{QUOTE})")


@rule
def quote(row, s):
    """You said "..."; "...", as you put it; the word "...": the question has these words."""
    def words(text):
        return " ".join(re.findall(r"\w+|[^\w\s]", text.lower())).strip(" .,!?")
    for match in quoting(s):
        if re.search(r"\b(?:without|no|not|never)\b", match.group()):
            continue
        plain = row.hidden[int(MARK.fullmatch(match.group("q")).group(2))].replace("`", "")
        ok = words(plain) in words(row.question)
        ok = ok or plain in row.code.text and match.group().lower().startswith("the word")
        yield ok, f'the question does not say "{plain}"'


words_of = finder(rf"(?P<q>{QUOTE})")


@rule
def word(row, s):
    """ "walrus" is in there, is the quiet one: question or code has a word in quotation marks that nobody speaks."""
    for match in words_of(s, guard=False):
        text = row.hidden[int(MARK.fullmatch(match.group("q")).group(2))]
        spoken = re.search(r"\b(?:say\w*|said|call\w*|ask\w*|answer\w*|by|under|named|mean\w*|asks|without an?) $",
                           s[:match.start()], re.I)
        if re.fullmatch("[A-Za-z]+", text) and not spoken:
            yield text.lower() in row.question.lower() or text in row.code.text, f'nothing has the word "{text}"'


MANNERS = [
    (r"(?:without|no|not even|lacks|missing|forgot) (?:a |the |so much as a )?question mark", lambda q: "?" not in q,
     "the question has a question mark"),
    (r"(?:with|put|added|ends? (?:in|with)|that|the|your|a) (?:an? |the )?question mark", lambda q: "?" in q,
     "the question has no question mark"),
    (r"(?:without|no|not even|not so much as|never said|did not say|forgot) (?:a |the |to say )?\[\[q\d+\]\]", None,
     ""),
    (r"(?:you (?:even )?(?:said|say|wrote)) please\b|\bsaid please\b|your please\b",
     lambda q: re.search(r"\bplease\b", q, re.I), "the question does not say please"),
    (r"(?:without (?:a|so much as a)|no|not even a|did not say|never said|forgot to say) please\b",
     lambda q: not re.search(r"\bplease\b", q, re.I), "the question says please"),
    (r"(?:with|put|added|your|the) (?:an? |the )?exclamation marks?", lambda q: "!" in q or "exclamation" in q,
     "the question has no exclamation mark"),
    (r"\b(?:it is|is it) phrased as a question|phrased (?:it|this|that) as a question|asked it as a question",
     lambda q: "?" in q, "the question is none in form"),
]
MANNERS = [(re.compile(p, re.I), test, why) for p, test, why in MANNERS]


@rule
def manners(row, s):
    """A question mark on it; no question mark; you said please; not even a please: so it is in the question."""
    taken = []
    for pattern, test, why in MANNERS:
        for match in pattern.finditer(s):
            if any(a < match.end() and match.start() < b for a, b in taken):
                continue
            taken.append(match.span())
            if test is None:
                text = row.hidden[int(MARK.search(match.group()).group(2))].lower()
                if text in ("please", "thank you", "thanks"):
                    yield text not in row.question.lower(), f'the question says "{text}"'
            elif not re.search(r"\b(?:I|my) [^,;]*$", clause(s, match.start())):
                yield bool(test(row.instruction)), why


SUPPLY = r"(?:input|example(?: values?| data)?|sample(?: data| values)?|test data|data|values)"
supplied = finder(rf"\byour (?:own |little |neat |lovely )?{SUPPLY}\b",
                  r"\b(?:the|these|those) (?:example|sample) (?:values?|data)\b",
                  rf"\b(?:there is|the) (?:an? )?(?:input|example)(?! of)\b(?=[, ])",
                  rf"\byou (?:have )?(?:even |so generously |kindly |went to the trouble of |so kindly )*(?:supplied|"
                  rf"supplying|brought|"
                  rf"typed out|attached|provided|gave me|prepared|included|enclosed|pasted)(?: me| along)? "
                  rf"(?:an? |your |the |some )?(?:own )?{SUPPLY}\b",
                  rf"\b{SUPPLY} (?:that )?you (?:\w+ly |so \w+ly )*(?:supplied|brought|typed|attached|provided|gave|"
                  rf"prepared|pasted)")
missing = finder(rf"\b(?:there is|you gave me|with|you supplied|you brought) no {SUPPLY}\b",
                 rf"\bwithout (?:any|an?) {SUPPLY}\b",
                 rf"\byou (?:did not|have not|never)(?: even)?(?: bother(?:ed)? to)? (?:suppl\w+|br\w+|giv\w+|gave|"
                 rf"provid\w+|includ\w+|"
                 rf"attach\w*)(?: me)? (?:any|an?|your|some) {SUPPLY}\b",
                 rf"\bno {SUPPLY} (?:was|were) (?:given|supplied|provided)")
invented = finder(rf"\bI (?:have |had to |simply )?(?:made? up|invent(?:ed)?|chose|picked|supplied|provided) (?:the|"
                  rf"some|these|an?|my own) "
                  rf"(?:{SUPPLY}|numbers|words|names)\b")


@rule
def given(row, s):
    """Your input; the example values; you supplied no input; I made up the data: the question brings some, or none."""
    data = bool(row.given.strip()) or bool(re.search(r"\d|\"|\[", row.instruction))
    no = list(missing(s, guard=False))
    for match in no:
        yield not row.given.strip(), "the question brings input"
    done = bool(no)
    for match in supplied(s, guard=False):
        if not done and not re.search(r"own input in\b", s[match.start():match.end() + 4]):
            done = True
            yield data, "the question brings no input"
    for match in invented(s):
        yield not row.given.strip(), "the question brings these"


asking = finder(rf"\byou (?:have |had )?(?:only |merely |just |\w+ly )?(?:asked(?: me)?(?: for)?|wanted|ordered|"
                rf"requested|demanded|said|"
                rf"want|ask for)(?: (?:the|exactly|only|just|no fewer than|precisely|all|some))* "
                rf"(?P<n>{NUMBER})\b(?P<after>(?: \w+)?)",
                rf"\b(?:the|your) (?:number )?(?P<n>\d+) (?:that )?you (?:asked|wanted|typed|gave|mentioned|"
                rf"chose)(?P<after>)")
asking_thing = finder(rf"\byou (?:have |had )?(?:\w+ly )?(?:asked(?: me)? for|wanted|ordered|requested|demanded|"
                      rf"insisted on|specified) "
                      rf"(?:an?|the) {KINDLY}{PLAIN}", rf"\bthe {KINDLY}{PLAIN} (?:that )?you (?:asked for|wanted|"
                                                       rf"ordered|requested)",
                      )
asking_code = finder(rf"\byour (?:own |dear |beloved )?(?P<x>{CODE})", rf"(?P<x>{CODE}) of yours\b",
                     rf"(?P<x>{CODE}),? (?:which |that )?you (?:asked|wanted|gave|sent|supplied|brought|mentioned|"
                     rf"named|chose)\b",
                     rf"\byou (?:asked for|wanted|mentioned|named|specified|called (?:it|this|that)) (?P<x>{CODE})")
possessive = finder(rf"\byour (?:own |little |dear |lovely |neat |precious )?(?P<thing>lists?|dictionar(?:y|ies)|"
                    rf"tuples?|strings?|loops?|"
                    rf"lambdas?|comprehensions?|recursion|slices?|functions?)\b(?! (?:of|to|for|are running))")


@rule
def asked(row, s):
    """You asked for 10; the function you asked for; your list; your `x`: the question has it."""
    for match in asking(s):
        after = match.group("after").strip()
        digits = match.group("n").isdigit()
        counted = any(re.fullmatch(words, after, re.I) for words in COUNTED) or re.fullmatch(ITEMS, after, re.I)
        if digits or counted:
            n = number(match.group("n"))
            words = [w for w, k in NUMBERS.items() if k == n] + [str(n)]
            yield bool(re.search(rf"(?<![\w.])(?:{'|'.join(words)})(?![\w])", row.question,
                                 re.I)), f"the question has no {n}"
    for match in asking_thing(plainly(row, s)):
        label, _ = thing(match.group("thing"))
        yield row.asks_for(label), f"the question asks for no {label}"
    for match in asking_code(s):
        text = row.value(match.group("x"))
        yield row.in_question(text), f"the question has no `{text}`"
    for match in possessive(s, guard=False):
        label, test = thing(match.group("thing"))
        if not inside_idiom(s, match):
            yield row.asks_for(label) or label not in DATA and test(row.code), f"the question has no {label}"


only_line = finder(rf"\b(?:the|that) (?:only )?line (?:with|that has) (?P<x>{CODE})",
                   rf"\b(?:the|that) (?P<x>{CODE})")
only_string = finder(r"\b(?:the|that) string (?:in (?:it|there|here)|is|was|has)\b",
                     rf"{QUOTE}, all (?:alone|by itself)\b")


@rule
def sole(row, s):
    """The line with `print`, the `print`, the string in it; "walrus", all alone: the code has only one."""
    for match in only_line(s, guard=False):
        text = row.value(match.group("x"))
        if text == "print":
            prints = sum(row.code.name(k.func) == "print" for k in row.code.all(ast.Call))
            yield prints == 1, f"calls of print: {prints}"
        elif "line" in match.group():
            lines = sum(bare(text) in joined(tokens(line)) for line in row.code.lines)
            yield lines == 1, f"lines with `{text}`: {lines}"
    for _ in only_string(s):
        # What an f-string is made of has no place of its own before Python 3.12.
        strings = [t for t in tokens(row.code.text) if t.split('"')[0] in ("", "r", "f", "rf", "fr") and '"' in t]
        yield len(strings) == 1, f"strings: {len(strings)}"


rewording = finder(r"\b(?:change|edit|adjust|vary) (?:the )?(?:wording|text|contents?) of (?:the|any|every) strings?\b",
                   r"\bstrings? to taste\b")


@rule
def wording(row, s):
    """You may change the wording of the strings: the question prescribes none of them."""
    for _ in rewording(s):
        fixed = [n.value for n in row.code.strings if n.value.strip() and n.value in row.question]
        yield not fixed, f"the question has {fixed[:1]}"


verbatim = finder(r"\b(?:strings?|quotes|quotation marks|text) (?:is|are|gets?) taken literally\b")


@rule
def literally(row, s):
    """What is between the quotes is taken literally: no string of the code has fields to be filled in."""
    for _ in verbatim(s):
        yield not has(ast.JoinedStr)(row.code) and not calls("format")(row.code), "the code formats a string"


crediting = finder(rf"\b(?:lifting|most of the work|hard part|credit) (?:goes|is left|belongs) to (?P<x>{CODE})",
                   rf"(?P<x>{CODE}) (?:did|does|gets|deserves) (?:all |most |much )?(?:of )?"
                   r"the (?:heavy )?(?:lifting|credit)",
                   rf"\bneeds something, it turns to (?P<x>{CODE})")


@rule
def credit(row, s):
    """`x` does the heavy lifting: it is not `print`, which works nothing out."""
    for match in crediting(s):
        yield row.value(match.group("x")) != "print", "`print` works nothing out"


inheriting = finder(rf"(?P<x>{CODE}) (?:gets|has|inherits|keeps) (?:everything|all) (?:that )?(?P<y>{CODE}) has")


@rule
def inherits(row, s):
    """`A` gets everything that `B` has: `A` defines nothing of it anew."""
    for match in inheriting(s):
        bodies = [{getattr(n, "name", None) for n in c.body} - {None} for key in "xy" for c in row.code.classes
                  if c.name == row.value(match.group(key))]
        yield len(bodies) == 2 and not bodies[0] & bodies[1], "the class defines some of it anew"


AMOUNTS = [(re.compile(words, re.I), test, why) for words, test, why in [
    (r"\b(?:the|these|those) methods\b", lambda c: len(c.methods) > 1, "fewer than two methods"),
    (r"(?:\bself\b|" + CODE + r") rather often\b", lambda c: tokens(c.text).count("self") > 2, "`self` is rare"),
    (r"\bits own state\b", lambda c: any(isinstance(a.ctx, ast.Store) for a in c.all(ast.Attribute)),
     "no attribute is set"),
    (r"\b(?:it|the (?:code|program)) looks (?:\w+ )?up\b", lambda c: calls("get", "index", "find", "setdefault")(c)
     or any(isinstance(n.ctx, ast.Load) for n in c.all(ast.Subscript))
     or any(isinstance(o, (ast.In, ast.NotIn)) for n in c.all(ast.Compare) for o in n.ops), "nothing is looked up"),
]]


@rule
def amount(row, s):
    """The methods; `self` rather often; its own state; it looks things up: there are some, or it does."""
    for words, test, why in AMOUNTS:
        for match in words.finditer(s):
            if said(s, match):
                yield test(row.code), why


# -------------------------------------------------------------------------------------------------------------- report


def check(row):
    """(rule, sentence, whether it is true, why not) of each statement in a row."""
    for sentence, row.hidden in row.sentences:
        for label, find in RULES.items():
            for ok, why in find(row, sentence):
                yield label, row.show(sentence), bool(ok), why


def diversity(rows):
    """Lines on how often the answers repeat themselves and each other."""
    first, sentences, grams, remarked = set(), collections.Counter(), collections.Counter(), 0
    for row in rows:
        shown, named_in = [], collections.Counter()
        for sentence, row.hidden in row.sentences:
            shown.append(row.show(sentence))
            named_in.update({row.value(m) for m in re.findall(CODE, sentence)})
        first.update(shown[:1])
        sentences.update(set(shown))
        mine = set()
        for segment in row.segments:
            words = [w for w in (w.strip(".,;:!?\"'()`").lower() for w in segment.split()) if w]
            mine.update(tuple(words[i:i + 8]) for i in range(len(words) - 7))
        grams.update(mine)
        remarked += any(n > 1 for n in named_in.values())

    def share(counter):
        text, n = counter.most_common(1)[0] if counter else ("", 0)
        return f"{n} rows, {100 * n / max(1, len(rows)):.2f}%: {text if isinstance(text, str) else ' '.join(text)}"
    yield f"rows: {len(rows)}"
    yield f"distinct first sentences: {len(first)}"
    yield f"most frequent sentence: {share(sentences)}"
    yield f"most frequent 8-gram: {share(grams)}"
    yield f"rows that remark on one name in more than one sentence: {remarked}"


def main():
    parser = argparse.ArgumentParser(description="Find false statements that answers make about code and question.")
    parser.add_argument("file")
    parser.add_argument("--field", default="output_passive_aggressive", help="the column of the answers")
    parser.add_argument("--diversity", action="store_true", help="also measure how much the answers repeat")
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as file:
            rows = [Row(r["instruction"], r.get("input") or "", r[options.field]) for r in json.load(file)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{options.file}: {type(error).__name__}: {error}: must be JSON, a list of rows with instruction, "
              f"input and "
              f"{options.field}", file=sys.stderr)
        return 2
    checked, false = collections.Counter(), collections.Counter()
    for i, row in enumerate(rows):
        for label, sentence, ok, why in check(row):
            checked[label] += 1
            if not ok:
                false[label] += 1
                print(f"{i}\t{label}\t{sentence}\t{why}")
    print(f"rule: statements checked, false ({len(rows)} rows)")
    for label in RULES:
        print(f"  {label}: {checked[label]}, {false[label]}")
    print(f"  all: {sum(checked.values())}, {sum(false.values())}")
    if options.diversity:
        for line in diversity(rows):
            print("  " + line)
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
