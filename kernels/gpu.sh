#!/usr/bin/env bash
# Check restyle on a machine's NVIDIA GPU, and then time it. The machine needs a driver and NVRTC, but no Go: build elsewhere
# and copy the checkout with .bin. Of the checkout, ranks needs data/passive_aggressive_data.json and cmd/bench/*.json.
#
#   go build -o .bin ./cmd/bench ./cmd/train
#   go test -c -o .bin/opcheck.test ./opcheck && go test -c -o .bin/trainer.test ./trainer && go test -c -o .bin/kernels.test ./kernels
#   kernels/gpu.sh [PART...]
#
# The parts, all of them if none is named:
#
#   ops       every operation's cases, fused and unfused, against float64 and finite differences
#   parity    bench parity over RESTYLE_REFERENCE, or over the recordings that come with the repository
#   runs      training runs: the same losses as on the CPU; they resume, even after kill -9
#   bits      ten runs of 20 steps, every second one waiting after each kernel: all end with the same bits
#   warm      a model of Llama-3.2-1B's size: the first step within 3 s of reading it from disk, and the same bits twice
#   losses    the losses of 200 steps, on the CPU too and, if PYTHON has torch and transformers, in PyTorch in float32
#   ranks     with several GPUs: steps on one, on all, and on each by itself at the same time; the losses of 200 steps with the same examples
#   scratch   models from nothing: the losses of whole runs, and in PyTorch, if PYTHON has it, on the same weights and batches;
#             with SHAKESPEARE, a file, also a model of that text
#   tune      the default fine-tuning, and the quality of its result
#   table     whole training steps of Llama-3.2-1B with random weights, in turns with PyTorch's; the slowest rows last
#   products  steps with cuBLASLt's first algorithm for each product, and with those that are faster when timed
#   attention in turns with every backend of PyTorch's
#   decode    the speed of answers, token after token, next to a copy within the GPU's memory
#   paged     attention to keys in blocks, and products with rows alone: the same bits in any company, and their speed
#   profile   the time of a step and of a token, kernel by kernel
#   kernels   the speed of single operations, next to a copy and a product
#   memcheck racecheck initcheck synccheck   operations under that tool of compute-sanitizer, if it runs there
#
# OUT is the directory for logs; by default a new one under /tmp. With the same OUT the script continues: it skips the parts and
# the rows of tables that are done. After LIMIT seconds it starts nothing new and exits with 75. DEVICE is the GPU, such as
# cuda:1; default cuda. "emulated" tries the script without a GPU, with sizes that suit that. BIN is the directory of the programs;
# default .bin.
set -euo pipefail
cd "$(dirname "$0")/.."
export OUT=${OUT:-$(mktemp -d)}
export DEADLINE=${DEADLINE:-$(($(date +%s) + ${LIMIT:-1000000}))}
export RESTYLE_CACHE=${RESTYLE_CACHE:-$OUT/compiled}
export PATH=$PATH:/usr/local/cuda/bin
device=${DEVICE:-cuda} python=${PYTHON:-python3} bin=${BIN:-$PWD/.bin}
mkdir -p "$OUT/done"
OUT=$(realpath "$OUT")

all=(ops parity runs bits warm losses ranks scratch tune table products attention decode paged profile kernels memcheck racecheck initcheck synccheck)
# What is run: a small model and a large one, and steps of the large one, by how much they are asked for.
small=(--samples 0 --val 0 --save-every 10) brief=20 long=200 tests='^TestGPU'
large=() llama=cmd/bench/llama-3.2-1b.json timed=(--seconds 3) few=(--steps 5)
new=(--tokenizer "$OUT/tokenizer") shape=4x512 lengths=128,2000,8000 tokens=(--tokens 200)
shapes=(1x512x4 4x512 8x2048 1x2048x4) tried=. checked='attention cached crossentropy adamw embedding linear rmsnorm layernorm qknorm swiglu rope rows'
recorded=(parity/testdata)
[ -z "${RESTYLE_REFERENCE:-}" ] || recorded+=("$RESTYLE_REFERENCE/golden")
if [ "$device" = emulated ]; then # which computes on the CPU
  llama=$OUT/small.json
  echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 96, "intermediate_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true}' >"$llama"
  new=(--text docs/security.md) large=(--text docs/security.md --seq 16)
  small=(--from-scratch "$llama" "${new[@]}" --seq 16 --batch 1 --accumulate 2 --samples 0 --val 0 --save-every 2) brief=4 long=8 tests='^TestGPUResumes$'
  timed=(--steps 1 --warmup 1) few=(--steps 1) shape=2x16 shapes=(1x16x2 2x16) lengths=16 tokens=(--tokens 2 --warmup 0) tried='^(add|rmsnorm)$' checked='add rmsnorm'
  recorded=(parity/testdata/qwen2)
