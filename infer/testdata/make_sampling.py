#!/usr/bin/env python3
"""Writes sampling.jsonl: a few vectors of logits through the filters of sampling, by their formulas in float64.

The scores themselves (repetition penalty, temperature) are float32, as in Hugging Face's processors; the rest follows
their definitions with a stable sort, written without regard to speed. Needs numpy 2.4.6 and nothing else.
"""
import base64, json, os
import numpy as np

F32 = np.float32
SETTINGS = [
    {}, {"temperature": 0.7}, {"temperature": 3.0}, {"top_k": 1}, {"top_k": 7}, {"top_k": 5000},
    {"top_p": 0.9}, {"top_p": 0.3}, {"top_p": 0.01}, {"min_p": 0.1}, {"min_p": 1.0}, {"repetition_penalty": 1.4},
    {"repetition_penalty": 0.7}, {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02},
    {"repetition_penalty": 1.2, "temperature": 1.3, "top_k": 9, "top_p": 0.8},
]


def filtered(logits, history, p):
    s = logits.copy()
    for i in sorted(set(history)):
        penalty = F32(p.get("repetition_penalty", 1))
        s[i] = s[i] * penalty if s[i] < 0 else s[i] / penalty
    s = s / F32(p.get("temperature", 1))
    if p.get("top_k"):
        kth = np.sort(s)[::-1][min(p["top_k"], len(s)) - 1]
        s = np.where(s >= kth, s, -np.inf)
    margin = 1.0
    if p.get("top_p"):
        order = np.argsort(-s, kind="stable")
        probs = softmax(s[order])
        above = np.cumsum(probs) - probs
        margin = float(np.abs(above[1:] - p["top_p"]).min()) if len(s) > 1 else 1.0
        s[order[1:][above[1:] >= p["top_p"]]] = -np.inf
    if p.get("min_p"):
        probs = softmax(s)
        s = np.where(probs < p["min_p"] * probs.max(), -np.inf, s)
    kept = np.nonzero(np.isfinite(s))[0]
    return kept, softmax(s)[kept], margin


def softmax(s):
    e = np.exp(s.astype(np.float64) - s.max())
    return e / e.sum()


def vectors():
    r = np.random.RandomState(11)
    yield "normal", r.standard_normal(83).astype(F32) * F32(2)
    yield "rounded", np.round(r.standard_normal(150) * 3).astype(F32)
    yield "equal", np.full(70, F32(-1.5))
    v = r.standard_normal(90).astype(F32)
    v[r.permutation(90)[:60]] = -np.inf
    yield "many -inf", v
    v = np.full(65, F32(-np.inf))
    v[64] = 0
    yield "one", v
    v = r.standard_normal(128).astype(F32)
    v[[9, 100]] = F32(1e30)
    v[[3, 4]] = F32(-3e38)
    yield "huge", v


def main():
    r = np.random.RandomState(12)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sampling.jsonl")
    with open(path, "w", newline="\n") as f:
        for name, logits in vectors():
            history = [int(i) for i in r.randint(0, len(logits), 6)]
            history[1] = history[0]
            history[2] = int(np.argmax(logits))
            cases = []
            for p in SETTINGS:
                kept, probs, margin = filtered(logits, history, p)
                if margin < 1e-9:
                    continue
                cases.append({"params": p, "kept": kept.tolist(), "probs": [float("%.7g" % x) for x in probs]})
            row = {"name": name, "vocab": len(logits), "history": history, "argmax": int(np.argmax(logits)),
                   "logits_f32_le": base64.b64encode(logits.astype("<f4").tobytes()).decode(), "cases": cases}
            f.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
