"""What PyTorch does of what restyle does: the same training steps, steps of the same size, and attention.

    pytorch.py train                                      for `bench train`, which starts it
    pytorch.py step [--mode compile|graphs] [--bitsandbytes]    for `bench step --beside "python3 cmd/bench/pytorch.py step"`
    pytorch.py replay --model DIR --batches FILE --metrics FILE
    pytorch.py attention [SEQUENCESxLENGTH ...]

train and step read lines of JSON and answer each with one. The first line of train has the settings, and every other one is a step
as `train --write-batches` writes them. The line of step describes all steps (cmd/bench/peer.go says what it has). replay trains
on what `train --write-batches` wrote, prints the mean losses of restyle's metrics.jsonl and of PyTorch, and how far they are apart.
attention times every backend of scaled_dot_product_attention.
"""

import argparse
import fnmatch
import json
import os
import resource
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses to be deterministic

import torch
import torch.nn.functional as F
import transformers

answers = sys.stdout


def answer(**values):
    print(json.dumps(values), file=answers, flush=True)


def device_of(name):
    cuda = name.startswith("cuda") or name == "auto" and torch.cuda.is_available()
    return torch.device(name if name.startswith("cuda:") else "cuda" if cuda else "cpu")


class Trainer:
    """Takes restyle's steps. Weights and AdamW's state are float32; if the type is bf16, the forward pass runs under autocast. The loss
    is the mean over the step's target tokens."""

    def __init__(self, s):
        self.s, self.device = s, device_of(s["device"])
        torch.manual_seed(0)
        # torch_dtype is the name that older versions of transformers also know.
        self.model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], torch_dtype=torch.float32, attn_implementation="sdpa")
        self.model.to(self.device).eval()  # GPT-2's configurations have dropout by default, which restyle has not
        self.model.config.use_cache = False
        matrices = [w for w in self.model.parameters() if w.dim() > 1]
        others = [w for w in self.model.parameters() if w.dim() <= 1]  # norms and biases do not decay
        groups = [{"params": matrices, "weight_decay": s["decay"]}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-5, betas=(s["beta1"], s["beta2"]), eps=s["eps"], fused=True)
        self.forward = torch.compile(self.model, dynamic=True) if s["mode"] == "compile" else self.model

    def step(self, step):
        rows = []
        for p in step["passes"]:
            starts = p["starts"] or [0, len(p["ids"])]
            rows += [(p["ids"][a:b], p["labels"][a:b]) for a, b in zip(starts, starts[1:])]
        targets = sum(label != -100 for _, labels in rows for label in labels[1:])
        total = 0.0
        for i in range(0, len(rows), self.s["batch"]):
            part = rows[i : i + self.s["batch"]]
            width = max(len(ids) for ids, _ in part)
            ids = torch.tensor([x + [0] * (width - len(x)) for x, _ in part], device=self.device)
            labels = torch.tensor([y + [-100] * (width - len(y)) for _, y in part], device=self.device)
            mask = torch.tensor([[1] * len(x) + [0] * (width - len(x)) for x, _ in part], device=self.device)
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.s["dtype"] == "bf16"):
                logits = self.forward(input_ids=ids, attention_mask=mask).logits
            logits, labels = logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten()
            loss = F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum") / targets
            loss.backward()
            total += loss.detach()
        if self.s["clip"]:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.s["clip"])
        for group in self.optimizer.param_groups:
            group["lr"] = step["lr"]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(total)  # waits for the device


def train(_):
    s = json.loads(sys.stdin.readline())
    if s["threads"]:
        torch.set_num_threads(s["threads"])
    t = Trainer(s)
    answer(label=f"torch {torch.__version__}, transformers {transformers.__version__}, float32 AdamW")
    for line in sys.stdin:
        step = json.loads(line)
        start = time.perf_counter()
        loss = t.step(step)
        cuda = t.device.type == "cuda"
        memory = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer(loss=loss, seconds=time.perf_counter() - start, memory=memory)


