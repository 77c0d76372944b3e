#!/usr/bin/env bash
# Time the forward and backward passes of two models on this machine's CPU, in turns with PyTorch:
#
#   docs/bench/step.sh PYTHON TRAIN_CPU.PY [ROUNDS]
#
# PYTHON has torch and transformers; TRAIN_CPU.PY is the program that trains transformers' Llama with them and prints its
# tokens per second as JSON (options --config, --dtype, --mode eager|compile, --batch, --seq, --accum, --optimizer none). Both
# sides do four micro-batches of 512 tokens, every token a target, without an optimizer.
set -euo pipefail
python=$1 peer=$(realpath "$2") rounds=${3:-3}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/model.test" ./model
cd "$(dirname "$peer")"
for model in starter llama-3.2-1b-2layers; do
  for dtype in bf16 fp32; do
    kind=BF16 steps=10
    [ $dtype = bf16 ] || kind=F32
    [ $model = starter ] || steps=3
    for _ in $(seq "$rounds"); do
      "$work/model.test" -test.run '^$' -test.bench "Gradient/$model/$kind/fused=all" -test.benchtime ${steps}x | grep ^Bench
      for mode in eager compile; do
        PYTHONDONTWRITEBYTECODE=1 "$python" "$peer" --config $model --dtype $dtype --mode $mode --batch 1 --seq 512 --accum 4 \
          --optimizer none --steps $steps --warmup 2 2>/dev/null | "$python" -c 'import json, sys
d = json.load(sys.stdin)
print("torch", d["config"], d["dtype"], d["mode"], "median", d["tokens_per_s_median"], "best", d["tokens_per_s_best"], "tok/s,", d["busy_cores"], "cores")'
      done
    done
  done
done
