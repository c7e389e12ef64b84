#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_directions.sh BUILD_FOLDER: examples/layers, whose weights do not fit, on the simulated device `reference` with parts of its memory, with
# digests and without, and with uploads that leave copies; then examples/digits and examples/training, which train. What was copied out and in, and the simulated time of the last pass beside what computing
# and what the link alone would take. Writes BUILD_FOLDER/bench/directions.json.
# Status 1: a program failed, two results differ, or the race checker found something.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
layers=16 passes=8 layer_mib=4
mkdir -p "$build/bench"
rows=$build/bench/directions.rows
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: >"$rows"
status=0

# NAME BUDGET DIGESTS UPLOADS FLAGS... -- PROGRAM...: one row.
measure() {
  local name=$1 budget=$2 digests=$3 uploads=$4
  shift 4
  THERMOCLINE_DIGESTS=$digests THERMOCLINE_UPLOAD_COPIES=$uploads "$thermocline" run --simulate reference ${budget:+--budget "$budget"} --stats=json "$@" \
    >"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err" >&2; status=1; return; }
  grep -o '{.*}' "$scratch/err" | tail -n 1 | jq -c --arg name "$name" --arg budget "${budget:-all}" --arg digests "$digests" --arg uploads "$uploads" \
    --arg result "$(sha256sum <"$scratch/out" | cut -c1-16)" --arg pass "$(sed -n 's/^[a-z]*: the last \(pass\|step\) took \(.*\) ms$/\2/p' "$scratch/err")" \
    --arg races "$(sed -n 's/.*races=\([0-9]*\).*/\1/p' "$scratch/err")" '
    (.statistics // .) as $s
    | {program: $name, budget: $budget, digests: $digests, uploads: $uploads, result: $result,
       out_bytes: $s.evicted_bytes, in_bytes: $s.restored_bytes}
      + (if $pass == "" then {} else {last_pass_ms: ($pass | tonumber)} end)
      + (if $races == "" then {} else {races: ($races | tonumber)} end)' | tee -a "$rows"
}

program=("$build/bin/examples/layers" "$layers" 1024 "$passes")
for budget in '' $((layers * layer_mib / 2))MiB $((layers * layer_mib / 4))MiB; do
  for digests in off auto; do measure layers "$budget" "$digests" off -- "${program[@]}"; done
  for uploads in auto all; do measure layers "$budget" auto "$uploads" -- "${program[@]}"; done
done
for seed in 1 2 3; do measure "layers, seed $seed" $((layers * layer_mib / 4))MiB auto all --seed "$seed" --check -- "${program[@]}"; done
# Layers of 16 MiB.
for budget in $((layers * 16 / 2))MiB $((layers * 16 / 4))MiB; do
  for digests in off auto; do measure "large layers" "$budget" "$digests" off -- "$build/bin/examples/layers" "$layers" 2048 "$passes"; done
  for uploads in auto all; do measure "large layers" "$budget" auto "$uploads" -- "$build/bin/examples/layers" "$layers" 2048 "$passes"; done
done
for digests in off auto; do measure digits 22MiB "$digests" auto -- "$build/bin/examples/digits" --epochs 2; done
for budget in 16MiB 12MiB; do
  for digests in off auto; do measure training "$budget" "$digests" auto -- "$build/bin/examples/training" 4 8 12; done
done

jq -rs --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" '
  {schema: "thermocline-bench-directions/1", device: "reference", commit: $commit, date: $date, rows: .}
  | (. | del(.rows) | tojson | .[:-1]) + ",\"rows\":[\n" + ([.rows[] | tojson] | join(",\n")) + "\n]}"' "$rows" >"$build/bench/directions.json"
jq -e '[.rows | group_by(.program | split(",")[0])[] | map(.result) | unique | length] | all(. == 1)' "$build/bench/directions.json" >/dev/null ||
  { echo "bench_directions: results differ" >&2; status=1; }
jq -e '[.rows[].races // 0] | add == 0' "$build/bench/directions.json" >/dev/null || { echo "bench_directions: races" >&2; status=1; }
exit "$status"