fi

# log NAME COMMAND... runs a command with its output in a log, and shows the end of the log if it fails.
log() {
  local name=$1
  shift
  "$@" >"$OUT/$name.log" 2>&1 && return
  tail -40 "$OUT/$name.log"
  echo "FAILED: $name, see $OUT/$name.log"
  return 1
}

# once NAME COMMAND... is log for a command that need not run again, if there is time.
once() {
  [ ! -e "$OUT/done/$1" ] || return 0
  [ "$(date +%s)" -lt "$DEADLINE" ] || exit 75
  log "$@" && touch "$OUT/done/$1"
}

# needs FILE... fails if one of the files is missing.
needs() {
  local file
  for file; do [ -e "$file" ] || { echo "FAILED: $PART needs $file: copy it from the checkout"; return 1; }; done
}

train() { "$bin/train" --device "$device" --fused --benchmark-log= "$@"; }
has() { "$python" -c "import $1" 2>/dev/null || { echo "$python has no $1"; return 1; }; }
real() { [ "$device" != emulated ] || { echo "not on the emulated GPU"; return 1; }; }

ops() {
  RESTYLE_TEST_DEVICE=$device log ops "$bin/opcheck.test" -test.v -test.run "^TestOps\$/$tried"
  grep -E '^    --- ' "$OUT/ops.log"
}

parity() {
  log parity "$bin/bench" parity "${recorded[@]}" --device "$device"
  grep 'comparisons:' "$OUT/parity.log"
}

runs() {
  (cd trainer && RESTYLE_TEST_DEVICE=$device log runs "$bin/trainer.test" -test.v -test.run "$tests")
  grep -E '^--- ' "$OUT/runs.log"
  rm -rf "$OUT/whole" "$OUT/killed"
  log whole train "${small[@]}" --max-steps $long --out "$OUT/whole"
  "$bin/train" --device "$device" --fused --benchmark-log= "${small[@]}" --max-steps $long --out "$OUT/killed" >"$OUT/killed.log" 2>&1 &
  while ! compgen -G "$OUT/killed/checkpoints/step-*[02]" >/dev/null && kill -0 $! 2>/dev/null; do sleep 0.05; done
  kill -9 $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  [ ! -e "$OUT/killed/model.safetensors" ] || { echo "FAILED: runs, it was done before it could be killed"; return 1; }
  log resumed train "${small[@]}" --max-steps $long --out "$OUT/killed" --resume
  cmp "$OUT/whole/model.safetensors" "$OUT/killed/model.safetensors"
  echo "killed and resumed, a run ends with the same bits"
}

# sums DIRECTORY... prints checksums of the weights and the optimizer's state in the last checkpoint, one line per directory.
sums() {
  local run
  for run; do cat "$run"/checkpoints/step-*/SHA256SUMS | grep safetensors | sort -u | cut -c-16 | tr '\n' ' '; echo; done
}

bits() {
  local i wait
  for i in $(seq 10); do
    wait=()
    ((i % 2)) || wait=(--sync)
    rm -rf "$OUT/bits-$i"
    log bits train "${small[@]}" --max-steps $brief --keep 1 "${wait[@]}" --out "$OUT/bits-$i"
  done
  sums "$OUT"/bits-* | sort | uniq -c | tee "$OUT/bits.txt"
  rm -rf "$OUT"/bits-[0-9]*
  [ "$(wc -l <"$OUT/bits.txt")" = 1 ] || { echo "FAILED: bits, ten runs do not end with the same"; return 1; }
}

