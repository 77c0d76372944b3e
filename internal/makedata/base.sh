#!/usr/bin/env bash
# Makes the weights of the embedded base model, data/starter-llama, anew. Needs Go and gcc, and no Python. It trains on 833
# million tokens: nine minutes on an H200 with 16 cores. Two cores with AVX-512 BF16 make 9,400 a second, so 25 hours.
#
#   internal/makedata/base.sh [WORK]      WORK keeps what is made on the way; default a new folder under /tmp
#
# Interrupted with Ctrl-C and started again with the same WORK, it goes on where it was.
#
# Rows like those of data/starter.parquet are joined into conversations of up to eight, and after some of them comes a question
# that refers to the answer ("and in one line?"), so that the model answers later questions as well as the first. Except for what gen
# wrote, each pass is over a round of rows of its own, drawn anew from the same kinds and topics: a model that had read the
# same rows in 15 passes answered 98% of 700 of them as they do, and 90% of 700 others.
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
# 5. The last two stages come once more, the first of them with ten more rounds, of which it gets only the rows that have a
#    question after them.
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
settings=(--fused --accumulate 1 --packing --seq 2048 --batch 8 --warmup 0.02 --weight-decay 0.1 --val 0.005 --samples 0
  --log-every 500 --benchmark-log "")

once() { # NAME COMMAND...    runs the command, unless it was once successful for this name
  [ -e "$work/$1.done" ] || { "${@:2}" && touch "$work/$1.done"; }
}
started=()
beside() { # COMMAND...    starts it, once there are fewer running than cores
  while [ "$(jobs -pr | wc -l)" -ge "$(getconf _NPROCESSORS_ONLN)" ]; do sleep 0.1; done
  "$@" &
  started+=($!)
}
finish() { # waits for what beside started
  for job in "${started[@]}"; do wait "$job"; done
  started=()
}
round() { # NUMBER    makes rowsNUMBER.jsonl and laterNUMBER.jsonl; round 0 is data/starter.parquet
  once "round$1" "$work/bin/makedata" --round "$1" --train "$work/rows$1.jsonl" --follow-ups "$work/later$1.jsonl"
}
prose() { # NAME ROUND ROWS STYLE SEED
  once "$1" "$work/bin/gen" --source "$work/rows$2.jsonl" --source "$work/later$2.jsonl" --rows "$3" --style "$4" --seed "$5" \
    --teacher builtin --language python --restart --out "$work/$1.json"
}
talks() { # NAME ROUND SEED FLAG... FILE...    makes NAME.talks.jsonl
  once "$1.talks" "$work/bin/conversations" --follow-ups "$work/later$2.jsonl" --seed "$3" \
    --out "$work/$1.talks.jsonl" "${@:4}"
}
mix() { # NAME ROUND SEED FLAG... FILE...
  talks "$1" "$2" "$3" --mix --source "$work/rows$2.jsonl" "${@:4}"
}
train() { # NAME LR TALKS... -- FLAG...
  local name=$1 flags=("${settings[@]}" --lr "$2" --epochs 1 --out "$work/$1")
  shift 2
  while [ "$1" != -- ]; do
    flags+=(--data "$work/$1.talks.jsonl")
    shift
  done
  [ ! -e "$work/$name/run.json" ] || flags+=(--resume)
  once "$name" "$work/bin/train" "${flags[@]}" "${@:2}"
}

once bin go build -o "$work/bin/" ./cmd/gen ./cmd/train ./cmd/bench ./internal/makedata ./internal/makedata/conversations
for n in {0..32}; do
  beside round $n
done
finish
beside prose plain 0 200000 internal/makedata/plain.style 0
beside prose last 31 200000 internal/makedata/plain.style 2
beside prose end 32 200000 internal/makedata/plain.style 4
beside prose pirate 0 40000 pirate 3
beside prose radio 0 40000 internal/makedata/radio.style 5
finish
voices=("$work/pirate.json" "$work/radio.json" data/teacher.jsonl data/passive_aggressive_data.json)
for n in {1..6}; do
  beside talks raw$n $n 1$n "$work/rows$n.jsonl"
done
for n in {1..5}; do
  beside mix mixed$n $((6 + n)) 2$n "$work/plain.json" "${voices[@]}"
  beside mix again$n $((11 + n)) 3$n --learn "$work/plain.json" "${voices[@]}"
  beside talks plain$n 0 4$n --source "$work/rows0.jsonl" "$work/plain.json"
  beside talks voices$n 0 5$n "$work/pirate.json" "$work/radio.json"
done
for n in {1..4}; do
  beside mix whole$n $((16 + n)) 6$n --learn --whole "${voices[@]}"
done
for n in {1..10}; do
  beside mix more$n $((20 + n)) 7$n --learn --whole --followed "${voices[@]}"
done
beside talks last 31 80 --source "$work/rows31.jsonl" "$work/last.json"
beside talks end 32 81 --source "$work/rows32.jsonl" "$work/end.json"
finish

train code 2e-3 raw{1..6} -- --from-scratch internal/makedata/base.json --tokenizer data/starter-llama/tokenizer.json --train-on all
train voices 1.5e-3 {mixed,again,plain,voices}{1..5} -- --model "$work/code"
train whole 1e-3 whole{1..3} -- --model "$work/voices"
train answers 5e-4 last -- --model "$work/whole"
train rounds 5e-4 whole4 more{1..10} -- --model "$work/answers"
train model 3e-4 end -- --model "$work/rounds"
for file in config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors; do
  cp "$work/model/$file" "data/starter-llama/$file"
done
for after in 0 7; do
  "$work/bin/bench" quality --base data/starter-llama --only base --after $after
done
