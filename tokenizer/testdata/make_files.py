#!/usr/bin/env python3
"""Writes files.jsonl: models whose other files add tokens to tokenizer.json, and what transformers' from_pretrained
makes of them. Needs transformers 5.24.0 and tokenizers 0.23.3.

    python make_files.py [COUNT [OUT]]     # COUNT random models after those by hand, 25

Each line: a name, the files besides bytelevel.json by name, "own", which replaces its added tokens if it is there, the
ids of TEXT unless those of the line before, the added tokens that bytelevel.json has not or has otherwise: their ids and the letters of their flags
(Special, which decoding leaves out, Normalized, Left, Right, Word), and the tokens that a chat template knows by name.
Only models that transformers loads are in it.
"""
import copy, itertools, json, os, random, sys, tempfile
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers
from tokenizers import AddedToken
from transformers import AutoTokenizer

assert transformers.__version__ == "5.24.0", transformers.__version__
transformers.logging.set_verbosity_error()
HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = "<|user|> \nhi<|eot_id|>  \n the<mask> <x>[PAD]a cat<|user|> <|end|>\n"
CONFIG, ADDED, MAP = "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"
POOL = ["<|user|>", "<|end|>", "[PAD]", "<x>", "<|eot_id|>", "<mask>", "the", "cat", "hi"]


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, **flags}


def typed(content, **flags):
    return {"__type": "AddedToken", **token(content, **flags)}


