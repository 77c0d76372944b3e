"""Times causal attention by every backend of torch's scaled_dot_product_attention on a GPU, forward and backward:

    python3 docs/bench/attention_pytorch.py [SEQUENCESxLENGTH ...]

32 query heads, 8 of keys and values, head dims 64 and 128, random values in bf16. A backend that does not take so few keys and
values is given them repeated, which is not timed. Operations are counted as BenchmarkGPUAttention counts them: what half of each
sequence's square needs, 2 products forward and 5 backward. The last column says if five backward passes gave the same bits.
"""

import os
import statistics
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses to be deterministic

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, SHARED, BATCH, BATCHES = 32, 8, 8, 11
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def seconds(run):
    """The median of batches of launches, after one that wakes the clocks."""
    run()
    times = []
    for _ in range(BATCHES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(BATCH):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / BATCH)
    return statistics.median(times)


def measure(backend, deterministic, dim, sequences, length, repeated):
    torch.use_deterministic_algorithms(deterministic)
    q, k, v, dy = (torch.randn(sequences, length, heads, dim, device=DEVICE, dtype=torch.bfloat16).transpose(1, 2)
                   for heads in (HEADS, SHARED, SHARED, HEADS))
    if repeated:
        k, v = (x.repeat_interleave(HEADS // SHARED, 1) for x in (k, v))
    for x in (q, k, v):
        x.requires_grad_()
    with sdpa_kernel(backend):
        forward = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not repeated)
        y = forward()
        backward = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
        first = backward()
        same = all(torch.equal(a, b) for _ in range(4) for a, b in zip(first, backward()))
        product = sequences * length * length * HEADS * dim
        return 2 * product / seconds(forward) / 1e12, 5 * product / seconds(backward) / 1e12, same


def main():
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}\n")
    print("| shape | backend | keys and values | forward, TFLOP/s | backward, TFLOP/s | same bits |\n|---|---|---|---:|---:|---|")
    for shape in sys.argv[1:] or ["8x2048"]:
        sequences, length = map(int, shape.split("x"))
        for dim in (64, 128):
            for name, backend in SDPBackend.__members__.items():
                if name in ("ERROR", "OVERRIDEABLE"):
                    continue
                for deterministic in (False, True):
                    row = f"| d{dim} {shape} | {name.lower()}{', told to be deterministic' if deterministic else ''} |"
                    for repeated in (False, True):
                        try:
                            forward, backward, same = measure(backend, deterministic, dim, sequences, length, repeated)
                            print(f"{row} {'repeated' if repeated else 'shared'} | {forward:.0f} | {backward:.0f} | {'yes' if same else 'no'} |", flush=True)
                            break
                        except Exception as e:
                            why = f"{type(e).__name__}: {e}".splitlines()[0][:80]
                    else:
                        print(f"{row} {why} | | | |", flush=True)
                    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
