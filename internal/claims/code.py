"""What a piece of Python has in it."""

import ast
import builtins
import re

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
STRING_METHODS = {name for name in dir(str) if not name.startswith("_")} - {"count", "index"}
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
