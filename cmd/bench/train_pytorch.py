"""Trains the steps of `bench train` with PyTorch. It reads lines of JSON and answers each with one: the first line has the settings, and
every other line a step, as `train --write-batches` writes them, or the name of a file to save the state to or to load it from. It does
nothing between two lines, so that modes can take turns.

Weights and AdamW's state are float32; if the type is bf16, the forward pass runs under autocast. The loss is the mean over the step's
target tokens, and the gradient is clipped to the same norm.
"""

import json
import resource
import sys
import time

import torch
import transformers

answers = sys.stdout
sys.stdout = sys.stderr  # what libraries print is no answer


def answer(**values):
    print(json.dumps(values), file=answers, flush=True)


def sequences(step):
    for p in step["passes"]:
        starts = p["starts"] or [0, len(p["ids"])]
        for a, b in zip(starts, starts[1:]):
            yield p["ids"][a:b], p["labels"][a:b]


def main():
    s = json.loads(sys.stdin.readline())
    cuda = s["device"].startswith("cuda") or s["device"] == "auto" and torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    if s["threads"]:
        torch.set_num_threads(s["threads"])
    torch.manual_seed(0)
    # torch_dtype is the name that older versions of transformers know, too.
    model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], torch_dtype=torch.float32, attn_implementation="sdpa")
    model.to(device).eval()  # GPT-2's configurations have dropout by default, which restyle has not
    model.config.use_cache = False
    matrices = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() <= 1]  # norms and biases do not decay
    groups = [{"params": matrices, "weight_decay": s["decay"]}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-5, betas=(s["beta1"], s["beta2"]), eps=s["eps"], fused=True)
    forward = torch.compile(model, dynamic=True) if s["mode"] == "compile" else model
    answer(label=f"torch {torch.__version__}, transformers {transformers.__version__}, float32 AdamW")

    for line in sys.stdin:
        step = json.loads(line)
        if "save" in step:
            try:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, step["save"])
                answer()
            except (OSError, RuntimeError) as e:
                answer(error=str(e))
            continue
        if "load" in step:
            state = torch.load(step["load"], map_location="cpu", weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            answer()
            continue
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = step["lr"]
        rows = list(sequences(step))
        targets = sum(l != -100 for _, labels in rows for l in labels[1:])
        total = 0.0
        for i in range(0, len(rows), s["batch"]):
            part = rows[i : i + s["batch"]]
            width = max(len(ids) for ids, _ in part)
            ids = torch.tensor([x + [0] * (width - len(x)) for x, _ in part], device=device)
            labels = torch.tensor([y + [-100] * (width - len(y)) for _, y in part], device=device)
            mask = torch.tensor([[1] * len(x) + [0] * (width - len(x)) for x, _ in part], device=device)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=s["dtype"] == "bf16"):
                logits = forward(input_ids=ids, attention_mask=mask).logits
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100,
                                                     reduction="sum") / targets
            loss.backward()
            total += loss.detach()
        if s["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total = float(total)  # waits for the device
        memory = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer(loss=total, seconds=time.perf_counter() - start, memory=memory)


if __name__ == "__main__":
    main()
