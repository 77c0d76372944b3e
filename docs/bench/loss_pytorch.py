"""Trains what restyle trained, in PyTorch: the same weights, tokens, masks, order and learning rates, in float32 with
torch.optim.AdamW. Prints the mean loss of every ten steps of both, and how far they are apart.

    go run ./cmd/train --fused --max-steps 200 --out run --write-batches batches.jsonl
    python docs/bench/loss_pytorch.py --model data/starter-llama --batches batches.jsonl --metrics run/metrics.jsonl

torch 2.15.0, transformers 5.23.0, safetensors 0.8.0
"""

import argparse
import json

import torch
from transformers import AutoModelForCausalLM


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="directory of the weights that both begin with")
    p.add_argument("--batches", required=True, help="what train --write-batches wrote")
    p.add_argument("--metrics", required=True, help="metrics.jsonl of the run")
    p.add_argument("--weight-decay", type=float, default=0.01)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--window", type=int, default=10, help="steps of which the mean is compared (default 10)")
    p.add_argument("--device", default="cpu", help="where PyTorch computes, such as cuda (default cpu)")
    p.add_argument("--json", help="also write the figures to this file")
    a = p.parse_args()

    ours = {}
    for line in open(a.metrics):
        m = json.loads(line)
        if "loss" in m:
            ours[m["step"]] = m["loss"]
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32, attn_implementation="sdpa").to(a.device)
    model.eval()  # GPT-2's configurations have dropout by default, which restyle has not
    matrices = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": a.weight_decay}, {"params": others, "weight_decay": 0.0}],
                                  lr=0.0, betas=(0.9, 0.999), eps=1e-8)
    theirs = {}
    for line in open(a.batches):
        step = json.loads(line)
        if step["step"] not in ours:
            break
        passes = [[(b["ids"][lo:hi], b["labels"][lo:hi]) for lo, hi in zip(b["starts"], b["starts"][1:])] for b in step["passes"]]
        trained = sum(sum(label != -100 for label in labels[1:]) for rows in passes for _, labels in rows)
        total = 0.0
        optimizer.zero_grad(set_to_none=True)
        for rows in passes:
            # Padding stands at the end, where no token of a causal model sees it.
            longest = max(len(ids) for ids, _ in rows)
            ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in rows], device=a.device)
            labels = torch.tensor([labels[1:] + [-100] * (longest - len(labels)) for _, labels in rows], device=a.device)
            logits = model(input_ids=ids).logits[:, :-1].float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
            (loss / trained).backward()
            total += loss.item()
        if a.clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip)
        for group in optimizer.param_groups:
            group["lr"] = step["lr"]
        optimizer.step()
        theirs[step["step"]] = total / trained

    steps = sorted(theirs)
    windows, worst = [], 0.0
    print(f"{'steps':>9}  {'restyle':>9}  {'PyTorch':>9}  {'apart':>8}")
    for i in range(0, len(steps), a.window):
        w = steps[i:i + a.window]
        x, y = sum(ours[s] for s in w) / len(w), sum(theirs[s] for s in w) / len(w)
        apart = x / y - 1
        worst = max(worst, abs(apart))
        windows.append({"from": w[0], "to": w[-1], "restyle": x, "pytorch": y, "apart": apart})
        print(f"{w[0]:4d}-{w[-1]:4d}  {x:9.5f}  {y:9.5f}  {100 * apart:+7.3f} %")
    print(f"farthest apart: {100 * worst:.3f} %")
    if a.json:
        json.dump({"torch": torch.__version__, "windows": windows, "worst": worst}, open(a.json, "w"), indent=1)


if __name__ == "__main__":
    main()
