#!/usr/bin/env bash
# Makes the embedded base model, data/starter-llama, anew: its vocabulary and its weights. Needs Go and gcc, and no Python.
#
#   data/make/base.sh [WORK]      WORK keeps what is made on the way; default a new folder under /tmp
#
# 1. gen writes every row of the starter set with plain prose around its code (plain.style), and a fifth as many as a pirate would:
#    a model that has met two voices takes up a third one sooner.
# 2. train makes a vocabulary and trains a new model on them.
#
# A model is the same, bit for bit, wherever the same instruction set of the CPU is used (RESTYLE_CPU); with another one its
# last bits differ, and so, after thousands of steps, do its answers, here and there.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
echo "working in $work"
go run ./cmd/gen --source starter --style data/make/plain.style --teacher builtin --rows 35277 --out "$work/plain.json"
go run ./cmd/gen --source starter --style pirate --teacher builtin --rows 7000 --seed 3 --out "$work/pirate.json"
go run ./cmd/train --from-scratch data/make/base.json --data "$work/plain.json" --data "$work/pirate.json" --vocab-data data/passive_aggressive_data.json \
  --fused --epochs 3 --batch 16 --accumulate 1 --lr 1e-3 --warmup 0.02 --weight-decay 0.1 --val 0.01 --log-every 500 \
  --benchmark-log "" --out "$work/model"
for file in config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors; do
  cp "$work/model/$file" "data/starter-llama/$file"
done
go run ./cmd/bench quality --base data/starter-llama --only base
