"""Things that prose can say are in code: their words, and whether the code has them."""

import ast
import re

from code import COMPREHENSIONS, Code, FUNCTIONS, LOOPS, STRING_METHODS, literal


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