# tokenizer writes the starter model's with as many tokens as the large model has; the new ones occur in no text.
tokenizer() {
  rm -rf "$OUT/tokenizer"
  mkdir "$OUT/tokenizer"
  cp data/starter-llama/{tokenizer_config.json,generation_config.json,chat_template.jinja} "$OUT/tokenizer"
  "$python" -c 'import json, sys
t = json.load(open("data/starter-llama/tokenizer.json"))
t["model"]["vocab"].update({f"unused{i}": i for i in range(2048, 128256)})
json.dump(t, open(sys.argv[1], "w"))' "$OUT/tokenizer/tokenizer.json"
}

warm() {
  local i
  rm -rf "$OUT"/warm "$OUT"/warm-*
  tokenizer
  log warm train --from-scratch "$llama" "${new[@]}" "${large[@]}" --samples 0 --val 0 --max-steps 1 --train-only norm --keep 1 --out "$OUT/warm"
  for i in 1 2; do # the second finds all kernels compiled
    log warm-$i train --model "$OUT/warm" "${large[@]}" --samples 0 --val 0 --max-steps 3 --keep 1 --out "$OUT/warm-$i"
    grep -o '"first_step_seconds":[0-9.]*' "$OUT/warm-$i.log" | tail -1
  done
  cmp <(sums "$OUT/warm-1") <(sums "$OUT/warm-2")
  rm -rf "$OUT"/warm "$OUT"/warm-?
  grep -o '"first_step_seconds":[0-9.]*' "$OUT/warm-2.log" | awk -F: '$2 > 3 { print "FAILED: warm, more than 3 s"; exit 1 }'
}

losses() {
  local on steps=(--samples 0 --val 0 --max-steps 200 --epochs 3)
  real && has "torch, transformers" || return 0
  rm -rf "$OUT"/on-* "$OUT/batches.jsonl"
  log on-cpu "$bin/train" --device cpu --fused --benchmark-log= "${steps[@]}" --out "$OUT/on-cpu" --write-batches "$OUT/batches.jsonl"
  log on-gpu train "${steps[@]}" --out "$OUT/on-gpu"
  for on in cpu gpu; do
    log losses-$on "$python" cmd/bench/pytorch.py replay --model data/starter-llama --batches "$OUT/batches.jsonl" --metrics "$OUT/on-$on/metrics.jsonl"
    echo "on the $on: $(tail -1 "$OUT/losses-$on.log")"
  done
}

ranks() {
  local name on flags steps=(--fused --benchmark-log= --samples 0 --val 0 --epochs 0 --accumulate 8) all="$OUT/ranks-cuda:all"
  real || return 0
  [ "$(nvidia-smi --list-gpus | wc -l)" -gt 1 ] || { echo "there is one GPU"; return 0; }
  needs data/passive_aggressive_data.json "$llama"
  while read -r name on flags; do # of docs/many.md, one GPU and all in turns: a cold one is faster
    once "ranks-$name" "$bin/bench" step --fused --device "$on" --steps 20 $flags </dev/null
    echo "$on $flags: $(tail -1 "$OUT/ranks-$name.log")"
  done <<END
large-one cuda:0 --config $llama --shapes 8x2048
large cuda:all --config $llama --shapes 8x2048
large-one-again cuda:0 --config $llama --shapes 8x2048
large-again cuda:all --config $llama --shapes 8x2048
small-one cuda:0 --config $llama --shapes 4x512
small cuda:all --config $llama --shapes 4x512
small-one-again cuda:0 --config $llama --shapes 4x512
small-again cuda:all --config $llama --shapes 4x512
gradients cuda:all --config $llama --shapes 4x512 --shard gradients
weights cuda:all --config $llama --shapes 4x512 --shard weights
memory cuda:all --config $llama --shapes 4x512 --shard gradients --recompute layer --head-rows 256
8b cuda:all --config llama-3.1-8b --shapes 2x2048 --shard gradients
8b-weights cuda:all --config llama-3.1-8b --shapes 2x2048 --shard weights
END
  alone 8x2048
  alone 4x512
  for on in cuda:0 cuda:all; do
    log "ranks-$on" "$bin/train" --device "$on" "${steps[@]}" --max-steps $long --out "$OUT/ranks-$on"
    log "ranks-bits-$on" "$bin/train" --device "$on" "${steps[@]}" --max-steps $brief --same-bits --deterministic --out "$OUT/ranks-bits-$on"
  done
  for on in gradients weights; do
    log "ranks-shard-$on" "$bin/train" --device cuda:all "${steps[@]}" --max-steps $long --shard $on --out "$OUT/ranks-shard-$on"
  done
  cmp "$OUT/ranks-bits-cuda:0/model.safetensors" "$OUT/ranks-bits-cuda:all/model.safetensors" && echo "--same-bits: the same"
  for on in cuda:all shard-gradients shard-weights; do
    "$python" -c 'import json, sys
one, all = ([json.loads(line)["loss"] for line in open(name) if "\"loss\"" in line] for name in sys.argv[1:])
print(f"losses of {len(one)} and {len(all)} steps, in the mean {sum(one) / len(one):.4f} and {sum(all) / len(all):.4f}")
pairs = [(sum(one), sum(all))] + list(zip(one[:10], all)) # later steps drift apart
sys.exit(len(pairs) < 11 or any(abs(b / a - 1) > 1e-3 for a, b in pairs))' "$OUT/ranks-cuda:0/metrics.jsonl" "$OUT/ranks-$on/metrics.jsonl"
  done
  log ranks-repeat "$bin/train" --device cuda:all "${steps[@]}" --max-steps $long --out "$all-again"
  cmp "$all/model.safetensors" "$all-again/model.safetensors" && echo "a repeat: the same"
  lost KILL
  lost STOP
}