def replay(a):
    ours = {}
    for line in open(a.metrics):
        m = json.loads(line)
        if "loss" in m:
            ours[m["step"]] = m["loss"]
    t = Trainer({"model": a.model, "device": a.device, "dtype": "fp32", "mode": "eager", "batch": a.batch, "decay": a.weight_decay,
                 "clip": a.clip, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8})
    pairs = []
    for line in open(a.batches):
        step = json.loads(line)
        if step["step"] not in ours:
            break
        pairs.append((ours[step["step"]], t.step(step)))
    worst = 0.0
    print(f"{'steps':>9}  {'restyle':>9}  {'PyTorch':>9}  {'apart':>8}")
    for i in range(0, len(pairs), a.window):
        x, y = map(statistics.mean, zip(*pairs[i : i + a.window]))
        worst = max(worst, abs(x / y - 1))
        print(f"{i + 1:4d}-{min(i + a.window, len(pairs)):4d}  {x:9.5f}  {y:9.5f}  {100 * (x / y - 1):+7.3f} %")
    print(f"farthest apart: {100 * worst:.3f} %")


def build(config, dtype, device):
    rope = {"rope_theta": config.get("rope_theta", 10000.0), "rope_type": "default", **(config.get("rope_scaling") or {})}
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
             "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings")
    shape = transformers.LlamaConfig(**{n: config[n] for n in names if n in config}, rope_parameters=rope, use_cache=False,
                                     bos_token_id=1, eos_token_id=2, pad_token_id=None)
    # The same function as "sdpa". Under that name transformers builds a mask whenever it is compiled, which rules the flash kernel out.
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    transformers.AttentionInterface.register("sdpa_causal", sdpa_attention_forward)
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(shape, dtype=dtype, attn_implementation="sdpa_causal").train()


def adapted(model, lora, base, dtype):
    from peft import LoraConfig, get_peft_model

    if base == "nf4":
        import bitsandbytes as bnb

        linear = [(m, name, c) for m in model.model.modules() for name, c in m.named_children() if isinstance(c, torch.nn.Linear)]
        for parent, name, old in linear:
            new = bnb.nn.Linear4bit(old.in_features, old.out_features, bias=False, compute_dtype=dtype, compress_statistics=True,
                                    quant_type="nf4", device="meta")
            new.weight = bnb.nn.Params4bit(old.weight.data.cpu(), requires_grad=False, quant_type="nf4", compress_statistics=True,
                                           blocksize=64, module=new)
            setattr(parent, name, new.to(old.weight.device))
        model.is_loaded_in_4bit = True  # how peft knows
    elif base != "none":
        sys.exit(f"{base}: layers in none or nf4 only")
    config = LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(model, config, autocast_adapter_dtype=False)
    for name, w in model.named_parameters():
        if w.requires_grad:
            w.data = w.data.to(dtype)
            if name.endswith("lora_B.default.weight"):  # 0 at the start, and at no later step
                torch.nn.init.normal_(w.data, std=0.02)
    return model


def joules(device):
    """What the card has taken since its driver was loaded; 0 where NVML does not say."""
    if device.type != "cuda":
        return 0
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(device.index or 0)) / 1e3
    except Exception as e:
        print(f"no energy: {e}", file=sys.stderr)
        return 0


def step(a):
    """Random weights; weights, activations and gradients in the step's type; the gradient is clipped to a norm of 1. The optimizer is
    torch's fused AdamW, its states in the type of the weights, or with --bitsandbytes AdamW in 8 bits. Adapters are peft's, in the type
    of the weights, on layers that bitsandbytes has in NF4 with double quantization if the step asks for nf4."""
    s = json.loads(sys.stdin.readline())
    device, dtype = device_of(s["device"]), {"bf16": torch.bfloat16, "fp32": torch.float32}[s["dtype"]]
    wait = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)
    model = build(s["config"], dtype, device)
    if s["lora"]:
        model = adapted(model, s["lora"], s["base"], dtype)
    for name, w in model.named_parameters() if not s["lora"] else ():
        w.requires_grad_(not s["trained"] or any(fnmatch.fnmatch(part, t) for part in name.split(".") for t in s["trained"]))
    trained = [w for w in model.parameters() if w.requires_grad]
    if a.bitsandbytes:
        import bitsandbytes

        optimizer, label = bitsandbytes.optim.AdamW8bit(trained, lr=1e-5), f"bitsandbytes {bitsandbytes.__version__} AdamW8bit"
    else:
        optimizer, label = torch.optim.AdamW(trained, lr=1e-5, fused=True), "fused AdamW"
    modes = {"compile": None, "graphs": "reduce-overhead"}
    forward = torch.compile(model, dynamic=False, mode=modes[a.mode]) if a.mode in modes else model
    passes = [torch.randint(0, s["config"]["vocab_size"], (s["batch"], s["seq"]), device=device) for _ in range(s["accumulate"])]

    def take():
        total = 0.0
        for ids in passes:
            loss = forward(input_ids=ids, labels=ids).loss / len(passes)
            loss.backward()
            total += loss.detach().clone()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    for _ in range(max(3, s["warmup"])):  # the first compiles, the third has all memory that there will be
        take()
    wait()
    before, seconds = joules(device), []
    while len(seconds) < s["steps"] or sum(seconds) < s["lasting"]:
        start = time.perf_counter()
        loss = take()
        wait()
        seconds.append(time.perf_counter() - start)
    after, memory = joules(device), 0
    if device.type == "cuda":
        free, all_of_it = torch.cuda.mem_get_info(device)
        memory = all_of_it - free
    answer(mode=f"torch-{a.mode}", label=f"torch {torch.__version__}, transformers {transformers.__version__}, {label}", seconds=seconds,
           joules=after - before, memory=memory, loss=loss.item())


