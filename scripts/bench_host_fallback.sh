#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_host_fallback.sh BUILD_FOLDER [TRACE_NAME...]: replays recorded training steps with each host fallback, on several devices, at 60 % of their
# peak, and on the reference device at 80 %, and prints the steady step over its bound. Writes BUILD_FOLDER/bench/host_fallback.json; the table
# of docs/host_fallback.md is made from bench/results/host_fallback.json. `full` is replayed for 8 steps on the reference device alone.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
shift
names=("$@")
[[ $# -gt 0 ]] || names=(resnet50_b64 cifar_resnet1001_b64 gpt2_b8 unet3d_b1_128)
mkdir -p "$build/bench"
rows=$build/bench/host_fallback.rows
: >"$rows"

# NAME DEVICE PERCENT STEPS MODE
replay() {
  local result
  result=$("$thermocline" replay "bench/traces/$1.jsonl.gz" --device "$2" --budget "$3%peak" --steps "$4" --host-fallback "$5" --json 2>/dev/null) || true
  jq -c --arg name "$1" --arg device "$2" --argjson percent "$3" --argjson steps "$4" --arg mode "$5" '
    {workload: $name, device: $device, budget_percent: $percent, steps: $steps, host_fallback: $mode, steady_step_ms, bound_ms,
     over_bound: (if .steady_step_ms == null or .bound_ms == null then null else .steady_step_ms / .bound_ms end)}' <<<"$result" |
    tee -a "$rows" | jq -r '[.workload, .device, "\(.budget_percent) %", .host_fallback, .over_bound] | @tsv'
}

for name in "${names[@]}"; do
  for mode in off auto; do
    for device in reference h100-80g h200; do replay "$name" "$device" 60 12 "$mode"; done
    replay "$name" reference 80 12 "$mode"
  done
  replay "$name" reference 60 8 full
done
{
  echo '{"schema": "thermocline-bench-host-fallback/1", "rows": ['
  sed '$!s/$/,/' "$rows"
  echo ']}'
} >"$build/bench/host_fallback.json"
echo "wrote $build/bench/host_fallback.json" >&2
