#!/usr/bin/env python3
"""Writes unicode.txt: what Hugging Face's engines know of Unicode, found by asking them about
every code point. Needs tokenizers 0.23.3 and a Python whose unicodedata is at least Unicode 13.

    python make_tables.py

The engines differ in age: oniguruma's classes are Unicode 16, Rust's char::is_numeric is Unicode 17, the NFC
crate is older than Unicode 13. unicodedata only proposes decompositions and combining classes; what the engine does not
do is left out, and the finished NFC table is tried against the engine on every code point and on random texts.
"""
import itertools, os, random, unicodedata
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
HERE = os.path.dirname(os.path.abspath(__file__))
ALL = [cp for cp in range(0x110000) if not 0xD800 <= cp <= 0xDFFF]
NOTE = "# Written by make_tables.py from tokenizers 0.23.3, in hexadecimal: what Hugging Face's engines know of Unicode.\n"
nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


def engine(rx):
    split = pre_tokenizers.Split(Regex(rx), "removed")
    return [cp for cp in ALL if "".join(x for x, _ in split.pre_tokenize_str("\x01" + chr(cp))) == "\x01"]


def word_characters():
    """Those that make a single_word added token part of a longer word: \\w of Rust's regex."""
    tok = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tok.add_tokens([AddedToken("cat", normalized=False, single_word=True)])
    return [cp for cp in ALL if "cat" not in tok.encode("cat" + chr(cp)).tokens]


def numeric():
    digits = pre_tokenizers.Digits(individual_digits=False)
    return [cp for cp in ALL if len(digits.pre_tokenize_str("a" + chr(cp))) == 2]


def ranges(cps):
    out = []
    for cp in sorted(cps):
        if out and out[-1][1] == cp - 1:
            out[-1][1] = cp
        else:
            out.append([cp, cp])
    return out


def categories():
    """Runs of code points of the same category, [length, number of the category] each: 0 for others and surrogates, and
    the place in this list from 1 on."""
    of = [0] * 0x110000
    for n, name in enumerate(("Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S"), 1):
        for cp in engine(r"\p{%s}" % name):
            assert of[cp] == 0, hex(cp)
            of[cp] = n
    assert [i for i, n in enumerate(of) if 1 <= n <= 5] == engine(r"\p{L}") and [i for i, n in enumerate(of) if n == 7] == engine(r"\p{N}")
    return [[len(list(run)), n] for n, run in itertools.groupby(of)]


def punctuation():
    marks = pre_tokenizers.Punctuation("isolated")
    return [cp for cp in ALL if len(marks.pre_tokenize_str("a" + chr(cp))) == 2]


def composition_tables():
    """(pairs, exclusions, classes): one-level decompositions [c, a, b] with b = 0 for single ones, those among them
    that never compose, and {code point: canonical combining class}. Hangul is left to arithmetic."""
    pairs, excluded = [], []
    for cp in ALL:
        c = chr(cp)
        if nfd(c) == c or 0xAC00 <= cp <= 0xD7A3:
            continue
        parts = [int(x, 16) for x in unicodedata.decomposition(c).split()]
        assert 1 <= len(parts) <= 2 and nfd("".join(map(chr, parts))) == nfd(c), hex(cp)
        pairs.append((cp, parts[0], parts[1] if len(parts) == 2 else 0))
        if len(parts) == 2 and nfc(c) != c:
            excluded.append(cp)
    classes = {}
    for cp in ALL:
        ccc = unicodedata.combining(chr(cp))
        # A mark of class ccc trades places with a mark of another class that stands on the wrong side of it.
        probes = [chr(0x338), chr(0x345)]  # classes 1 and 240
        if ccc and any(nfd(chr(cp) + p) != chr(cp) + p or nfd(p + chr(cp)) != p + chr(cp) for p in probes):
            classes[cp] = ccc
    return pairs, excluded, classes


