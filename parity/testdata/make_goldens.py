"""Records the reference outputs in this folder: what transformers and PyTorch compute from tiny models.

    python make_goldens.py

Needs torch 2.15.0, transformers 5.23.0, peft 0.21.2, safetensors 0.8.0 and numpy 2.4.6, and refuses others. The same versions on the
same processor write the same bytes. Everything is computed on the CPU, on one thread, with eager attention.

llama/  a model as Llama-3.2 is built: grouped queries, a tied head, llama3 RoPE scaling; with packing, accumulation
        and training
qwen2/  biases on q, k and v; weights in BF16; a padding id that is also an ordinary token
lora/   an adapter: rsLoRA, with ranks and scales of some modules' own, and the head trained whole
large/  as a model that is too large to store is recorded: its weights follow from a seed

What the files mean is said in the package comment of restyle/parity and in the code that compares them.
"""

import hashlib
import json
import math
import pathlib

import numpy as np
import peft
import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

PINNED = {torch: "2.15.0", transformers: "5.23.0", peft: "0.21.2", safetensors: "0.8.0", np: "2.4.6"}
HERE = pathlib.Path(__file__).parent
NONE = -100  # the label of what is not trained

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 18, "hidden_size": 12,
    "intermediate_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 128},
    "attention_bias": False, "mlp_bias": False, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
    "torch_dtype": "float32",
}
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 21, "hidden_size": 16,
    "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "use_sliding_window": False, "sliding_window": 8, "hidden_act": "silu", "pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
}


def length(x):
    return float(torch.linalg.vector_norm(x.detach().double()))


def off(x, truth):
    return length(x.double() - truth.double()) / length(truth)


def total(gradients):
    return math.sqrt(sum(length(g) ** 2 for g in gradients.values()))


def shorter(x):
    """Ten digits are more than any float32 result has."""
    if isinstance(x, dict):
        return {k: shorter(v) for k, v in x.items()}
    if isinstance(x, list):
        return [shorter(v) for v in x]
    return float(f"{x:.10g}") if isinstance(x, float) else x


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


# ------------------------------------------------------------------------------------------------- small models


