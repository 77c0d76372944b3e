"""Rules about the question: what it says, brings and asks for."""

import re

from behavior import COUNTED, ITEMS
from contents import inside_idiom, plainly
from prose import CODE, MARK, NUMBER, NUMBERS, QUOTE, number
from rule import clause, finder, rule
from things import DATA, KINDLY, PLAIN, thing

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
