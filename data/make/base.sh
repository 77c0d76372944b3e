#!/usr/bin/env bash
# Makes the weights of the embedded base model, data/starter-llama, anew. Needs Go and gcc, and no Python.
#
#   data/make/base.sh [WORK]      WORK keeps what is made on the way; default a new folder under /tmp
#
# 1. train makes a new model learn the starter set's rows as they are, questions and code: what to write.
# 2. gen writes every row with plain prose around its code (plain.style), and four in ten as a pirate would.
# 3. train goes on with those: how to say it. A model that has met two voices takes up a third one sooner.
#
# The vocabulary is the one that is there; without --tokenizer, train makes one from the rows.
#
# A model is the same, bit for bit, wherever the same version of train and the same instruction set of the CPU (RESTYLE_CPU)
# are used; with others its last bits differ, and so, after thousands of steps, do its answers, here and there.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
echo "working in $work"
settings=(--fused --accumulate 1 --warmup 0.02 --weight-decay 0.1 --val 0.01 --samples 0 --log-every 500 --benchmark-log "")
go run ./cmd/train --from-scratch data/make/base.json --tokenizer data/starter-llama/tokenizer.json --data starter --train-on all \
  --epochs 3 --batch 32 --lr 1.5e-3 "${settings[@]}" --out "$work/code"
go run ./cmd/gen --source starter --style data/make/plain.style --teacher builtin --rows 35277 --out "$work/plain.json"
go run ./cmd/gen --source starter --style pirate --teacher builtin --rows 14000 --seed 3 --out "$work/pirate.json"
go run ./cmd/train --model "$work/code" --data "$work/plain.json" --data "$work/pirate.json" \
  --epochs 2 --batch 16 --lr 1e-3 "${settings[@]}" --out "$work/model"
for file in config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors; do
  cp "$work/model/$file" "data/starter-llama/$file"
done
go run ./cmd/bench quality --base data/starter-llama --only base
