#!/usr/bin/env python3
"""Writes decodes.jsonl: what Hugging Face makes of every token, as the first and as a later one, with every kind of
decoder. Needs tokenizers 0.23.3.

    python make_decodes.py

A line each: "file" is a tokenizer.json, and "texts" has for every id what its sequences decode to (see sequences), with
special tokens and without.
"""
import json, os
import tokenizers
from tokenizers import Tokenizer

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
M = "\u2581"
PLAIN = ["a", M, M * 2, M * 3, M + "a", M * 2 + "a", "a" + M, "a" + M + "b", M + "a" + M + "b" + M, " ", "  ", " a", "_", "__a",
         "a_b", "\n", "\u00e9", "<0x20>", "<0x41>", "<0xC3>", "<0xA9>", "<0xFF>", "<0x4>", "<0xe2>", "xx", "xxa", "xy", "\ufffd"]
LEVEL = ["a", "\u0120", "\u0120\u0120", "\u0120a", "\u0120\u0120a", "a\u0120", "\u00c3", "\u00a9", "\u00c3\u00a9", "\u00e2\u0138", "\u0123", "\u010a",
         "\u0120\u010a\u0120", " ", " a", "a b", "\u2615", "\u00e9", "\u0120\u2615", "\u00f0\u0141\u013a", "\u0122", M, "<0x41>", "\u00ff", "\u00ed\u0142\u0122"]


def file(tokens, decoder, before=None):
    added = [{"id": len(tokens) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": special} for i, (text, special) in enumerate([("<s>", True), (M + "<r>", True), ("[R]", False), (M * 2 + "n" + M, False)])]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": before,
            "post_processor": None, "decoder": decoder, "model": {"type": "BPE", "dropout": None, "unk_token": None,
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {text: i for i, text in enumerate(tokens)}, "merges": []}}


def sequences(t, tokens):
    """a is 0, <s> the first added token, [R] the third."""
    a, s, r = 0, tokens, tokens + 2
    return [[t], [t, a], [a, t], [t, t], [s, t], [t, s, t], [r, t], [s, s, t, t, a]]


def decoders():
    replace = lambda old, new: {"type": "Replace", "pattern": {"String": old}, "content": new}
    strip = lambda content, start: {"type": "Strip", "content": content, "start": start, "stop": 0}
    fuse, fallback = {"type": "Fuse"}, {"type": "ByteFallback"}
    for scheme in ("always", "first", "never"):
        yield {"type": "Metaspace", "replacement": M, "prepend_scheme": scheme, "split": True}
    yield {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": False}
    yield fuse
    yield fallback
    yield replace(M, " ")
    for parts in ([replace(M, " "), fallback, fuse, strip(" ", 1)], [replace(M, " "), fallback, fuse], [replace(M, " "), fuse, strip(" ", 2)],
                  [fallback, fuse, strip(M, 1)], [replace(M, " "), fallback], [replace("xx", "x"), replace("xa", "b"), fuse, strip("x", 1)],
                  [replace(M, "<0x41>"), fallback, fuse, strip("A", 3)], [fuse, strip(" ", 0)], [fuse, strip("a", 5)]):
        yield {"type": "Sequence", "decoders": parts}


def main():
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    files = [file(LEVEL, level, level)] + [file(PLAIN, decoder) for decoder in decoders()]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "decodes.jsonl"), "w") as out:
        for f in files:
            tok, n = Tokenizer.from_str(json.dumps(f)), len(f["model"]["vocab"])
            texts = [[[tok.decode(ids, skip_special_tokens=skip) for ids in sequences(t, n)] for skip in (False, True)] for t in range(n + 4)]
            out.write(json.dumps({"file": f, "texts": texts}, separators=(",", ":"), ensure_ascii=False) + "\n")


main()
