#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_recompute_programs.sh BUILD_FOLDER: recomputing in unmodified programs on simulated devices. examples/training and examples/transformer
# with half of their memory, and the test program recompute_steps, whose steps allocate at different times: the simulated time of the last step,
# what was evicted, dropped and recomputed. Writes BUILD_FOLDER/bench/recompute_programs.json (nine minutes of one core); the tables of docs/recompute.md are made from
# bench/results/recompute_programs.json. Status 1: a program failed, or two of its digests differ.
set -euo pipefail
build=${1:?the build folder}
mkdir -p "$build/bench"
rows=$build/bench/recompute_programs.rows
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: >"$rows"

# LABEL DEVICE BUDGET RECOMPUTE SAFETY PROGRAM...: one row.
measure() {
  local label=$1 device=$2 budget=$3 recompute=$4 safety=$5
  shift 5
  THERMOCLINE_RECOMPUTE=$recompute THERMOCLINE_SAFETY=$safety "$build/bin/thermocline" run --simulate "$device" --budget "$budget" --stats=json -- "$@" \
    >"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err" >&2; exit 1; }
  grep -o '{.*}' "$scratch/err" | tail -n 1 | jq -c --arg program "$label" --arg device "$device" --arg budget "$budget" --arg recompute "$recompute" \
    --arg safety "$safety" --arg digest "$(sed -n 's/^digest //p' "$scratch/out")" \
    --arg step "$(sed -n 's/^.*the last step took \(.*\) ms$/\1/p' "$scratch/err")" '
    (.statistics // .) as $s
    | {program: $program, device: $device, budget: $budget, recompute: $recompute, safety: $safety, digest: $digest, last_step_ms: ($step | tonumber),
       evicted_bytes: $s.evicted_bytes, dropped_buffers: $s.dropped_buffers, recomputed_buffers: $s.recomputed_buffers}' | tee -a "$rows"
}

for device in reference p100-16g; do
  training() { measure training "$device" "$@" "$build/bin/examples/training" 8 8 14; }
  training 64MiB off strict
  training 20MiB off strict
  training 20MiB auto trusting
  training 20MiB auto strict
done
transformer() { # KERNELS WHEN DEVICE BUDGET RECOMPUTE SAFETY
  local kernels=$1 when=$2
  shift 2
  measure "transformer $kernels, $when" "$@" "$build/bin/examples/transformer" 3 512 10 "$kernels" "$when"
}
for device in reference p100-16g; do
  transformer plain step "$device" 256MiB off strict
  transformer plain step "$device" 68MiB off strict
  transformer plain step "$device" 68MiB auto trusting
  transformer plain step "$device" 68MiB auto strict
done
# Once pages have been assigned for good.
for recompute in off auto; do
  measure "transformer plain of 14 steps, step" reference 68MiB $recompute strict "$build/bin/examples/transformer" 3 512 14 plain step
done
transformer plain once p100-16g 68MiB off strict
transformer plain once p100-16g 68MiB auto strict
transformer tiled step p100-16g 256MiB off strict
transformer tiled step p100-16g 68MiB off strict
transformer tiled step p100-16g 68MiB auto strict
for when in used async ends all once; do
  for recompute in off auto; do
    measure "steps, $when" reference 16MiB "$recompute" strict "$build/tests/simulated_cudart/recompute_steps" 6 12 "$when"
  done
done
# Two activations in a page.
for when in used ends; do
  for recompute in off auto; do
    measure "steps of 1 MiB, $when" reference 8MiB "$recompute" strict "$build/tests/simulated_cudart/recompute_steps" 6 12 "$when" 1024
  done
done

jq -rs --arg commit "$(git rev-parse --short=8 HEAD)" '
  {schema: "thermocline-bench-recompute-programs/1", command: "scripts/bench_recompute_programs.sh build/release", commit: $commit}
  | (tojson | .[:-1]) + ",\"rows\":[\n"' "$rows" >"$build/bench/recompute_programs.json"
{
  sed '$!s/$/,/' "$rows"
  echo ']}'
} >>"$build/bench/recompute_programs.json"
jq -e '[.rows | group_by(.program | split(",")[0])[] | map(.digest) | unique | length] | all(. == 1)' "$build/bench/recompute_programs.json" >/dev/null ||
  { echo "bench_recompute_programs: digests differ" >&2; exit 1; }