def model(pairs, excluded, classes):
    """NFC as Unicode defines it, over these tables."""
    decomposition = {c: (a, b) for c, a, b in pairs}
    composition = {(a, b): c for c, a, b in pairs if b and c not in set(excluded)}

    def decompose(cp):
        if 0xAC00 <= cp <= 0xD7A3:
            s = cp - 0xAC00
            return [0x1100 + s // 588, 0x1161 + s % 588 // 28] + ([0x11A7 + s % 28] if s % 28 else [])
        if cp not in decomposition:
            return [cp]
        a, b = decomposition[cp]
        return decompose(a) + ([b] if b else [])

    def compose(a, b):
        if 0x1100 <= a <= 0x1112 and 0x1161 <= b <= 0x1175:
            return 0xAC00 + (a - 0x1100) * 588 + (b - 0x1161) * 28
        if 0xAC00 <= a <= 0xD7A3 and (a - 0xAC00) % 28 == 0 and 0x11A8 <= b <= 0x11C2:
            return a + b - 0x11A7
        return composition.get((a, b))

    def normalize(text):
        cps = [d for c in text for d in decompose(ord(c))]
        i = 0
        while i < len(cps):
            j = i
            while j < len(cps) and classes.get(cps[j], 0):
                j += 1
            cps[i:j] = sorted(cps[i:j], key=lambda c: classes[c])
            i = j + 1
        out, starter, last = [], -1, 0
        for c in cps:
            ccc = classes.get(c, 0)
            whole = compose(out[starter], c) if starter >= 0 and (last == 0 and starter == len(out) - 1 or last < ccc) else None
            if whole is not None:
                out[starter] = whole
                continue
            if ccc == 0:
                starter = len(out)
            last = ccc
            out.append(c)
        return "".join(map(chr, out))

    return normalize


def check(pairs, excluded, classes):
    mine = model(pairs, excluded, classes)
    for cp in ALL:
        assert mine(chr(cp)) == nfc(chr(cp)), hex(cp)
    rnd = random.Random(1)
    marks = list(classes)
    pool = marks + [x for p in pairs for x in p if x] + list(range(0x1100, 0x1200)) + [0xAC00, 0xAC01, 0xAC1C]
    for _ in range(200_000):
        text = "".join(chr(rnd.choice(marks if rnd.random() < 0.5 else pool)) for _ in range(rnd.randint(1, 6)))
        assert mine(text) == nfc(text), [hex(ord(c)) for c in text]
    # every pair of a code point that has to do with composition and a mark of each class
    one_each = {v: k for k, v in classes.items()}
    for cp in marks:
        for mark in one_each.values():
            for text in (chr(cp) + chr(mark), chr(mark) + chr(cp)):
                assert mine(text) == nfc(text), [hex(ord(c)) for c in text]


def table(name, doc, numbers):
    """A section of unicode.txt."""
    text = [f"{n:x}" for n in numbers]
    lines = [" ".join(text[i:i + 24]) + "\n" for i in range(0, len(text), 24)]
    return f"\n# {doc}\n{name}:\n" + "".join(lines)


def main():
    pairs, excluded, classes = composition_tables()
    check(pairs, excluded, classes)
    marks = []
    for cp in sorted(classes):
        if marks and marks[-1][1] == cp - 1 and marks[-1][2] == classes[cp]:
            marks[-1][1] = cp
        else:
            marks.append([cp, cp, classes[cp]])
    each = "first and last of each range."
    text = NOTE
    for name, doc, groups in (
            ("spaces", "\\s of the split patterns, and what lstrip and rstrip swallow: " + each, ranges(engine(r"\s"))),
            ("punctuation", "What the Punctuation pre-tokenizer takes for it: " + each, ranges(punctuation())),
            ("numeric", "What the Digits pre-tokenizer takes for a digit: " + each, ranges(numeric())),
            ("words", "What makes the neighbour of a single_word token part of a longer word: " + each,
             ranges(word_characters())),
            ("categories", "The categories of the split patterns, from code point 0 on: length of each run, and Lu 1, Ll 2, "
             "Lt 3, Lm 4, Lo 5, M 6, N 7, P 8, S 9, others 0.", categories()),
            ("decompositions", "Canonical decompositions, one step each: a character and the two (or one, and 0) that it "
             "stands for.", pairs),
            ("apart", "The pairs among them that NFC leaves apart.", [[cp] for cp in excluded]),
            ("marks", "Marks: first and last of each range, and its canonical combining class.", marks)):
        text += table(name, doc, [n for group in groups for n in group])
    with open(os.path.join(HERE, "unicode.txt"), "w", encoding="ascii") as f:
        f.write(text)
    print("decompositions", len(pairs), "not composed", len(excluded), "marks", len(classes))


if __name__ == "__main__":
    main()
