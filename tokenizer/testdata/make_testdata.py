#!/usr/bin/env python3
"""Writes the tokenizers and vectors of this folder: small ones of every kind that the package reads, and what Hugging
Face makes of texts.json with them. Needs tokenizers 0.23.3; the corpus is any public-domain English text.

    python make_testdata.py CORPUS.txt...

bytelevel.json  a byte-level BPE model in the form of Llama 3: split pattern, ignore_merges, a template with BOS
fallback.json   a BPE model with byte fallback in the form of Llama 2: normalizer, no pre-tokenizer
variants.jsonl  a line each: a name, the file, "patch": what is changed in it (see patched), and for each text of
                texts.json what comes out. Absent means: ids_special is ids with BOS in front; ids_plain is ids; decoded
                is the text; decoded_skip is decoded.
"""
import copy, json, os, sys
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
MARK = "\u2581"


def corpus(paths):
    return [open(p, encoding="utf-8-sig", newline="").read()[:200_000] for p in paths]


def special(content, **flags):
    return AddedToken(content, special=True, normalized=flags.pop("normalized", False), **flags)


def byte_level(texts):
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=560, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    doc = json.loads(tok.to_str())
    vocab = doc["model"]["vocab"]
    for word in ("qua", "\u0120zebra", "\u00e4\u00b8\u0143"):  # in the vocabulary, but no merge leads to them
        vocab[word] = len(vocab)
    tok = Tokenizer.from_str(json.dumps(doc))
    tok.add_special_tokens([special("<|begin_of_text|>"), special("<|eot_id|>"), special("<mask>", lstrip=True)])
    tok.add_tokens([AddedToken("[R]", rstrip=True, normalized=False), AddedToken("cat", single_word=True, normalized=False),
                    AddedToken("<a>", normalized=False), AddedToken("<a><b>", normalized=False), AddedToken("  ", normalized=False),
                    AddedToken("\u00c5ngstr\u00f6m", normalized=False), AddedToken("na\u00efve\u2615", normalized=True)])
    bos = "<|begin_of_text|>"
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                              processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tok.token_to_id(bos))])])
    return json.loads(tok.to_str())