# alone SHAPE times steps on all GPUs at the same time, each without the others.
alone() {
  local gpu each=()
  for gpu in $(seq 0 $(($(nvidia-smi --list-gpus | wc -l) - 1))); do
    once "ranks-alone-$1-$gpu" "$bin/bench" step --fused --device "cuda:$gpu" --steps 20 --config "$llama" --shapes "$1" </dev/null &
    each+=($!)
  done
  for gpu in "${!each[@]}"; do
    wait "${each[gpu]}"
    echo "cuda:$gpu beside the others, $1: $(tail -1 "$OUT/ranks-alone-$1-$gpu.log")"
  done
}

# lost SIGNAL sends a signal to the second of two ranks in the middle of a run, which should end with exit code 33.
lost() {
  local run since code=0 out=$OUT/ranks-$1
  rm -rf "$out"
  : >"$out.log" # for grep
  "$bin/train" --device cuda:0,1 "${steps[@]}" --max-steps 100000 --save-every 20 --log-every 1 --out "$out" >"$out.log" 2>&1 &
  run=$!
  until grep -q "^step 50/" "$out.log"; do
    kill -0 $run 2>/dev/null || grep -q "^step 50/" "$out.log" || { echo "FAILED: $1, it ended before step 50"; return 1; }
    sleep 0.2
  done
  pkill "-$1" -f -n -- "--out $out" || true # the rank that was started last
  since=$SECONDS
  wait $run || code=$?
  pkill -KILL -f -- "--out $out" || true
  echo "a rank that gets SIG$1: exit $code after $((SECONDS - since)) s, $(grep -o 'rank . .*' "$out.log" | head -1)"
  [ $code = 33 ]
}

# beside NAME FLAG... trains a new model, and PyTorch's with the weights that it began with, and compares their losses.
beside() {
  local name=$1
  shift
  rm -rf "$OUT/$name" "$OUT/$name-first"
  # A step that moves nothing leaves the weights that the run begins with.
  log "$name-first" train "$@" --samples 0 --max-steps 1 --lr 1e-30 --warmup 0 --weight-decay 0 --dtype fp32 --out "$OUT/$name-first"
  log "$name" train "$@" --samples 0 --out "$OUT/$name" --write-batches "$OUT/$name.jsonl"
  grep -o '"val_loss":[0-9.]*' "$OUT/$name.log" | tail -1
  log "$name-losses" "$python" cmd/bench/pytorch.py replay --model "$OUT/$name-first" --batches "$OUT/$name.jsonl" \
    --metrics "$OUT/$name/metrics.jsonl" --window 50 --device cuda
  cat "$OUT/$name-losses.log"
}

