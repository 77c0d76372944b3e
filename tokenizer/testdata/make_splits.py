#!/usr/bin/env python3
"""Writes splits.jsonl: how tokenizers splits texts with the pre-tokenizers of published models. Needs tokenizers 0.23.3.

    python make_splits.py

The first line has the texts. Then a line each: a name, the pre-tokenizer, the lengths of the pre-tokens of every text in
bytes, and the sha256 of those of texts with single code points (see code_points).
"""
import hashlib, json, os, random
import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
HERE = os.path.dirname(os.path.abspath(__file__))
BEFORE, UPPER, LOWER = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT, SPACE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = BEFORE + UPPER + "*" + LOWER + "+|" + BEFORE + UPPER + "+" + LOWER + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACE
O200K = TEKKEN.replace(LOWER + "+", LOWER + "+" + SHORT + "?").replace(LOWER + "*", LOWER + "*" + SHORT + "?").replace(r"|\p{N}|", r"|\p{N}{1,3}|")
LETTERS = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d"
           "\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5")  # the first of them
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def level(use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def digits(each):
    return {"type": "Digits", "individual_digits": each}


def punctuation(behavior):
    return {"type": "Punctuation", "behavior": behavior}


PUBLISHED = {
    "tekken": [split(TEKKEN), level()],
    "gpt-4o": [split(O200K), level()],
    "gpt-4o, matches kept": [split(O200K, "Removed", True), level()],
    "gpt-4, possessive": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), level()],
    "qwen3.5": [split(SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACE), level()],
    "seed-coder": [split(SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + SPACE), level()],
    "viking": [split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), digits(True), level()],
    "minerva": [split(r"\p{N}"), level(True)],
    "falcon": [punctuation("Contiguous"), level(True), digits(False), split("[0-9][0-9][0-9]")],
    "digits and marks after bytes": [punctuation("Isolated"), level(True), digits(True), split(r"[\p{Lu}\p{N}][^\s\p{P}]"), punctuation("Contiguous")],
    "deepseek-coder": [split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), digits(True), level()],
    "deepseek-llm": [split(r"[\r\n]"), split(r"\s?[" + LETTERS + "]+"), split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
                     split(r"\s+$"), split(CJK), digits(True), level()],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                    split(r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*""" + SPACE), level()],
    "space at line ends": [split(r"\s+$"), level()],
}
PARTS = ["a", "B", "\u00e9", "\u00c9", "\u01c5", "\u02b0", "\u4e2d", "\u3042", "\uac00", "\u0627", "\u0939\u093f", "e\u0301", "\u0301", "1", "2", "\u0663",
         "\u00bd", "\u2167", " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u3000", "\u2028", "\x1c", "!", ",", "-", "/", "'", "'s", "'S",
         "'\u017f", "'LL", "(", ")", "|", "$", "+", "^", "<", "\u2014", "\u3002", "\u060c", "\u2615", "\U0001f469\u200d\U0001f467", "\u200b", "\x00",
         "\ufffd", "\U00010400", "\U00010428", "\u212a", "Word", "WORD", "1234567", "x_y", "\n/", "\u0410\u0431", "\u24b6"]
TEXTS = ["HelloWorld HELLOworld helloWORLD's I'LL", "x).\n\n  y  \n\t z   ", "3.14159 12,345 \u0661\u0662\u0663\u0664", "def f(x):\n    return x**2 // 3  # ok\n\n",
         "\u6211\u67093\u4e2a\u82f9\u679c\u3002It's 5\u5143\uff01", "na\u00efve caf\u00e9 e\u0301t\u00e9 \u01c5 \u03a3\u038a\u03a3 \u1e9e\u00df", "a\u0301\u0301 \u0301b 1\u0301", "https://a.b/c//\n/d?e=f&g",
         "'s 't'RE x'\u017fy 'lL", " \u3000\u3000x \u00a0 y\x1cz", "\U0001f600\U0001f469\u200d\U0001f467!! \u2615\ufe0f", "\x00\x00a\x07 \u200b\u200bb"]


def cuts(pre, text):
    return [len(piece) for piece, _ in pre.pre_tokenize_str(text)]  # a character for each byte


def code_points(pre):
    sums = hashlib.sha256()
    for cp in list(range(0x3100)) + list(range(0x3100, 0x110000, 61)):
        if not 0xD800 <= cp <= 0xDFFF:
            sums.update(" ".join(map(str, cuts(pre, f"a{chr(cp)}B {chr(cp)}{chr(cp)}1"))).encode() + b"\n")
    return sums.hexdigest()


def main():
    r = random.Random(5)
    texts = TEXTS + ["".join(r.choice(PARTS) for _ in range(r.randint(2, 12))) for _ in range(60)]
    path = os.path.join(HERE, "splits.jsonl")
    with open(path, "w", encoding="ascii", newline="\n") as f:
        f.write(json.dumps({"texts": texts}, separators=(",", ":")) + "\n")
        for name, parts in PUBLISHED.items():
            doc = json.loads(Tokenizer(models.BPE()).to_str())
            doc["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
            pre = Tokenizer.from_str(json.dumps(doc)).pre_tokenizer
            row = {"name": name, "pre_tokenizer": doc["pre_tokenizer"], "cuts": [cuts(pre, t) for t in texts], "code_points": code_points(pre)}
            f.write(json.dumps(row, separators=(",", ":")) + "\n")
    print(path, os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
