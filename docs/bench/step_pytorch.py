"""Times training steps of transformers' Llama on a GPU or a CPU, for `bench step --beside`:

    bench step --device cuda --beside "python3 docs/bench/step_pytorch.py --mode compile"

The step comes as JSON on standard input (cmd/bench/beside.go says what it has), and one line of JSON goes out. Weights are random,
weights, activations and gradients in the type that the step names, and with it the gradient is clipped to a norm of 1. The
optimizer is torch's fused AdamW, its states in the type of the weights, or with --bitsandbytes AdamW in 8 bits.
"""

import argparse
import fnmatch
import json
import statistics
import sys
import time

import torch
import transformers
from transformers.integrations.sdpa_attention import sdpa_attention_forward


def build(config, dtype, device):
    rope = {"rope_theta": config.get("rope_theta", 10000.0), "rope_type": "default", **(config.get("rope_scaling") or {})}
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
             "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings")
    shape = transformers.LlamaConfig(**{n: config[n] for n in names if n in config}, rope_parameters=rope, use_cache=False,
                                     bos_token_id=1, eos_token_id=2, pad_token_id=None)
    # The same function as "sdpa". Under that name transformers builds a mask whenever it is compiled, which rules the flash kernel out.
    transformers.AttentionInterface.register("sdpa_causal", sdpa_attention_forward)
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(shape, dtype=dtype, attn_implementation="sdpa_causal").train()


def joules(device):
    """What the card has taken since its driver was loaded; None where NVML does not say."""
    if device.type != "cuda":
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(device.index or 0)
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1e3
    except Exception as e:
        print(f"no energy: {e}", file=sys.stderr)
        return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mode", choices=["eager", "compile"], default="eager")
    p.add_argument("--bitsandbytes", action="store_true")
    a = p.parse_args()
    step = json.load(sys.stdin)
    device = torch.device(step["device"] if step["device"].startswith("cuda") else "cpu")
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[step["dtype"]]
    wait = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)

    model = build(step["config"], dtype, device)
    for name, w in model.named_parameters():
        w.requires_grad_(not step["trained"] or any(fnmatch.fnmatch(part, t) for part in name.split(".") for t in step["trained"]))
    trained = [w for w in model.parameters() if w.requires_grad]
    if a.bitsandbytes:
        import bitsandbytes

        optimizer, label = bitsandbytes.optim.AdamW8bit(trained, lr=1e-5), f"bitsandbytes {bitsandbytes.__version__} AdamW8bit"
    else:
        optimizer, label = torch.optim.AdamW(trained, lr=1e-5, fused=True), "fused AdamW"
    forward = torch.compile(model, dynamic=False) if a.mode == "compile" else model
    passes = [torch.randint(0, step["config"]["vocab_size"], (step["batch"], step["seq"]), device=device) for _ in range(step["accumulate"])]

    def take():
        total = 0.0
        for ids in passes:
            loss = forward(input_ids=ids, labels=ids).loss / len(passes)
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    for _ in range(max(3, step["warmup"])):  # the first compiles, the third has all memory that there will be
        take()
    wait()
    before, seconds = joules(device), []
    while len(seconds) < step["steps"] or sum(seconds) < step["lasting"]:
        start = time.perf_counter()
        loss = take()
        wait()
        seconds.append(time.perf_counter() - start)
    after, memory = joules(device), 0
    if device.type == "cuda":
        free, all_of_it = torch.cuda.mem_get_info(device)
        memory = all_of_it - free
    print(json.dumps({
        "mode": f"torch-{a.mode}", "label": f"torch {torch.__version__}, transformers {transformers.__version__}, {label}", "seconds": seconds,
        "joules": after - before if before and after else 0, "memory": memory, "loss": loss.item(),
    }), flush=True)
    print(f"{statistics.median(seconds):.4f} s a step", file=sys.stderr)


if __name__ == "__main__":
    main()
