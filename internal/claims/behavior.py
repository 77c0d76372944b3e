"""Rules about what code does: how much of it there is, what it returns, prints, tests, calls."""

import ast
import builtins
import re

from code import COMPREHENSIONS, Code, EXCEPTIONS, LOOPS, bare, literal, tokens
from contents import folded
from prose import CODE, MARK, NUMBER, QUOTE, number
from rule import about, clause, finder, relation, rule, said
from things import calls, either, has, has_sort, operation

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


alone = relation(r"\b(?P<verb>add|append|attach|insert|subtract|multiply|multiplie|divide)s (?P<x>" + CODE
                 + r")(?! (?:to|onto|into|in|on|by|with|from|at)\b)")


BEGIN = r"(?:starts|begins|sets out|opens|kicks off|starting|beginning)(?: \w+ly)?(?: its)?(?: life| out| off)?"
starting = relation(rf"(?P<v>{CODE}) {BEGIN} (?:as|at|with|from|equal to) _X(?! (?:of|or)\b)",
                    rf"(?P<v>{CODE}) is (?:first |initially )?(?:set to|initiali[sz]ed (?:to|with|as)|initially) _X")
counting_from = relation(rf"\b(?:{BEGIN}|counts(?: up| down)?|counting(?: up| down)?) (?:at|from) _X(?! (?:to|"
                         rf"through)\b)"
                         r"(?! (?:of|minutes|o'clock)\b)")
DEFINITION = re.compile(r"\b(?:lists|strings|tuples|indexes|indices|positions|Python|counting|index|everything|"
                        r"story)\b")


def starts(code):
    """Where each range starts, as Python text."""
    for first, _, _ in code.ranges:
        yield "0" if first is None else str(literal(first)) if literal(first) is not None else code.source(first)


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
            yield any(start == as_bound(x) for start in starts(code)), f"no range starts at `{x}`"
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
        ok = any(start == as_bound(x) for start in starts(code)) or whiled(code, x)
        ok = ok or any(code.same(x, n.lower) for n in code.all(ast.Slice)) or any(code.same(x, v) for _,
                                                                                  v in code.assigned())
        ok = ok or any(code.name(k.func) in ("enumerate", "count") and any(code.same(x, a) for a in k.args + [
            w.value for w in k.keywords]) for k in code.all(ast.Call)) or x == "0" and "enumerate" in code.called
        yield ok, f"nothing starts at `{x}`"


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


raising = relation(r"\b(?:raises|throws|raising|throwing) _C(?! to)",
                   rf"(?P<x>{CODE}) is (?:\w+ly )?(?:raised|thrown)\b")
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
