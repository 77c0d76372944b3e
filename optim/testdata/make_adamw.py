"""Records adamw.safetensors: what PyTorch's AdamW and bitsandbytes' dynamic maps make of a few numbers, on the CPU.

    python make_adamw.py

Needs torch 2.15.0, bitsandbytes 0.50.2, safetensors 0.8.0 and numpy 2.4.6, and refuses others. What the tensors are is said
in restyle/parity, which compares them. The codes of blocks are recorded for decoding alone: on a CPU bitsandbytes
looks them up in a table of 65,536 steps, and they are not the nearest. Every run writes the same tensors; the words of the
header may come in another order.
"""

import pathlib

import bitsandbytes as bnb
import numpy as np
import safetensors
import torch
from bitsandbytes.functional import create_dynamic_map, dequantize_blockwise, quantize_blockwise
from safetensors.torch import save_file

PINNED = {torch: "2.15.0", bnb: "0.50.2", safetensors: "0.8.0", np: "2.4.6"}
HERE = pathlib.Path(__file__).parent
SIZE, STEPS, SNAPSHOTS, RATE, DECAY, BETAS, EPS, BLOCK = 600, 10, (1, 2, 10), 1e-3, 0.01, (0.9, 0.999), 1e-8, 256


def main():
    for module, version in PINNED.items():
        if module.__version__.split("+")[0] != version:
            raise SystemExit(f"{module.__name__} is {module.__version__}, and not {version}")
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1)
    case, run = f"n{SIZE}", f"n{SIZE}/fp32/{RATE:g}/{DECAY:g}"
    # Every sixth element is still; the others span seven decades.
    scale = 10.0 ** -(torch.arange(SIZE) % 6 + 1) * (torch.arange(SIZE) % 6 > 0)
    grads = (torch.randn(STEPS, SIZE, generator=g) * scale).to(torch.bfloat16)
    start = 0.02 * torch.randn(SIZE, generator=g)
    tensors = {f"{case}.p0": start, f"{case}.grads": grads}

    p = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([p], lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, foreach=False)
    for step in range(1, STEPS + 1):
        p.grad = grads[step - 1].float()
        optimizer.step()
        if step in SNAPSHOTS:
            tensors[f"torch/{run}.step{step}.p"] = p.detach().clone()
            for name in ("exp_avg", "exp_avg_sq"):
                tensors[f"torch/{case}.step{step}.{name}"] = optimizer.state[p][name].clone()

    for kind in ("signed", "unsigned"):
        table = create_dynamic_map(signed=kind == "signed")
        tensors[f"qmap.{kind}"] = table
        for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            x = torch.cat([table * 0.3, 10.0 ** -(7 * torch.rand(BLOCK, generator=g)), torch.randn(17, generator=g)])
            x = (x if kind == "signed" else x.abs()).to(dtype)
            codes, state = quantize_blockwise(x, code=table, blocksize=BLOCK)
            back = dequantize_blockwise(codes, state)
            under = f"blockwise.{kind}.{name}."
            tensors |= {under + "x": x, under + "codes": codes, under + "absmax": state.absmax, under + "back": back}
    metadata = {"device": "cpu", "betas": "%g,%g" % BETAS, "eps": f"{EPS:g}", "block": str(BLOCK), "runs": run,
                "snapshots": ",".join(map(str, SNAPSHOTS))}
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "adamw.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
