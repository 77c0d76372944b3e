"""Rules about what code contains: names, loops, lists, and why they are there."""

import ast
import re

from code import COMPREHENSIONS, bare, joined, literal, tokens
from prose import CODE
from rule import finder, rule
from things import DATA, KINDLY, PLAIN, SYNONYMS, THING, THINGS, has, thing

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