def fallback(texts):
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # while training: words begin with the mark
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=620, special_tokens=names, limit_alphabet=70, show_progress=False))
    doc = json.loads(tok.to_str())
    model = doc["model"]
    for n in (2, 4, 8):  # runs of spaces, as Llama 2 has
        model["vocab"][MARK * n] = len(model["vocab"])
        model["merges"].append([MARK * (n // 2), MARK * (n // 2)])
    doc["pre_tokenizer"] = None
    doc["added_tokens"] = [t for t in doc["added_tokens"] if t["id"] < 3]
    doc["decoder"] = json.loads('{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},'
                                '{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}')
    doc["post_processor"] = json.loads(
        '{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],'
        '"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}}')
    return doc


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def level(**flags):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **flags}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def metaspace(scheme, **more):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, **more}


def variants(base_bytes, base_fallback):
    inner = level(use_regex=False)
    digits = {"type": "Digits", "individual_digits": True}
    yield "llama3", "bytelevel.json", {}
    yield "llama3, matches kept", "bytelevel.json", {"pre_tokenizer": sequence(split(LLAMA3, "Removed", True), inner)}
    yield "qwen2", "bytelevel.json", {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence(split(QWEN2), inner), "model": {"ignore_merges": False}}
    yield "gpt2", "bytelevel.json", {"pre_tokenizer": level(), "model": {"ignore_merges": False}}
    yield "gpt2, space in front", "bytelevel.json", {"pre_tokenizer": level(add_prefix_space=True)}
    yield "smollm2", "bytelevel.json", {"pre_tokenizer": sequence(digits, level()), "model": {"ignore_merges": False}}
    yield "digits in runs", "bytelevel.json", {"pre_tokenizer": sequence(dict(digits, individual_digits=False), level())}
    yield "digits and llama3", "bytelevel.json", {"pre_tokenizer": sequence(digits, split(LLAMA3), inner)}
    yield "no split", "bytelevel.json", {"pre_tokenizer": inner}
    gone = ["q", "z", "\u00e4"]
    yield "bytes missing", "bytelevel.json", {"without": gone}  # left out of the text
    yield "bytes unknown", "bytelevel.json", {"without": gone, "model": {"unk_token": "x"}}

    yield "llama2", "fallback.json", {}
    normalized = copy.deepcopy(base_fallback["added_tokens"])
    for t in normalized:
        t["normalized"] = t["id"] != 0
    yield "llama2, tokens normalized", "fallback.json", {"added_tokens": normalized}
    for scheme in ("first", "always", "never"):
        yield f"mistral, {scheme}", "fallback.json", {"normalizer": None, "pre_tokenizer": metaspace(scheme, split=False)}
    yield "metaspace, words", "fallback.json", {"normalizer": None, "pre_tokenizer": metaspace("first"), "decoder": metaspace("first")}
    yield "metaspace, old form", "fallback.json", {"normalizer": None, "decoder": metaspace("never"),
                                                   "pre_tokenizer": {"type": "Metaspace", "str_rep": MARK, "replacement": MARK, "add_prefix_space": True}}
    yield "merges across spaces", "fallback.json", {"merge": ["e", MARK]}
    yield "whole texts that are tokens", "fallback.json", {"model": {"ignore_merges": True}}
    yield "unknown fused", "fallback.json", {"model": {"byte_fallback": False}}
    yield "unknown each", "fallback.json", {"model": {"byte_fallback": False, "fuse_unk": False}}
    yield "some bytes", "fallback.json", {"without": ["<0xE4>", "<0xF0>", "<0xC3>"]}


def patched(doc, patch):
    """Parts of the file replaced, fields of its model replaced, tokens renamed out of the way with the merges that need
    them dropped ("without"), or a merge put in front of all others ("merge")."""
    doc = copy.deepcopy(doc)
    vocab, merges = doc["model"]["vocab"], doc["model"]["merges"]
    for key, part in patch.items():
        if key == "without":
            for token in part:
                vocab["gone " + token] = vocab.pop(token)
            merges[:] = [m for m in merges if m[0] in vocab and m[1] in vocab and m[0] + m[1] in vocab]
        elif key == "merge":
            vocab["".join(part)] = len(vocab)
            merges.insert(0, part)
        elif key == "model":
            doc["model"].update(part)
        else:
            doc[key] = part
    return doc


def vectors(tok, texts):
    before_after = [tok.token_to_id(t) for t in ("<|begin_of_text|>", "<s>") if tok.token_to_id(t) is not None]
    rows = []
    for text in texts:
        ids = tok.encode(text, add_special_tokens=False).ids
        r = {"ids": ids}
        whole = tok.encode(text, add_special_tokens=True).ids
        if whole != before_after + ids:
            r["ids_special"] = whole
        tok.encode_special_tokens = True
        plain = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        if plain != ids:
            r["ids_plain"] = plain
        decoded = tok.decode(ids, skip_special_tokens=False)
        if decoded != text:
            r["decoded"] = decoded
        skip = tok.decode(ids, skip_special_tokens=True)
        if skip != decoded:
            r["decoded_skip"] = skip
        rows.append(r)
    return rows


def write(name, doc):
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="\n") as f:
        json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    print(name, os.path.getsize(os.path.join(HERE, name)), "bytes")


def main():
    texts = json.load(open(os.path.join(HERE, "texts.json"), encoding="utf-8"))
    lines = corpus(sys.argv[1:])
    bases = {"bytelevel.json": byte_level(lines), "fallback.json": fallback(lines)}
    for name, doc in bases.items():
        write(name, doc)
    with open(os.path.join(HERE, "variants.jsonl"), "w", encoding="ascii", newline="\n") as f:
        for name, base, patch in variants(bases["bytelevel.json"], bases["fallback.json"]):
            tok = Tokenizer.from_str(json.dumps(patched(bases[base], patch)))
            f.write(json.dumps({"name": name, "base": base, "patch": patch, "vectors": vectors(tok, texts)}, separators=(",", ":")) + "\n")
    print("variants.jsonl", os.path.getsize(os.path.join(HERE, "variants.jsonl")), "bytes")


if __name__ == "__main__":
    main()