def attention(a):
    """Causal attention on a GPU, forward and backward: 32 query heads, 8 of keys and values, head dims 64 and 128, random values in bf16.
    A backend that does not take so few keys and values is given them repeated, which is not timed. Operations are counted as `bench
    kernels` counts them, of what half of each sequence's square needs. The last column says if five backward passes gave the same
    bits."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    heads, shared = 32, 8

    def seconds(run):  # the median of batches, after one that wakes the clocks
        run()
        times = []
        for _ in range(11):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(8):
                run()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3 / 8)
        return statistics.median(times)

    def measure(backend, deterministic, dim, sequences, length, repeated):
        torch.use_deterministic_algorithms(deterministic)
        q, k, v, dy = (torch.randn(sequences, length, n, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
                       for n in (heads, shared, shared, heads))
        if repeated:
            k, v = (x.repeat_interleave(heads // shared, 1) for x in (k, v))
        for x in (q, k, v):
            x.requires_grad_()
        with sdpa_kernel(backend):
            forward = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not repeated)
            y = forward()
            backward = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
            first = backward()
            same = all(torch.equal(a, b) for _ in range(4) for a, b in zip(first, backward()))
            pairs = sequences * length * (length + 1) / 2 * heads * dim / 1e12
            return 4 * pairs / seconds(forward), 8 * pairs / seconds(backward), "yes" if same else "no"

    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}\n")
    print("| shape | backend | keys and values | forward, TFLOP/s | backward, TFLOP/s | same bits |\n|---|---|---|---:|---:|---|")
    backends = [b for b in SDPBackend.__members__.items() if b[0] not in ("ERROR", "OVERRIDEABLE")]
    for shape in a.shapes or ["8x2048"]:
        for dim, (name, backend), deterministic in ((d, b, e) for d in (64, 128) for b in backends for e in (False, True)):
            row = f"| d{dim} {shape} | {name.lower()}{', told to be deterministic' if deterministic else ''} |"
            for repeated in (False, True):
                try:
                    forward, backward, same = measure(backend, deterministic, dim, *map(int, shape.split("x")), repeated)
                    print(f"{row} {'repeated' if repeated else 'shared'} | {forward:.0f} | {backward:.0f} | {same} |", flush=True)
                    break
                except Exception as e:
                    why = f"{type(e).__name__}: {e}".splitlines()[0][:80]
            else:
                print(f"{row} {why} | | | |", flush=True)
            torch.cuda.empty_cache()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(required=True)
    for run in (train, step, replay, attention):
        c = commands.add_parser(run.__name__, description=run.__doc__)
        c.set_defaults(run=run)
        if run is step:
            c.add_argument("--mode", choices=["eager", "compile", "graphs"], default="eager",
                           help="graphs: compile, with CUDA graphs (mode reduce-overhead)")
            c.add_argument("--bitsandbytes", action="store_true")
        elif run is replay:
            c.add_argument("--model", required=True, help="directory of the weights that both begin with")
            c.add_argument("--batches", required=True, help="what train --write-batches wrote")
            c.add_argument("--metrics", required=True, help="metrics.jsonl of the run")
            c.add_argument("--batch", type=int, default=4, help="sequences at a time (default 4)")
            c.add_argument("--weight-decay", type=float, default=0.01)
            c.add_argument("--clip", type=float, default=1.0)
            c.add_argument("--window", type=int, default=10, help="steps of which the mean is compared (default 10)")
            c.add_argument("--device", default="cpu", help="where PyTorch computes, such as cuda (default cpu)")
        elif run is attention:
            c.add_argument("shapes", nargs="*")
    a = p.parse_args()
    if a.run in (train, step):
        sys.stdout = sys.stderr  # what libraries print is no answer
    a.run(a)


if __name__ == "__main__":
    main()
