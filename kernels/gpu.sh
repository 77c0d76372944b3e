#!/usr/bin/env bash
# Checks the kernels of a machine's NVIDIA GPU against the formulas in float64, and then times them beside a copy within its
# memory. The machine needs a driver and NVRTC, not Go: build the tests elsewhere, and take .bin along.
#
#   go test -c -o .bin/kernels.test ./kernels
#   kernels/gpu.sh
#
# Logs are in the folder OUT, or in a new one under /tmp. Compiled kernels are made afresh and kept only during the run.
set -euo pipefail
cd "$(dirname "$0")"
out=${OUT:-$(mktemp -d)}
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export RESTYLE_CACHE=$cache
test=../.bin/kernels.test
ops="^TestOps\$/^($(ls ./*.cu | sed 's|./||; s|[.]cu||' | paste -sd '|' -))\$" # those that run on a GPU: TestOps/add for add.cu

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

check() {
  local name=$1
  shift
  echo "== $name"
  if ! RESTYLE_TEST_DEVICE=cuda "$@" >"$out/$name.log" 2>&1; then
    tail -40 "$out/$name.log"
    exit 1
  fi
  grep -E '^(---|ok|PASS|========= .*SUMMARY)' "$out/$name.log"
}
check compiled $test -test.v -test.run "$ops"
check cached $test -test.v -test.run "$ops"
PATH=$PATH:/usr/local/cuda/bin
if command -v compute-sanitizer >/dev/null; then
  check memory compute-sanitizer --tool memcheck --error-exitcode 1 $test -test.run "$ops"
  check races compute-sanitizer --tool racecheck --error-exitcode 1 $test -test.run '^TestOps$/^rmsnorm$'
fi

echo "== time"
$test -test.run '^$' -test.bench GPU -test.benchtime 1x 2>&1 | tee "$out/time.log"
nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
echo "logs: $out"