def random_model(folder, config, dtype, seed):
    """Writes a model whose weights are large enough for every mistake to show."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", config)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    for name, p in model.named_parameters():
        spread, middle = (0.2, 1.0) if "norm" in name else (0.3, 0.0)
        p.data = middle + spread * torch.randn_like(p)
    tensors = {n: p.to(dtype).contiguous() for n, p in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def load(folder, dtype=torch.float32, attention="eager"):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()
    model.config.use_cache = False
    return model


def padded(rng, vocab, lengths, prompts, width):
    """Rows of random tokens, padded on the right. Of each the first so many are a prompt, which is not trained; the one
    in the middle is 5, which for qwen2 is also the padding."""
    ids = torch.full((len(lengths), width), 2)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, NONE)
    for row, (n, prompt) in enumerate(zip(lengths, prompts)):
        ids[row, :n] = torch.from_numpy(rng.integers(0, vocab, n))
        ids[row, n // 2] = 5
        mask[row, :n] = 1
        labels[row, prompt:n] = ids[row, prompt:n]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def watch(model):
    """The residual stream as it passes, by name; filled by the next forward pass."""
    states, hooks = {}, []

    def note(name):
        return lambda module, args, out: states.update({name: out.detach().clone()})

    inner = model.model
    named = {"embed": inner.embed_tokens, "norm": inner.norm} | {f"block.{i}": b for i, b in enumerate(inner.layers)}
    for name, module in named.items():
        hooks.append(module.register_forward_hook(note(name)))
    return states, hooks


def compute(model, **batch):
    states, hooks = watch(model)
    model.zero_grad(set_to_none=True)
    out = model(**batch)
    out.loss.backward()
    for hook in hooks:
        hook.remove()
    return out.loss.detach(), out.logits.detach(), states, {n: p.grad.clone() for n, p in model.named_parameters()}


def targets(labels):
    return torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], NONE)], 1)


def trained(labels):
    return int((targets(labels) != NONE).sum())


def record_forward(folder, rng, width, lengths, prompts):
    model, low = load(folder), load(folder, torch.bfloat16)
    other = load(folder, torch.bfloat16, "sdpa")
    batch = padded(rng, model.config.vocab_size, lengths, prompts, width)
    batch["labels"][0, width // 2 : width // 2 + 2] = NONE  # a hole in an answer
    loss, logits, states, gradients = compute(model, **batch)
    low_loss, low_logits, _, low_gradients = compute(low, **batch)
    _, other_logits, _, other_gradients = compute(other, **batch)
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets(batch["labels"]), ignore_index=NONE,
                                             reduction="none")
    live = batch["attention_mask"] == 1
    save_file(batch | {"logits": logits, "loss": loss.reshape(1), "token_loss": each,
                       "grad_norm": torch.tensor([total(gradients)], dtype=torch.float32),
                       "rope.inv_freq": model.model.rotary_emb.inv_freq}
              | {f"hidden.{n}": h for n, h in states.items()} | {f"grad.{n}": g for n, g in gradients.items()},
              folder / "golden.safetensors")
    # Tensors are so small here that one BF16 computation may be close by luck: the larger error of two is the measure.
    errors = {n: max(off(low_gradients[n], g), off(other_gradients[n], g)) for n, g in gradients.items()}
    return {
        "forward": {"trained_tokens": trained(batch["labels"]), "loss": float(loss), "logits_norm": length(logits[live]),
                    "grad_norm": total(gradients)},
        "bfloat16": {"loss": float(low_loss), "logits_error": max(off(x[live], logits[live]) for x in (low_logits, other_logits)),
                     "grad_norm": total(low_gradients), "grad_error": errors,
                     "grad_error_whole": math.sqrt(sum((errors[n] * length(g)) ** 2 for n, g in gradients.items()))
                     / total(gradients)},
    }


def record_packing(folder, rng, lengths, padding):
    model = load(folder)
    rows = padded(rng, model.config.vocab_size, lengths, [2] * len(lengths), max(lengths))
    pieces = {"input_ids": [], "labels": [], "position_ids": [], "sequence_ids": []}
    for i, n in enumerate([*lengths, padding]):
        real = i < len(lengths)
        pieces["input_ids"].append(rows["input_ids"][i, :n] if real else torch.full((n,), 2))
        pieces["labels"].append(rows["labels"][i, :n] if real else torch.full((n,), NONE))
        pieces["position_ids"].append(torch.arange(n))
        pieces["sequence_ids"].append(torch.full((n,), i))
    packed = {k: torch.cat(v)[None] for k, v in pieces.items()}
    sequence = packed.pop("sequence_ids")
    see = (sequence.T == sequence) & torch.ones(sequence.numel(), sequence.numel(), dtype=torch.bool).tril()
    bias = torch.zeros(see.shape).masked_fill(~see, torch.finfo(torch.float32).min)[None, None]
    loss, logits, _, gradients = compute(model, **packed, attention_mask=bias)
    rows_loss, _, _, rows_gradients = compute(model, **rows)
    leaky = model(input_ids=packed["input_ids"], labels=packed["labels"]).loss
    save_file({f"packed.{k}": v.contiguous() for k, v in packed.items()} | {f"rows.{k}": v for k, v in rows.items()}
              | {"packed.sequence_ids": sequence.contiguous(), "packed.may_see": see.to(torch.uint8),
                 "packed.cu_seqlens": torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32),
                 "packed.logits": logits, "packed.loss": loss.reshape(1), "rows.loss": rows_loss.reshape(1)}
              | {f"packed.grad.{n}": g for n, g in gradients.items()}
              | {f"rows.grad.{n}": g for n, g in rows_gradients.items()}, folder / "packing.safetensors")
    return {"lengths": lengths, "padding": padding, "trained_tokens": trained(packed["labels"]), "loss": float(loss),
            "loss_rows": float(rows_loss), "loss_if_sequences_see_each_other": float(leaky.detach()),
            "grad_norm": total(gradients)}


def accumulate(model, micro, divisors):
    model.zero_grad(set_to_none=True)
    losses = []
    for batch, divisor in zip(micro, divisors):
        loss = model(**batch, num_items_in_batch=divisor).loss
        loss.backward()
        losses.append(float(loss.detach()))
    return losses, {n: p.grad.clone() for n, p in model.named_parameters()}


def record_accumulation(folder, rng):
    """Micro-batches with few and with many trained tokens, and a row that has none."""
    model = load(folder)
    micro = [padded(rng, model.config.vocab_size, lengths, prompts, max(lengths))
             for lengths, prompts in (((9, 7), (7, 6)), ((13, 12), (1, 2)), ((8, 5), (8, 2)))]
    counts = [trained(m["labels"]) for m in micro]
    losses, gradients = accumulate(model, micro, [sum(counts)] * len(micro))
    wrong, wrong_gradients = accumulate(model, micro, [len(micro) * n for n in counts])
    save_file({f"micro.{i}.{k}": v for i, m in enumerate(micro) for k, v in m.items()}
              | {"loss": torch.tensor([sum(losses)])} | {f"grad.{n}": g for n, g in gradients.items()},
              folder / "accumulation.safetensors")
    return {"trained_tokens": counts, "loss_sum": [x * sum(counts) for x in losses], "loss": sum(losses),
            "grad_norm": total(gradients),
            "mean_of_means_is_wrong": {"loss": sum(wrong), "grad_norm": total(wrong_gradients)}}


def record_training(folder, rng, steps=10):
    model = load(folder)
    batches = [padded(rng, model.config.vocab_size, (11, 11 - i % 4), (2, 3), 11) for i in range(steps)]
    settings = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "clip": 1.0, "warmup_steps": 3,
                "steps": steps}
    still = [n for n, _ in model.named_parameters() if "norm" in n or n.endswith("bias")]
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in model.named_parameters() if (n in still) == without],
          "weight_decay": 0.0 if without else settings["weight_decay"]} for without in (False, True)],
        lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, settings["warmup_steps"], steps)
    record = {"lr": [], "loss": [], "grad_norm": []}
    for batch in batches:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        record["grad_norm"].append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])))
        record["lr"].append(optimizer.param_groups[0]["lr"])
        record["loss"].append(float(loss.detach()))
        optimizer.step()
        schedule.step()
    save_file({k: torch.stack([b[k] for b in batches]) for k in batches[0]}
              | {f"final.{n}": p.detach().clone() for n, p in model.named_parameters()}, folder / "training.safetensors")
    return record | {"optimizer": settings, "not_decayed": still, "trained_tokens": [trained(b["labels"]) for b in batches],
                     "first_batch_loss_after": float(model(**batches[0]).loss.detach())}


# ------------------------------------------------------------------------------------------------- adapters


LORA = {"r": 2, "lora_alpha": 3, "target_modules": ["q_proj", "down_proj"], "modules_to_save": ["lm_head"], "use_rslora": True,
        "rank_pattern": {"down_proj": 3}, "alpha_pattern": {"layers.1.self_attn.q_proj": 5}, "task_type": "CAUSAL_LM"}


class Adapter:
    """A model with an adapter, whose trained parameters have the names of adapter_model.safetensors."""

    def __init__(self, folder, values=None, dtype=torch.float32, attention="eager"):
        self.model = peft.get_peft_model(load(folder, dtype, attention), peft.LoraConfig(**LORA)).eval()
        names = {p.data_ptr(): n for n, p in peft.get_peft_model_state_dict(self.model).items()}
        self.params = {names[p.data_ptr()]: p for p in self.model.parameters() if p.requires_grad}
        for n, v in (values or {}).items():
            self.params[n].data.copy_(v)

    def values(self):
        return {n: p.detach().clone() for n, p in self.params.items()}

    def compute(self, batch):
        self.model.zero_grad(set_to_none=True)
        out = self.model(**batch)
        out.loss.backward()
        return out.loss.detach(), out.logits.detach(), {n: p.grad.clone() for n, p in self.params.items()}

    def train(self, batches):
        lr, betas, eps, decay, clip = 2e-3, [0.9, 0.999], 1e-8, 0.01, 1.0
        optimizer = torch.optim.AdamW(self.params.values(), lr=lr, betas=betas, eps=eps, weight_decay=decay)
        record = {"loss": [], "grad_norm": []}
        for batch in batches:
            record["loss"].append(float(self.compute(batch)[0]))
            record["grad_norm"].append(float(torch.nn.utils.clip_grad_norm_(self.params.values(), clip)))
            optimizer.step()
        return record | {"optimizer": {"lr": lr, "betas": betas, "eps": eps, "weight_decay": decay, "clip": clip,
                                       "steps": len(batches)}, "trained_tokens": [trained(b["labels"]) for b in batches]}


def record_lora(folder, rng):
    torch.manual_seed(4)
    first = Adapter(folder)
    batch = padded(rng, first.model.config.vocab_size, (13, 9), (4, 2), 13)
    with torch.no_grad(), first.model.disable_adapter():
        base = first.model(**batch).logits
    first_loss, _, first_gradients = first.compute(batch)
    start = {n: 0.2 * torch.randn_like(p) if "lora_B" in n else p for n, p in first.values().items()}
    adapter = Adapter(folder, start)
    loss, logits, gradients = adapter.compute(batch)
    low, other = (Adapter(folder, start, torch.bfloat16, attention).compute(batch) for attention in ("eager", "sdpa"))
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets(batch["labels"]), ignore_index=NONE, reduction="none")
    live = batch["attention_mask"] == 1
    scaling = {n.removeprefix("base_model.model."): m.scaling["default"] for n, m in adapter.model.named_modules()
               if isinstance(m, peft.tuners.lora.Linear)}
    batches = [padded(rng, first.model.config.vocab_size, (11, 11 - i), (2, 3), 11) for i in range(5)]
    training = adapter.train(batches)
    ways = [(way, load(folder, dtype), safe) for way, dtype, safe in  # transformers would load the adapter as well
            (("", torch.float32, False), ("_bf16", torch.bfloat16, False), ("_bf16_safe", torch.bfloat16, True))]
    adapter.model.peft_config["default"].base_model_name_or_path = "lora"
    adapter.model.save_pretrained(folder)
    (folder / "README.md").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())  # whose target_modules are a set
    write_json(folder / "adapter_config.json", config | {"target_modules": LORA["target_modules"]})
    tensors, hashes = {}, {}
    with torch.no_grad():
        for way, model, safe in ways:
            tuned = peft.PeftModel.from_pretrained(model, folder).eval()
            if not way:
                tensors["logits.trained"] = tuned(**batch).logits
            merged = tuned.merge_and_unload(safe_merge=safe)
            if not way:
                tensors["logits.merged"] = merged(**batch).logits
            touched = {n: dict(merged.named_parameters())[n] for n in sorted(f"{module}.weight" for module in scaling)}
            hashes["sha256" + (way or "_float32")] = {
                n: hashlib.sha256((w.view(torch.int16) if way else w).numpy().tobytes()).hexdigest() for n, w in touched.items()}
            tensors |= {f"merged{way}.{n}": w.clone() for n, w in touched.items() if n in (min(touched), max(touched))}
    errors = {n: max(off(low[2][n], g), off(other[2][n], g)) for n, g in gradients.items()}
    save_file(batch | {f"train.{k}": torch.stack([b[k] for b in batches]) for k in batch} | tensors
              | {"logits.base": base, "logits": logits, "loss": loss.reshape(1), "token_loss": each}
              | {f"init.{n}": p for n, p in first.values().items() if "lora_A" in n}
              | {f"{what}.{n}": p for what, values in (("start", start), ("grad", gradients), ("final", adapter.values()))
                 for n, p in values.items()}, folder / "lora.safetensors")
    return {
        "variant": "lora", "parameters": sum(p.numel() for p in start.values()), "scaling": scaling,
        "init": {"loss": float(first_loss), "grad_norm": total(first_gradients),
                 "grad_norm_of_each": {n: length(g) for n, g in first_gradients.items()}},
        "forward": {"trained_tokens": trained(batch["labels"]), "loss": float(loss), "logits_norm": length(logits[live]),
                    "logits_from_base": off(logits[live], base[live]), "grad_norm": total(gradients)},
        "bfloat16": {"adapter_dtype": ["torch.float32"], "loss": float(low[0]), "loss_error": abs(float(low[0]) / float(loss) - 1),
                     "logits_error": max(off(x[1][live], logits[live]) for x in (low, other)), "grad_error": errors,
                     "grad_error_whole": math.sqrt(sum((errors[n] * length(g)) ** 2 for n, g in gradients.items()))
                     / total(gradients)},
        "training": training,
        "merge": hashes | {"bf16_is_the_float32_sum_rounded_once": True, "elements_where_safe_differs": sum(
            int((tensors["merged_bf16" + n] != x).sum()) for n, x in
            ((name.removeprefix("merged_bf16_safe"), x) for name, x in tensors.items() if "_safe" in name))},
    }


# ------------------------------------------------------------------------------------------------- weights from a seed


def stream(seed, name, n):
    """The first n hashes of a name."""
    start = 0xCBF29CE484222325
    for byte in name.encode():
        start = (start ^ byte) * 0x100000001B3 % 2**64
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start ^ seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
    return z ^ z >> np.uint64(31)


def weight(seed, name, shape):
    u = ((stream(seed, name, math.prod(shape)) >> np.uint64(40)).astype(np.int64) - 2**23).astype(np.float32) / 2**23
    w = np.float32(1) + u / 4 if "norm" in name else u * np.float32(71 / 2048)
    return torch.from_numpy(w.astype(np.float32)).to(torch.bfloat16).reshape(shape)


def digits(x):
    """Numbers with the digits that a float32 needs."""
    return [digits(v) for v in x] if x.ndim else float(str(x.float().numpy()))


class Large:
    """A model whose weights follow from a seed, two rows of tokens, and what is stored of its results."""

    def __init__(self, folder, config, seed, lengths, prompts):
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", config)
        self.config, self.seed, self.rows = AutoConfig.from_pretrained(folder), seed, []
        vocab, dim = config["vocab_size"], config["hidden_size"]
        for r, (n, prompt) in enumerate(zip(lengths, prompts)):
            ids = (stream(seed, f"tokens {r}", n) % np.uint64(vocab)).astype(np.int64).tolist()
            self.rows.append((ids, [NONE] * prompt + ids[prompt:]))
        self.count = sum(trained(torch.tensor([labels])) for _, labels in self.rows)
        self.inputs = {
            "rows": [ids for ids, _ in self.rows], "labels": [labels for _, labels in self.rows],
            "trained_tokens": [trained(torch.tensor([labels])) for _, labels in self.rows],
            "logit_positions": [[0, 1, n - 1] for n in lengths], "hidden_positions": [[1, n - 1] for n in lengths],
            "vocab_ids": (stream(seed, "vocab", 12) % np.uint64(vocab)).tolist(),
            "hidden_columns": (stream(seed, "hidden", 4) % np.uint64(dim)).tolist(),
        }

    def model(self, dtype=torch.float32):
        model = AutoModelForCausalLM.from_config(self.config, dtype=dtype, attn_implementation="eager").eval()
        model.model.rotary_emb = LlamaRotaryEmbedding(self.config)  # its frequencies stay float32
        for name, p in model.named_parameters():
            p.data = weight(self.seed, name, p.shape).to(dtype)
        model.config.use_cache = False
        return model

    def forward(self, model, gradient=False):
        """What is stored of both rows; and whole hidden states and sampled logits."""
        figures, whole = [], []
        for (ids, labels), logit_at, hidden_at in zip(self.rows, self.inputs["logit_positions"], self.inputs["hidden_positions"]):
            states, hooks = watch(model)
            out = model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels]), num_items_in_batch=self.count)
            for hook in hooks:
                hook.remove()
            if gradient:
                out.loss.backward()
            states = {n: h[0] for n, h in states.items()}
            logits = out.logits.detach()[0].float()
            sampled = logits[logit_at][:, self.inputs["vocab_ids"]]
            last = states[f"block.{self.config.num_hidden_layers - 1}"]
            figures.append({
                "loss_sum": float(out.loss.detach()) * self.count,
                "trained_tokens": trained(torch.tensor([labels])),
                "logsumexp": digits(logits.logsumexp(-1)),
                "last_block_norm": [length(h) for h in last], "final_norm": [length(h) for h in states["norm"]],
                "logits": digits(sampled), "argmax": logits[logit_at].argmax(-1).tolist(),
                "argmax_logit": digits(logits[logit_at].max(-1).values),
                "hidden": {n: {"norm": length(h), "position_norm": [length(h[p]) for p in hidden_at],
                               "values": digits(h[hidden_at][:, self.inputs["hidden_columns"]].float())}
                           for n, h in states.items()},
            })
            whole.append({"logits": sampled} | states)
        return figures, whole

    def loss(self, model):
        with torch.no_grad():
            return sum(f["loss_sum"] for f in self.forward(model)[0]) / self.count

    def gradients(self, model):
        model.zero_grad(set_to_none=True)
        figures, _ = self.forward(model, gradient=True)
        return sum(f["loss_sum"] for f in figures) / self.count, {n: p.grad.clone() for n, p in model.named_parameters()}

    def sample(self, name, gradient):
        """Indices of 64 elements; of the embedding half in rows that are read."""
        h = stream(self.seed, "sample." + name, 64)
        index = h % np.uint64(gradient.numel())
        if name == "model.embed_tokens.weight":
            read = np.array(sum(self.inputs["rows"], []), np.uint64)
            dim = np.uint64(gradient.shape[1])
            index[:32] = read[h[:32] % np.uint64(len(read))] * dim + (h[:32] >> np.uint64(32)) % dim
        index = index.astype(np.int64)
        sign = torch.from_numpy(1.0 - 2.0 * (stream(self.seed, name, gradient.numel()) & np.uint64(1)).astype(np.float64))
        flat = gradient.flatten()
        return {"norm": length(flat), "dot": float(flat.double() @ sign), "index": index.tolist(), "value": digits(flat[index])}

    def greedy(self, model, prompt, steps):
        record = {"prompt": prompt, "continuation": [], "gap": []}
        ids = list(prompt)
        for _ in range(steps):
            with torch.no_grad():
                top = model(input_ids=torch.tensor([ids])).logits[0, -1].float().topk(2)
            record["gap"].append(float(top.values[0] - top.values[1]))
            record["continuation"].append(int(top.indices[0]))
            ids.append(record["continuation"][-1])
        return record

    def sgd(self, lr, steps):
        model, record = self.model(), {"lr": lr, "loss": [], "grad_norm": []}
        for _ in range(steps):
            loss, gradients = self.gradients(model)
            record["loss"].append(loss)
            record["grad_norm"].append(total(gradients))
            for name, p in model.named_parameters():
                p.data -= lr * gradients[name]
        record["loss"].append(self.loss(model))
        return record

    def adamw(self, gradients):
        record = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
        for name, lr in (("loss", record["lr"]), ("loss_with_lr_1e-5", 1e-5)):
            model = self.model()
            for n, p in model.named_parameters():
                p.grad = gradients[n]
                decay = 0.0 if "norm" in n else record["weight_decay"]
                torch.optim.AdamW([p], lr, betas=tuple(record["betas"]), eps=record["eps"], weight_decay=decay).step()
            record[name] = self.loss(model)
        return record

    def record(self):
        model = self.model()
        figures, truth = self.forward(model)
        loss, gradients = self.gradients(model)
        low = self.model(torch.bfloat16)
        low_figures, low_whole = self.forward(low)
        low_loss, low_gradients = self.gradients(low)
        errors = {n: off(low_gradients[n], g) for n, g in gradients.items()}
        parameters = dict(model.named_parameters())
        return {
            "seed": self.seed,
            "generator": {"scale": 71 / 2048, "hash_of_index_0_of_stream_vocab": f"{int(stream(self.seed, 'vocab', 1)[0]):016x}"},
            "parameters": sum(p.numel() for p in parameters.values()),
            "weights": {n: {"shape": list(p.shape),
                            "sha256": hashlib.sha256(weight(self.seed, n, p.shape).view(torch.int16).numpy().tobytes()).hexdigest(),
                            "first": digits(p.data.flatten()[:4])} for n, p in parameters.items()},
            "inv_freq": digits(model.model.rotary_emb.inv_freq),
            "inputs": self.inputs,
            "forward": {"loss": loss, "trained_tokens": self.count, "rows": figures},
            "gradients": {"norm": total(gradients), "each": {n: self.sample(n, g) for n, g in gradients.items()}},
            "greedy": self.greedy(model, self.inputs["rows"][1][:8], 6),
            "sgd": self.sgd(0.1, 2),
            "adamw": self.adamw(gradients),
            "bfloat16": {
                "loss": low_loss, "loss_sum": [f["loss_sum"] for f in low_figures],
                "logits_error": [off(a["logits"], b["logits"]) for a, b in zip(low_whole, truth)],
                "hidden_error": {n: [off(a[n], b[n]) for a, b in zip(low_whole, truth)] for n in figures[0]["hidden"]},
                "grad_norm": total(low_gradients), "grad_error": errors,
                "grad_error_whole": math.sqrt(sum((errors[n] * length(g)) ** 2 for n, g in gradients.items())) / total(gradients),
            },
        }


def main():
    for library, version in PINNED.items():
        assert library.__version__.split("+")[0] == version, f"{library.__name__} {library.__version__} is not {version}"
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    llama, rng = HERE / "llama", np.random.default_rng(7)
    random_model(llama, LLAMA, torch.float32, 7)
    write_json(llama / "golden.json", record_forward(llama, rng, 13, (13, 9), (4, 2)) | {
        "rope_branches": {"kept": 1, "blended": 1, "divided": 1},
        "packing": record_packing(llama, rng, [5, 2, 4], 2),
        "accumulation": record_accumulation(llama, rng),
        "training": record_training(llama, rng),
    })
    qwen2, rng = HERE / "qwen2", np.random.default_rng(2)
    random_model(qwen2, QWEN2, torch.bfloat16, 2)
    write_json(qwen2 / "golden.json", record_forward(qwen2, rng, 11, (11, 7), (3, 0)))

    lora, rng = HERE / "lora", np.random.default_rng(4)
    random_model(lora, LLAMA | {"tie_word_embeddings": False, "torch_dtype": "bfloat16"}, torch.bfloat16, 4)
    write_json(lora / "lora.json", record_lora(lora, rng))

    config = LLAMA | {"vocab_size": 288, "hidden_size": 24, "intermediate_size": 36, "head_dim": 8, "num_hidden_layers": 2}
    (HERE / "large").mkdir(exist_ok=True)
    golden = Large(HERE / "large", config, 3, (12, 40), (4, 16)).record()
    (HERE / "large" / "golden.json").write_text(json.dumps(shorter(golden), separators=(",", ":")) + "\n")
    for path in HERE.glob("*/*"):
        path.chmod(0o644)  # safetensors lets only the owner read


if __name__ == "__main__":
    main()
