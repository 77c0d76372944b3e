#!/usr/bin/env bash
# Makes the weights of the embedded base model, data/starter-llama, anew. Needs Go and gcc, and no Python. It trains on 832
# million tokens: nine minutes on an H200 with 16 cores. Two cores with AVX-512 BF16 make 9,400 a second, so 25 hours.
#
#   internal/makedata/base.sh [WORK]      WORK keeps what is made on the way; default a new folder under /tmp
#
# The rows are those of data/starter.parquet, joined into conversations of up to eight, and after some of them a question that
# refers to the answer ("and in one line?"), so that the model answers later questions as well as the first.
#
# 1. train makes a new model learn the rows as they are, questions and answers: what to write.
# 2. gen writes plain prose around the code of every row (plain.style), and around that of many as a pirate and as a radio
#    host. Their sentences, and those of data/teacher.jsonl and data/passive_aggressive_data.json, are then put around all
#    answers in any order, twice: once to be read only, so that all of the loss is about the answers, and once to be
#    learned. So the model learns that the answer does not depend on what is around it, and takes up another voice without
#    losing what it knows.
# 3. All that one row of the last four says around its answer is put around another answer, of the same kind, to be learned:
#    after that the model takes up a voice faster, and forgets less for it.
# 4. train ends with plain prose alone, which no row had before: the model answers plainly unless it is tuned.
# 5. The last two stages come once more, with eleven rounds of other questions that refer to an answer: each is asked in
#    many ways, and the model must know it in words that it has not met.
#
# The vocabulary is the one that is there. With --vocab-data data/passive_aggressive_data.json instead of --tokenizer, train
# makes one like it, from the rows and from the words of the voice that the model is to take up.
#
# A model is the same, bit for bit, wherever the same version of train and the same instruction set of the CPU (RESTYLE_CPU)
# are used; with others, and on a GPU, its last bits differ, and so, after thousands of steps, do its answers, here and there.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
mkdir -p "$work"
echo "working in $work"
rows=data/starter.parquet
later=$work/later.jsonl
settings=(--fused --accumulate 1 --packing --seq 2048 --batch 8 --warmup 0.02 --weight-decay 0.1 --val 0.005 --samples 0
  --log-every 500 --benchmark-log "")
prose() { # NAME ROWS STYLE SEED
  go run ./cmd/gen --source "$rows" --source "$later" --rows "$2" --style "$3" --seed "$4" --teacher builtin --language python \
    --out "$work/$1.json"
}
join() { # SEED NAME FILE...
  go run ./internal/makedata/conversations --seed "$1" --follow-ups "$later" --out "$work/$2.jsonl" "${@:3}"
}
ask() { # ROUND SEED FLAG...
  later=$work/later$1.jsonl
  go run ./internal/makedata --follow-ups "$later" --round "$1"
  join "$2" "round$1.talks" --mix --learn --whole --source "$rows" "${@:3}" "${lent[@]:1}"
}
train() { # MODEL LR NAME FLAG...
  go run ./cmd/train --model "$work/$1" --lr "$2" "${settings[@]}" --out "$work/$3" "${@:4}"
}
go run ./internal/makedata --follow-ups "$later"
join 1 raw "$rows"
go run ./cmd/train --from-scratch internal/makedata/base.json --tokenizer data/starter-llama/tokenizer.json \
  --data "$work/raw.jsonl" --train-on all --epochs 6 --lr 2e-3 "${settings[@]}" --out "$work/code"
plain=internal/makedata/plain.style
prose plain 200000 $plain 0 &
prose last 200000 $plain 2 &
prose pirate 40000 pirate 3 &
prose radio 40000 internal/makedata/radio.style 5 &
for job in $(jobs -p); do wait "$job"; done
join 2 plain.talks --source "$rows" "$work/plain.json"
lent=("$work/plain.json" "$work/pirate.json" "$work/radio.json" data/teacher.jsonl
  data/passive_aggressive_data.json)
join 3 mixed.talks --mix --source "$rows" "${lent[@]}"
join 6 again.talks --mix --learn --source "$rows" "${lent[@]}"
join 7 whole.talks --mix --learn --whole --source "$rows" "${lent[@]:1}"
join 4 voices.talks "$work/pirate.json" "$work/radio.json"
join 5 last.talks --source "$rows" "$work/last.json"
ask 1 11
rounds=(--data "$work/round1.talks.jsonl")
for round in {2..11}; do
  ask "$round" "1$round" --followed
  rounds+=(--data "$work/round$round.talks.jsonl")
done
train code 1.5e-3 voices --data "$work/mixed.talks.jsonl" --data "$work/again.talks.jsonl" --data "$work/plain.talks.jsonl" \
  --data "$work/voices.talks.jsonl" --epochs 5
train voices 1e-3 whole --data "$work/whole.talks.jsonl" --epochs 3
train whole 5e-4 answers --data "$work/last.talks.jsonl" --epochs 1
train answers 5e-4 rounds "${rounds[@]}" --epochs 1
train rounds 3e-4 model --data "$work/last.talks.jsonl" --epochs 1
for file in config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors; do
  cp "$work/model/$file" "data/starter-llama/$file"
done
for after in 0 7; do
  go run ./cmd/bench quality --base data/starter-llama --only base --after $after
done
