#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a real GPU: the rules of tests/conformance must hold for its driver, and the example program without the library,
# with it, and with a third of the memory that it uses must print the same. gpu.sh BUILD_FOLDER; called by ./dev gpu, and runs on its own where only the build folder was copied.
# Status: 0 done, 1 something differs, 4 no usable GPU.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
program=$build/bin/examples/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

if ! nvidia-smi -L >"$work/devices" 2>&1; then
  echo "gpu: nvidia-smi finds no usable GPU: $(head -1 "$work/devices")" >&2
  exit 4
fi
cat "$work/devices"

# run NAME COMMAND...: keeps its output; says how long it took and whether it printed the same as the plain run.
run() {
  local name=$1 begin=$EPOCHREALTIME result=0 verdict="same output"
  shift
  "$@" >"$work/$name.out" 2>"$work/$name.err" || result=$?
  if [[ $result -ne 0 ]]; then
    verdict="exit status $result"
  elif ! cmp -s "$work/plain.out" "$work/$name.out"; then
    verdict="different output"
  fi
  [[ $verdict == "same output" ]] || status=1
  printf '  %-34s %8.2f s  %s\n' "$name" "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}')" "$verdict"
  [[ $result -eq 0 ]] || tail -5 "$work/$name.err" | sed 's/^/      /'
}

# The driver alone, asked what the simulated device is held to. docs/conformance.md is made from the results.
conformance=$build/tests/conformance/conformance
device=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9\n' '-')
result=bench/results/conformance-$device.json
mkdir -p bench/results docs
"$conformance" --json "$result" || status=1
if [[ -s $result ]]; then
  "$conformance" --markdown bench/results/conformance-*.json >"$work/conformance.md"
  cp "$work/conformance.md" docs/conformance.md
  echo "gpu: wrote $result and docs/conformance.md"
fi

run plain "$program"
run with-the-library "$thermocline" run --stats -- "$program"
peak=$(grep -oE 'peak_live_bytes=[0-9]+' "$work/with-the-library.err" | tail -1 | cut -d= -f2 || true)
if [[ -z $peak ]]; then
  echo "gpu: the library printed no statistics; its output was:" >&2
  cat "$work/with-the-library.err" >&2
  exit 1
fi
third=$((peak / 3))
run with-a-third "$thermocline" run --stats --budget "$third" -- "$program"
grep -h 'peak_live_bytes=' "$work/with-a-third.err" || true
moved=$(grep -oE 'evicted_bytes=[0-9]+' "$work/with-a-third.err" | tail -1 | cut -d= -f2 || true)
if [[ ${moved:-0} -eq 0 ]]; then
  echo "gpu: with a third of its memory nothing was moved, so nothing was shown" >&2
  status=1
fi
exit "$status"