def by_hand(own):
    roles = ["<|user|>", "<|end|>"]
    first = 1 + max(t["id"] for t in own)
    listed = lambda *tokens, at=first: {str(at + i): t for i, t in enumerate(tokens)}
    every = lambda **flags: [token(t, special=True, **flags) for t in roles]
    yield "nothing else", {}
    yield "only a config", {CONFIG: {"eos_token": "<|eot_id|>"}}
    yield "listed", {CONFIG: {"added_tokens_decoder": listed(*every())}}
    yield "listed, not special", {CONFIG: {"added_tokens_decoder": listed(*[token(t, normalized=True) for t in roles])}}
    yield "listed with few flags", {CONFIG: {"added_tokens_decoder": listed({"content": "<x>"}, {"content": "[PAD]", "special": True})}}
    yield "listed in another order", {CONFIG: {"added_tokens_decoder": {str(first + 1): every()[0], str(first): every()[1]}}}
    yield "listed with other ids", {CONFIG: {"added_tokens_decoder": listed(*every(), at=5000)}}
    yield "listed on another's id", {CONFIG: {"added_tokens_decoder": listed(*every(), at=own[0]["id"])}}
    yield "listed twice", {CONFIG: {"added_tokens_decoder": listed(token("<x>", rstrip=True), token("<x>", lstrip=True))}}
    for flag in ("rstrip", "lstrip", "single_word", "normalized"):
        yield "listed with " + flag, {CONFIG: {"added_tokens_decoder": {str(own[1]["id"]): token("<|eot_id|>", special=True, **{flag: True})}}}
        yield "new with " + flag, {CONFIG: {"added_tokens_decoder": listed(*every(**{flag: True}))}}
    yield "no longer special", {CONFIG: {"added_tokens_decoder": {str(own[1]["id"]): token("<|eot_id|>", special=False)}}}
    yield "a word of the vocabulary", {CONFIG: {"added_tokens_decoder": listed(token("the", special=True))}}
    yield "added", {ADDED: {"<|user|>": first, "<|end|>": first + 1}}
    yield "added in another order", {ADDED: {"<|user|>": first + 1, "<|end|>": first}}
    yield "added on another's id", {ADDED: {"<|user|>": own[0]["id"], "<|end|>": first}}
    yield "added and special by name", {ADDED: {"<|user|>": first, "[PAD]": first + 1}, CONFIG: {"pad_token": "[PAD]"}}
    yield "added and special by map", {ADDED: {"<|user|>": first, "[PAD]": first + 1}, MAP: {"pad_token": "[PAD]"}}
    yield "added and extra", {ADDED: {"<|user|>": first, "<x>": first + 1}, CONFIG: {"additional_special_tokens": ["<|user|>"]}}
    yield "added, and listed", {ADDED: {"<x>": first}, CONFIG: {"added_tokens_decoder": listed(*every())}}
    yield "mapped", {MAP: {"pad_token": "[PAD]", "additional_special_tokens": roles}}
    yield "mapped with flags", {MAP: {"pad_token": token("[PAD]", lstrip=True), "eos_token": token("<|eot_id|>", rstrip=True)}}
    yield "mapped, and in the config", {MAP: {"pad_token": "<x>", "additional_special_tokens": roles},
                                        CONFIG: {"pad_token": "[PAD]", "additional_special_tokens": ["<|end|>"]}}
    yield "mapped extra", {MAP: {"extra_special_tokens": roles + [token("<x>", rstrip=True)]}, CONFIG: {"extra_special_tokens": ["[PAD]", "<|end|>"]}}
    yield "mapped by new names", {MAP: {"extra_special_tokens": {"user_token": "<|user|>"}, "image_token": "<x>"}}
    yield "mapped, and listed", {MAP: {"pad_token": "[PAD]"}, CONFIG: {"added_tokens_decoder": listed(*every())}}
    yield "extra, old name", {CONFIG: {"additional_special_tokens": roles}}
    yield "extra, new name", {CONFIG: {"extra_special_tokens": roles}}
    yield "extra, both names", {CONFIG: {"extra_special_tokens": ["<x>"], "additional_special_tokens": roles}}
    yield "extra, empty", {CONFIG: {"extra_special_tokens": [], "additional_special_tokens": roles}}
    yield "extra with flags", {CONFIG: {"extra_special_tokens": [typed("<|user|>", rstrip=True, special=True), "<|end|>"]}}
    yield "extra with names", {CONFIG: {"extra_special_tokens": {"user_token": "<|user|>", "end_token": "<|end|>"}}}
    yield "extra with other names", {CONFIG: {"extra_special_tokens": {"user": "<|user|>"}, "image_token": "<x>", "pad_token": "[PAD]"}}
    yield "extra, there already", {CONFIG: {"additional_special_tokens": ["<|eot_id|>", "<mask>", "<|user|>"]}}
    yield "names", {CONFIG: {"mask_token": "<x>", "pad_token": "[PAD]", "bos_token": "<|begin_of_text|>", "sep_token": "the", "unk_token": None}}
    yield "names with flags", {CONFIG: {"pad_token": typed("[PAD]", rstrip=True), "cls_token": typed("<x>", single_word=True, normalized=True, special=False)}}
    yield "a name and listed", {CONFIG: {"pad_token": "[PAD]", "added_tokens_decoder": listed(token("[PAD]", rstrip=True, normalized=True))}}
    yield "a name and listed, few flags", {CONFIG: {"pad_token": "[PAD]", "added_tokens_decoder": listed({"content": "[PAD]"})}}
    yield "switches", {CONFIG: {"add_bos_token": True, "add_eos_token": True, "add_prefix_space": True, "eos_token": "<|eot_id|>", "bos_token": "<|begin_of_text|>"}}
    yield "empty names", {CONFIG: {"pad_token": "", "extra_special_tokens": [""]}}
    forms = {"nothing": lambda key, t: {}, "text": lambda key, t: {key: t}, "an object": lambda key, t: {key: {"content": t, "__type": "AddedToken"}},
             "null": lambda key, t: {key: None}}
    mapped = lambda tokens: {k: t and {"content": t["content"]} if isinstance(t, dict) else t for k, t in tokens.items()}  # without the type
    for key in ("pad_token", "image_token"):
        for (a, config), (b, special) in itertools.product(forms.items(), repeat=2):
            yield f"{key}: {a}, and {b} in the map", {CONFIG: config(key, "<x>"), MAP: mapped(special(key, "[PAD]"))}
        for a, form in forms.items():
            yield f"{key}: {a}, and as extra", {CONFIG: {**form(key, "<x>"), "extra_special_tokens": {key: "[PAD]"}}}
            yield f"{key}: as extra, and {a} in the map", {CONFIG: {"extra_special_tokens": {key: "<x>"}}, MAP: mapped(form(key, "[PAD]"))}
        yield key + ": extra twice", {CONFIG: {"extra_special_tokens": {key: "<x>", "b": "the"}}, MAP: {"extra_special_tokens": {key: "[PAD]"}}}


def twice(own):
    """Yields models that name <x> in two places, as special or not: their files, and own tokens or None."""
    first, bare = 1 + own[-1]["id"], {"content": "<x>", "special": False}
    places = {"added": ({ADDED: {"<x>": first}}, []), "mapped": ({MAP: {"pad_token": "<x>"}}, []),
              "mapped extra": ({MAP: {"additional_special_tokens": ["<x>"]}}, []), "named": ({CONFIG: {"eos_token": "<x>"}}, []),
              "named with flags": ({CONFIG: {"eos_token": {**bare, "__type": "AddedToken"}}}, []),
              "extra": ({CONFIG: {"extra_special_tokens": ["<x>"]}}, []),
              "extra with flags": ({CONFIG: {"extra_special_tokens": [{**bare, "__type": "AddedToken"}]}}, [])}
    for s in (True, False):
        what = "" if s else ", not special"
        places["listed" + what] = ({CONFIG: {"added_tokens_decoder": {str(first + s): {"content": "<x>", "special": s}}}}, [])
        places["own" + what] = ({}, [token("<x>", special=s, id=first)])
    for (a, (files, tokens)), (b, (more, others)) in itertools.permutations(places.items(), 2):
        if a > b and not {a, b} in ({"own", "own, not special"}, {"extra", "extra with flags"}):
            continue  # only in these two does the order matter
        files = copy.deepcopy(files)
        for file, content in more.items():
            for key, value in content.items():
                had = files.setdefault(file, {}).setdefault(key, value)
                if had is not value:
                    files[file][key] = had + value if isinstance(value, list) else {**had, **value} if key == "added_tokens_decoder" else had
        yield f"twice: {a}; {b}", files, tokens + others or None