scratch() {
  real && has "torch, transformers" || return 0
  local gpt=(--from-scratch data/scratch/gpt.json --vocab chars --seq 64 --batch 16 --accumulate 1 --max-steps 1000 --val 0.1)
  local llama=(--from-scratch "$OUT/llama.json" --seq 192 --batch 8 --accumulate 1 --lr 3e-4 --epochs 40 --val 0.1)
  sed 's/"model_type"/"vocab_size": 4096, &/' data/scratch/llama.json >"$OUT/llama.json"
  beside gpt-fp32 "${gpt[@]}" --text data/scratch/oz.txt --dtype fp32 --optimizer adamw --lr 3e-4 --schedule constant --warmup 0 \
    --weight-decay 0.01
  beside gpt "${gpt[@]}" --text data/scratch/oz.txt --lr 3e-4 --weight-decay 0.01
  [ -z "${SHAKESPEARE:-}" ] || beside shakespeare "${llama[@]}" --text "$SHAKESPEARE" --max-steps 1500 --warmup 100 --weight-decay 0.01
}

tune() {
  real || return 0
  log tune train --out "$OUT/tuned"
  tail -1 "$OUT/tune.log"
  log quality "$bin/bench" quality --device "$device" --base starter --tuned "$OUT/tuned" --check --json "$OUT/quality.json"
  grep -E 'right|tone score|opener' "$OUT/quality.log"
}

# steps NAME FLAG... measures a few rows of the table and of benchmark_log.csv.
steps() {
  local name=$1
  shift
  [ -e "$OUT/done/$name" ] || rm -f "$OUT/$name.csv"
  once "$name" "$bin/bench" step --config "$llama" --device "$device" "${timed[@]}" --log "$OUT/$name.csv" "$@" || failed=1
}

table() {
  local s trained failed='' mode beside=()
  if has "torch, transformers"; then
    for mode in compile eager; do beside+=(--beside "$python cmd/bench/pytorch.py step --mode $mode"); done
  fi
  steps step-8gb --shapes "${shapes[0]}" --gradients layer --recompute layer --master sr --head-rows 340 --label "preset 8gb"
  for trained in all mlp; do
    for s in "${shapes[@]}"; do
      steps "step-$s-$trained" --shapes "$s" --fused both "${beside[@]}" $([ $trained = all ] || echo --train-only $trained)
    done
  done
  awk 'FNR > 1 || NR == 1' "$OUT"/step-*.csv >"$OUT/benchmark_log.csv"
  grep -hE 'bare product' "$OUT"/step-*.log
  grep -hE '^\|' "$OUT"/step-*.log | awk '!seen[$0]++' | tee "$OUT/table.md"
  awk -F'|' '$10 ~ /%/ { off = $10; sub(/.*, /, "", off); off += 0; if (off < 0) off = -off; if (off > worst) worst = off; n++ }
    END { printf "estimates of memory: %d, at most %.1f%% off\n", n, worst; exit worst > 5 }' "$OUT/table.md"
  [ -z "$failed" ]
}

products() {
  local s failed=''
  for s in "${shapes[@]}"; do
    steps "products-$s-first" --shapes "$s" --deterministic
    steps "products-$s-timed" --shapes "$s"
  done
  echo "of each shape by the first algorithms, then timed"
  grep -hE '^\|' "$OUT"/products-*.log | awk '!seen[$0]++'
  awk '/": "/ { n++ } /": "[0-9a-f]/ { other++ } END { printf "of %d products, %d by another algorithm than the first\n", n, other }' \
    "$RESTYLE_CACHE"/products-*.json
  [ -z "$failed" ]
}

attention() {
  real || return 0
  local turn bench=("$bin/bench" kernels --device "$device" --op attention)
  for turn in 1 2; do
    log attention-$turn "${bench[@]}"
    [ $turn = 2 ] || ! has torch || log attention-torch "$python" cmd/bench/pytorch.py attention
  done
  grep -h -A2 8x2048 "$OUT"/attention-?.log
  cat "$OUT/attention-torch.log" 2>/dev/null || true
}

