#!/usr/bin/env bash
# Checks restyle on a machine's NVIDIA GPU, and then times it. The machine needs a driver and NVRTC, not Go: build elsewhere, and
# take the checkout along with .bin.
#
#   go build -o .bin ./cmd/bench ./cmd/train ./cmd/chat
#   go test -c -o .bin/kernels.test ./kernels && go test -c -o .bin/trainer.test ./trainer
#   kernels/gpu.sh [PART...]
#
# The parts, all of them if none is named:
#
#   ops       every operation's cases against float64, finite differences, fused and unfused
#   parity    bench parity over RESTYLE_REFERENCE, or over the recordings that come with the repository
#   runs      training runs: they learn what they learn on the CPU, repeat their bits, resume, also after kill -9
#   losses    200 steps beside the same on the CPU and, where PYTHON has torch and transformers, PyTorch's in float32
#   tune      the default fine-tuning, and what its result is worth
#   sanitize  the operations under compute-sanitizer, where it runs
#   kernels   how fast single kernels are, beside a copy within the GPU's memory
#   steps     how fast whole training steps of Llama-3.2-1B are, with random weights
#   decode    how fast it answers, token after token, beside a copy within the GPU's memory
#
# Logs are in the folder OUT, or in a new one under /tmp. A part that is done is left out the next time with the same OUT, so a
# script that was cut off goes on where it was. DEVICE is the GPU, such as cuda:1; default cuda.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-$(mktemp -d)}
device=${DEVICE:-cuda}
bin=$PWD/.bin
export RESTYLE_CACHE=${RESTYLE_CACHE:-$out/compiled}
PATH=$PATH:/usr/local/cuda/bin
parts=("$@")
[ $# -gt 0 ] || parts=(ops parity runs losses tune sanitize kernels steps decode)

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

# log NAME COMMAND... keeps what a command says, and shows the end of it if it fails.
log() {
  local name=$1
  shift
  if ! "$@" >"$out/$name.log" 2>&1; then
    tail -40 "$out/$name.log"
    echo "FAILED: $name, see $out/$name.log"
    exit 1
  fi
}

ops() {
  RESTYLE_TEST_DEVICE=$device log ops "$bin/kernels.test" -test.v -test.run '^TestOps$'
  grep -E '^    --- ' "$out/ops.log"
}

parity() {
  local recorded=(cmd/bench/parity/testdata)
  [ -z "${RESTYLE_REFERENCE:-}" ] || recorded+=("$RESTYLE_REFERENCE/golden")
  log parity "$bin/bench" parity "${recorded[@]}" --device "$device"
  grep 'comparisons,' "$out/parity.log"
}

runs() {
  (cd trainer && RESTYLE_TEST_DEVICE=$device log runs "$bin/trainer.test" -test.v -test.run '^TestGPU')
  grep -E '^--- ' "$out/runs.log"
  local small=(--device "$device" --fused --samples 0 --benchmark-log= --max-steps 40 --save-every 10)
  rm -rf "$out/whole" "$out/killed"
  log whole "$bin/train" "${small[@]}" --out "$out/whole"
  "$bin/train" "${small[@]}" --out "$out/killed" >"$out/killed.log" 2>&1 &
  while ! compgen -G "$out/killed/checkpoints/step-*20*" >/dev/null && kill -0 $! 2>/dev/null; do sleep 0.1; done
  kill -9 $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  log resumed "$bin/train" "${small[@]}" --out "$out/killed" --resume
  cmp "$out/whole/model.safetensors" "$out/killed/model.safetensors"
  echo "killed and resumed, a run ends with the same bits"
}

losses() {
  local python=${PYTHON:-python3} on
  local same=(--fused --samples 0 --val 0 --benchmark-log= --max-steps 200 --epochs 3)
  rm -rf "$out"/on-* "$out/batches.jsonl"
  log on-cpu "$bin/train" --device cpu "${same[@]}" --out "$out/on-cpu" --write-batches "$out/batches.jsonl"
  log on-gpu "$bin/train" --device "$device" "${same[@]}" --out "$out/on-gpu"
  if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    echo "$python has no torch with transformers"
    return
  fi
  for on in cpu gpu; do
    log losses-$on "$python" docs/bench/loss_pytorch.py --model data/starter-llama --batches "$out/batches.jsonl" --metrics "$out/on-$on/metrics.jsonl"
    echo "on the $on: $(tail -1 "$out/losses-$on.log")"
  done
}

tune() {
  log tune "$bin/train" --device "$device" --fused --benchmark-log= --out "$out/tuned"
  tail -1 "$out/tune.log"
  log quality "$bin/bench" quality --device "$device" --base starter --tuned "$out/tuned" --check --json "$out/quality.json"
  grep -E 'right|tone score|opener' "$out/quality.log"
}

sanitize() {
  if ! command -v compute-sanitizer >/dev/null || ! compute-sanitizer --version >/dev/null 2>&1; then
    echo "there is no compute-sanitizer"
    return
  fi
  local tool
  for tool in memcheck racecheck initcheck synccheck; do
    RESTYLE_TEST_DEVICE=$device log "$tool" compute-sanitizer --tool $tool --error-exitcode 1 \
      "$bin/kernels.test" -test.run '^TestOps$/^(embedding|rmsnorm|qknorm|attention|cached|crossentropy|adamw|rows|swiglu)$'
    grep 'SUMMARY' "$out/$tool.log"
  done
}

kernels() {
  (cd kernels && log kernels "$bin/kernels.test" -test.run '^$' -test.bench GPU -test.benchtime 1x -test.timeout 20m)
  grep Benchmark "$out/kernels.log"
}

steps() {
  local of
  for of in "" mlp; do
    "$bin/bench" step --device "$device" --shapes 1x512x4,4x512,1x2048x4,8x2048 --fused both ${of:+--train-only $of} \
      --log "$out/benchmark_log.csv" | tee -a "$out/steps.log"
  done
}

decode() {
  local context
  for context in 128 2000 8000; do
    "$bin/bench" decode --device "$device" --context $context | tee -a "$out/decode.log"
  done
}

for part in "${parts[@]}"; do
  [ -e "$out/$part.done" ] && continue
  echo "== $part"
  $part
  touch "$out/$part.done"
done
nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader
echo "logs: $out"