def at_random(r, own):
    pick = lambda most: r.sample(POOL, r.randint(1, most))
    flags = lambda: {k: r.random() < 0.5 for k in ("lstrip", "rstrip", "single_word", "normalized", "special") if r.random() < 0.6}
    def some(special=False):
        t = r.choice(POOL)
        if r.random() < 0.5:
            return t
        f = flags()
        if special:
            f.pop("special", None)
        return {"content": t, **f} if special else {"__type": "AddedToken", "content": t, **f}
    files, config = {}, {}
    ids = r.sample(range(own[0]["id"] - 3, own[-1]["id"] + 9), 9)
    if r.random() < 0.5:
        config["added_tokens_decoder"] = {str(i): {"content": t, **flags()} for i, t in zip(ids, pick(5))}
    if r.random() < 0.4:
        files[ADDED] = dict(zip(pick(4), ids))
    if r.random() < 0.4:
        files[MAP] = {k: some(True) for k in r.sample(["pad_token", "eos_token", "bos_token", "sep_token", "image_token"], 2)}
        if r.random() < 0.5:
            files[MAP]["additional_special_tokens"] = pick(3)
        if r.random() < 0.3:
            files[MAP]["extra_special_tokens"] = r.choice([pick(3), {"a_token": r.choice(POOL)}])
    for key in r.sample(["pad_token", "eos_token", "unk_token", "mask_token", "user_token", "image_token"], r.randint(0, 3)):
        config[key] = some()
    if r.random() < 0.4:
        config["additional_special_tokens"] = r.choice([pick(3), [], None])
    if r.random() < 0.3:
        config["extra_special_tokens"] = r.choice([pick(3), [], {"b_token": r.choice(POOL), "c": r.choice(POOL)}])
    if config or r.random() < 0.5:
        files[CONFIG] = config
    return files


def row(name, base, files, own=None):
    doc = copy.deepcopy(base)
    if own is not None:
        doc["added_tokens"] = own
    with tempfile.TemporaryDirectory() as d:
        for file, content in {"tokenizer.json": doc, "config.json": {"model_type": "llama"}, **files}.items():
            with open(os.path.join(d, file), "w", encoding="utf-8") as f:
                json.dump(content, f)
        try:
            tok = AutoTokenizer.from_pretrained(d)
        except (TypeError, AttributeError, ValueError) as e:
            print("not loaded:", name, e)
            return None
        assert type(tok).__name__ == "TokenizersBackend", type(tok)
        letters = lambda t, special: "".join(c for c, on in zip("SNLRW", (special, t.normalized, t.lstrip, t.rstrip, t.single_word)) if on)
        same = {t["content"]: [t["id"], letters(AddedToken(**{k: v for k, v in t.items() if k != "id"}), t["special"])] for t in base["added_tokens"]}
        added = {t.content: [i, letters(t, not tok.decode([i], skip_special_tokens=True))] for i, t in tok.added_tokens_decoder.items()}
        added = {content: t for content, t in added.items() if same.get(content) != t}
        names = {k: v for k, v in tok.special_tokens_map.items() if isinstance(v, str) and v}
        out = {"name": name, "files": files, "added": added, "names": names, "ids": tok.encode(TEXT, add_special_tokens=False)}
        if own is not None:
            out["own"] = own
        if not names:
            del out["names"]
        return out


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "files.jsonl")
    base = json.load(open(os.path.join(HERE, "bytelevel.json"), encoding="utf-8"))
    own = base["added_tokens"]
    rows = [row(name, base, files) for name, files in by_hand(own)]
    gap = [dict(t, id=t["id"] + 100) for t in own[:3]]
    rows.append(row("own ids with a gap", base, {}, gap))
    rows.append(row("own ids in another order", base, {}, [dict(own[1], id=own[0]["id"] + 1), dict(own[0], id=own[0]["id"])]))
    rows.append(row("own token of the vocabulary", base, {CONFIG: {"pad_token": "<x>"}}, own[:2] + [{**own[0], "id": 77, "content": "the"}]))
    rows.append(row("own token twice", base, {}, own[:3] + [dict(own[1], rstrip=True, id=own[1]["id"] + 7)]))
    rows += [row(name, base, *rest) for name, *rest in twice(own)]
    r = random.Random(7)
    rows += [row(f"random {i}", base, at_random(r, own)) for i in range(count)]
    with open(path, "w", encoding="ascii", newline="\n") as f:
        last = None
        for each in filter(None, rows):
            ids = each["ids"]
            if ids == last:
                del each["ids"]
            last = ids
            f.write(json.dumps(each, separators=(",", ":")) + "\n")
    print(path, os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