decode() {
  log decode "$bin/bench" infer --config "$llama" --device "$device" "${tokens[@]}" --lengths $lengths
  cat "$OUT/decode.log"
}

paged() {
  RESTYLE_TEST_DEVICE=$device log paged-ops "$bin/opcheck.test" -test.v -test.run '^TestOps$/^paged$'
  (cd kernels && RESTYLE_TEST_DEVICE=$device log paged-bits "$bin/kernels.test" -test.v -test.run '^Test(AttentionPaged|RowsAlone)_')
  grep -hE '^(    )?--- ' "$OUT/paged-ops.log" "$OUT/paged-bits.log"
  real || return 0
  once paged-kernels "$bin/bench" kernels --device "$device" --op "paged,linear rows" --seconds 2 --out "$OUT/paged"
  cat "$OUT/paged-kernels.log"
}

profile() {
  log profile-step "$bin/bench" step --config "$llama" --device "$device" "${few[@]}" --shapes $shape --sync
  log profile-decode "$bin/bench" infer --config "$llama" --device "$device" "${tokens[@]}" --lengths 16 --fused all --sync
  cat "$OUT/profile-step.log" "$OUT/profile-decode.log"
}

kernels() {
  real || return 0
  once kernels-all "$bin/bench" kernels --device "$device" --out "$OUT/kernels"
  cat "$OUT/kernels-all.log"
}

memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }
initcheck() { sanitize initcheck; }
synccheck() { sanitize synccheck; }

# sanitize TOOL runs the operations under a tool, all at the same time, and prints what it found by kernel.
sanitize() {
  local op job jobs=() failed=''
  compute-sanitizer --version >/dev/null 2>&1 || { echo "there is no compute-sanitizer"; return 0; }
  for op in $checked; do
    RESTYLE_TEST_DEVICE=$device once "$1-$op" timeout 300 compute-sanitizer --tool "$1" --error-exitcode 1 --print-limit 1000 \
      "$bin/opcheck.test" -test.run "^TestOps\$/^$op\$" >"$OUT/$1-$op.failed" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || { [ $? != 75 ] || exit 75; failed=1; }; done
  for op in $checked; do
    if grep -q 'Device not supported' "$OUT/$1-$op.log"; then echo "compute-sanitizer does not run on this machine"; return 0; fi
    printf '%-14s %s; %s\n' "$op" "$(grep -oE '(ERROR|RACECHECK) SUMMARY: .*' "$OUT/$1-$op.log" || echo "it did not come to its end")" \
      "$(grep -oE '\bat [A-Za-z_0-9]+(\([^)]*\))?\+0x' "$OUT/$1-$op.log" | sed -E 's/^at ([A-Za-z_0-9]+).*/\1/' | sort | uniq -c | sort -rn | tr -s ' \n' ' ')"
  done
  [ -z "$failed" ]
}

if [ -n "${PART:-}" ]; then # one of those that are begun below
  $PART
  exit
fi

smi() { ! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu="$1" --format=csv,noheader; }
smi name,driver_version,memory.total
parts=("$@") failed=() left=()
[ $# -gt 0 ] || parts=("${all[@]}")
for part in "${parts[@]}"; do
  [[ " ${all[*]} " = *" $part "* ]] || { echo "there is no part $part, but ${all[*]}"; exit 2; }
done
for part in "${parts[@]}"; do
  [ ! -e "$OUT/done/part-$part" ] || continue
  [ "$(date +%s)" -lt "$DEADLINE" ] || { left+=("$part"); continue; }
  echo "== $part"
  began=$SECONDS status=0
  PART=$part "$0" || status=$?
  case $status in
    0) touch "$OUT/done/part-$part" ;;
    75) left+=("$part") ;;
    *) failed+=("$part") ;;
  esac
  echo "   $((SECONDS - began)) s"
done
smi clocks.sm,clocks.mem,temperature.gpu,power.draw
echo "logs: $OUT"
[ ${#failed[@]} = 0 ] || { echo "FAILED: ${failed[*]}"; exit 1; }
[ ${#left[@]} = 0 ] || { echo "left for the next time with the same OUT: ${left[*]}"; exit 75; }
