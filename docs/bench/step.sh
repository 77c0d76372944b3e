#!/usr/bin/env bash
# Time whole training steps of two models on this machine's CPU, in turns with PyTorch:
#
#   docs/bench/step.sh PYTHON [ROUNDS]
#
# PYTHON has torch and transformers, for cmd/bench/pytorch.py. Both sides do four micro-batches of 512 tokens, every token
# a target, in bf16 and in fp32. PyTorch runs eagerly and compiled. The models are the embedded one and two layers of
# Llama-3.2-1B with a vocabulary of 4,096.
set -euo pipefail
python=$(command -v "$1") rounds=${2:-3}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/bench" ./cmd/bench
sed 's/"num_hidden_layers": 16/"num_hidden_layers": 2/; s/"vocab_size": 128256/"vocab_size": 4096/' cmd/bench/llama-3.2-1b.json >"$work/two-layers.json"
peer="env PYTHONDONTWRITEBYTECODE=1 $python cmd/bench/pytorch.py step"
for model in data/starter-llama/config.json "$work/two-layers.json"; do
  for dtype in bf16 fp32; do
    for _ in $(seq "$rounds"); do
      "$work/bench" step --device cpu --config "$model" --dtype $dtype --shapes 1x512x4 --beside "$peer --mode eager" --beside "$peer --mode compile"
    done
  done
done
