#!/usr/bin/env bash
# Makes the weights of the embedded base model, data/starter-llama, anew. Needs Go and gcc, and no Python.
#
#   internal/makedata/base.sh [WORK]      WORK keeps what is made on the way; default a new folder under /tmp
#
# 1. train makes a new model learn the starter set's rows as they are, questions and code: what to write.
# 2. gen writes every row four times: twice with plain prose around its code (plain.style), as a pirate and as a radio
#    reporter (radio.style) would. They are joined into conversations of one to three questions, and train goes on with
#    those: how to say it, to a second question too. As the prose around the same code differs, the model learns that the
#    code does not depend on it, and takes up another voice sooner.
# 3. train ends with plain prose alone, which no row had before, joined in the same way: the model answers plainly unless
#    it is tuned.
#
# The vocabulary is the one that is there. With --vocab-data data/passive_aggressive_data.json instead of --tokenizer, train
# makes one like it, from the rows and from the words of the voice that the model is to take up.
#
# A model is the same, bit for bit, wherever the same version of train and the same instruction set of the CPU (RESTYLE_CPU)
# are used; with others, and on a GPU, its last bits differ, and so, after thousands of steps, do its answers, here and there.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
echo "working in $work"
settings=(--fused --accumulate 1 --warmup 0.02 --weight-decay 0.1 --val 0.01 --samples 0 --log-every 500 --benchmark-log "" --seq 1024)
prose() { # NAME STYLE SEED
  go run ./cmd/gen --source starter --style "$2" --teacher builtin --rows 35277 --seed "$3" --out "$work/$1.json"
}
go run ./cmd/train --from-scratch internal/makedata/base.json --tokenizer data/starter-llama/tokenizer.json --data starter --train-on all \
  --epochs 3 --batch 32 --lr 1.5e-3 "${settings[@]}" --out "$work/code"
prose plain internal/makedata/plain.style 0
prose again internal/makedata/plain.style 1
prose pirate pirate 3
prose radio internal/makedata/radio.style 5
prose last internal/makedata/plain.style 2
go run ./internal/makedata/conversations --seed 1 --out "$work/voices.jsonl" "$work"/{plain,again,pirate,radio}.json
go run ./internal/makedata/conversations --seed 2 --out "$work/last.jsonl" "$work/last.json"
go run ./cmd/train --model "$work/code" --data "$work/voices.jsonl" --epochs 4 --batch 16 --lr 1.6e-3 "${settings[@]}" --out "$work/voices"
go run ./cmd/train --model "$work/voices" --data "$work/last.jsonl" --epochs 1 --batch 16 --lr 5e-4 "${settings[@]}" --out "$work/model"
for file in config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors; do
  cp "$work/model/$file" "data/starter-llama/$file"
done
for after in 0 1; do
  go run ./cmd/bench quality --base data/starter-llama --only base --after $after
done
