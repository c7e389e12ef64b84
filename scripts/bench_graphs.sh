#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_graphs.sh BUILD_FOLDER: a training step of 192 MiB as one CUDA graph and as single launches, under the same budgets, on simulated devices: the
# simulated time of the eighth step (tests/preload/programs/graphs/larger_than_the_budget.c). Writes BUILD_FOLDER/bench/graphs.json (two minutes of one core); the table of
# docs/cuda_graphs.md is made from bench/results/graphs.json. Status 1: a program failed, or two of its digests differ.
set -euo pipefail
build=${1:?the build folder}
program=$build/tests/programs/api_paths/graphs/larger_than_the_budget
mkdir -p "$build/bench"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rows=$scratch/rows

# DEVICE BUDGET WAY WORK: one row.
measure() {
  "$build/bin/thermocline" run --simulate "$1" --budget "$2" --stats=json -- "$program" "$3" 16 8 "$4" >"$scratch/out" 2>"$scratch/err" ||
    { cat "$scratch/err" >&2; exit 1; }
  grep -o '{.*}' "$scratch/err" | tail -n 1 | jq -c --arg device "$1" --arg budget "$2" --arg way "$3" --argjson work "$4" \
    --arg digest "$(md5sum <"$scratch/out" | cut -c 1-16)" --arg step "$(sed -n 's/^program: the last step took \(.*\) ms$/\1/p' "$scratch/err")" '
    (.statistics // .) as $s
    | {device: $device, budget: $budget, work: $work, way: $way, digest: $digest, last_step_ms: ($step | tonumber),
       evicted_bytes: $s.evicted_bytes, cut_graphs: $s.cut_graphs, graph_segments: $s.graph_segments}' | tee -a "$rows"
}

for device in reference h200; do
  for work in 1 4; do
    for budget in 256MiB 96MiB 48MiB; do
      for way in launches graph; do measure "$device" "$budget" "$way" "$work"; done
    done
  done
done

{
  jq -n --arg commit "$(git rev-parse --short=8 HEAD)" \
    '{schema: "thermocline-bench-graphs/1", command: "scripts/bench_graphs.sh build/release", commit: $commit} | tojson | .[:-1] + ",\"rows\":["' -r
  sed '$!s/$/,/' "$rows"
  echo ']}'
} >"$build/bench/graphs.json"
jq -e '[.rows | group_by(.work)[] | map(.digest) | unique | length] | all(. == 1)' "$build/bench/graphs.json" >/dev/null ||
  { echo "bench_graphs: digests differ" >&2; exit 1; }
