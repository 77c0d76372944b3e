#!/usr/bin/env python3
"""Times tiktoken and Hugging Face tokenizers on what bench_test.go encodes: the same texts, cut the same, with the same
Llama-3 tokenizer. Needs tiktoken 0.14.0 and tokenizers 0.23.3.

    RESTYLE_REFERENCE=... python bench_peers.py
    RESTYLE_REFERENCE=... go test -run '^$' -bench 'Encode|Long|Load' ./tokenizer

Run both alternately within the same minutes. The best of several rounds counts.
"""
import base64, json, os, time

ROOT = os.environ["RESTYLE_REFERENCE"]
THREADS = len(os.sched_getaffinity(0))
os.environ["TOKENIZERS_PARALLELISM"] = "true"
os.environ["RAYON_NUM_THREADS"] = str(THREADS)
import tiktoken  # noqa: E402
import tokenizers  # noqa: E402

TEXTS = {
    "shakespeare": "data/text/tinyshakespeare_input.txt",
    "oz": "data/text/wonderful_wizard_of_oz_pg55.txt",
    "code": "data/instruct/gpteacher_codegen-instruct.json",
}


def documents(text):
    data, docs = text.encode(), []
    while len(data) > 4096:
        n = data.find(b"\n", 4096)
        if n < 0:
            break
        docs.append(data[:n + 1].decode())
        data = data[n + 1:]
    return docs + [data.decode()]


def best(f, seconds=3.0):
    f()
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        t = time.perf_counter()
        f()
        fastest = min(fastest, time.perf_counter() - t)
    return fastest


def main():
    path = os.path.join(ROOT, "golden/tokenizer/llama3/tokenizer.json")
    start = time.perf_counter()
    hf = tokenizers.Tokenizer.from_file(path)
    print(f"tokenizers load {time.perf_counter() - start:.3f} s")
    hf.encode_special_tokens = True
    doc = json.load(open(path, encoding="utf-8"))
    pattern = doc["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    model = os.path.join(ROOT, "data/tokenizer/llama3/tokenizer.model")
    start = time.perf_counter()
    ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in open(model, "rb"))}
    tik = tiktoken.Encoding("llama3", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    print(f"tiktoken load {time.perf_counter() - start:.3f} s")

    def hf_each(docs):
        for d in docs:
            hf.encode(d, add_special_tokens=False)

    def tik_each(docs):
        for d in docs:
            tik.encode_ordinary(d)

    print(f"MB/s, {THREADS} threads for all")
    for name, rel in TEXTS.items():
        text = open(os.path.join(ROOT, rel), encoding="utf-8", newline="").read()
        docs, size = documents(text), len(text.encode()) / 1e6
        figures = {
            "tokenizers one": best(lambda: hf_each(docs)),
            "tokenizers all": best(lambda: hf.encode_batch(docs, add_special_tokens=False)),
            "tokenizers all, fast": best(lambda: hf.encode_batch_fast(docs, add_special_tokens=False)),
            "tiktoken one": best(lambda: tik_each(docs)),
            "tiktoken all": best(lambda: tik.encode_ordinary_batch(docs, num_threads=THREADS)),
        }
        for peer, seconds in figures.items():
            print(f"{name:12} {peer:22} {size / seconds:8.1f}")


if __name__ == "__main__":
    main()
