#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_recompute.sh BUILD_FOLDER [TRACE_NAME...]: replays the recorded training steps on device `reference` with 60 to 25 % of their memory, with
# copies alone, without copies, with both, and by segments (Chen) and by Checkmate's rounding, and compares a steady step with what no swapping, and no swapping and recomputing,
# can beat (docs/bound.md). Writes BUILD_FOLDER/bench/recompute.json, and says how far steps are from the bound and from the plans on paper of
# bench/traces/joint_bounds.json. Called by ./dev bench recompute. In 16 steps every plan is in force, and pages assigned by it.
# A row that runs out of memory, or gets no plan, is a result, not a failure; a wrong checksum, a race or an exceeded budget is one.
set -euo pipefail
build=${1:?the build folder}
shift
thermocline=$build/bin/thermocline
names=("$@")
[[ $# -gt 0 ]] || mapfile -t names < <(cd bench/traces && printf '%s\n' *.jsonl.gz | sed 's/\.jsonl\.gz$//' | grep -v varlen)
mkdir -p "$build/bench"
rows=$build/bench/recompute.rows
: >"$rows"
status=0
print_row() { printf '%-22s %6s %9s %9s %9s %9s %9s %9s %9s %9s\n' "$@"; }
print_row workload budget compute 'no swap' 'no both' swap recompute joint sqrt checkmate
for name in "${names[@]}"; do
  trace=bench/traces/$name.jsonl.gz
  for percent in 60 50 33 25; do
    joint=$("$thermocline" bound "$trace" --joint --budget "$percent%peak" --json | jq '.rows[0].joint_bound_ms // .rows[0].bound_ms')
    result=$("$thermocline" replay "$trace" --exact --steps 16 --budget "$percent%peak" --compare swap recompute joint sqrt checkmate --json || true)
    disordered=$("$thermocline" replay "$trace" --exact --steps 16 --budget "$percent%peak" --recompute auto --seed 3 --json || true)
    plan=$(jq --arg name "$name" --argjson percent "$percent" '[.[$name].rows[]? | select((.budget * 100 | round) == $percent) | .plan_ms][0]' bench/traces/joint_bounds.json)
    jq -c --arg name "$name" --argjson percent "$percent" --argjson joint "$joint" --argjson plan "$plan" --argjson disordered "${disordered:-null}" '
      def fixed: if . == null then null else . * 100 | round / 100 end;
      {workload: $name, budget_percent: $percent, compute_ms: (.runs[0].compute_step_ms | fixed), bound_ms: (.runs[0].bound_ms | fixed),
       joint_bound_ms: ($joint | fixed), plan_ms: ($plan | fixed),
       disordered: ($disordered | {races, outcome, fits: (.peak_device_bytes <= .budget_bytes), checksum})}
      + (.runs | map({key: .name, value: {step_ms: (if .learned_after_steps == null or .predicted_step_ms == null then null else .steady_step_ms | fixed end),
           recomputed_ms: (.recomputed_ms | fixed), recomputed_operations: .steps[-1].recomputed_operations,
           maps: .steps[-1].maps, unmaps: .steps[-1].unmaps, races, outcome,
           fits: (.peak_device_bytes <= .budget_bytes), checksum}}) | from_entries)' <<<"$result" | tee -a "$rows" | jq -r '
      [.workload, "\(.budget_percent)%", .compute_ms, (.bound_ms // "-"), (.joint_bound_ms // "-"), (.swap.step_ms // "-"), (.recompute.step_ms // "-"),
       (.joint.step_ms // "-"), (.sqrt.step_ms // "-"), (.checkmate.step_ms // "-")] | @tsv' |
      while IFS=$'\t' read -r -a cell; do print_row "${cell[@]}"; done
  done
done

# One row a line: the file is kept in bench/results/, and two runs are compared by row.
jq -rs --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" '
  {schema: "thermocline-bench-recompute/1", device: "reference", commit: $commit, date: $date, rows: .}
  | "{", (to_entries[] | select(.key != "rows") | "  \(.key | tojson): \(.value | tojson),"),
    "  \"rows\": [", (.rows | map("    " + tojson) | join(",\n")), "  ]", "}"' "$rows" >"$build/bench/recompute.json"
jq -rs 'def middle: sort | if length == 0 then null else (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2 end;
  def of(a; b): [.[] | select(a != null and b != null) | a / b];
  def line(what): "joint: \(what): median \(middle * 1000 | round / 1000), maximum \(max * 1000 | round / 1000) of \(length)";
  (of(.joint.step_ms; .joint_bound_ms) | line("step / bound")), (of(.joint.step_ms; .plan_ms) | line("step / plan on paper"))' "$rows"
jq -es 'all(.[]; [.swap, .recompute, .joint, .sqrt, .checkmate, .disordered] | all(.[]; .races == 0 and .fits) and ([.[].checksum | select(. != null)] | unique | length) <= 1)' "$rows" >/dev/null || {
  echo "bench: other results than with copies alone, a race, or more than the budget" >&2
  status=1
}
rm "$rows"
exit $status
