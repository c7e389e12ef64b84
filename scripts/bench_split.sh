#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_split.sh BUILD_FOLDER [TRACE_NAME:PERCENT...]: marks the operators of recorded training steps that may be split
# (docs/recording.md), and replays them on device `reference` in budgets that one operator alone exceeds, whole and split: a steady
# step beside computing alone and beside what no swapping and recomputing can beat with these parts. Writes
# BUILD_FOLDER/bench/split.json. Called by ./dev bench split.
# A row that runs out of memory is a result; another checksum than that of whole operators, in order of time or in two adversarial
# orders, a race or an exceeded budget is a failure.
set -euo pipefail
build=${1:?the build folder}
shift
thermocline=$build/bin/thermocline
rows_of=("$@")
[[ $# -gt 0 ]] || rows_of=(nmt_b128_t50:{60,50,40,33,25} unet3d_b1_128:{40,33} vgg16_b32:25)
mkdir -p "$build/bench"
rows=$build/bench/split.rows
: >"$rows"
print_row() { printf '%-18s %6s %9s %9s %9s %9s  %s\n' "$@"; }
print_row workload budget compute whole split 'no both' 'operators split'
for row in "${rows_of[@]}"; do
  name=${row%:*} percent=${row#*:}
  trace=$build/bench/$name.marked.trace
  [[ -e $trace ]] || "$thermocline" convert --mark-slices "bench/traces/$name.jsonl.gz" "$trace" 2>/dev/null
  replay() { "$thermocline" replay "$trace" --exact --recompute auto --budget "$percent%peak" --json "$@" 2>/dev/null || true; }
  unlimited=$("$thermocline" replay "$trace" --exact --json 2>/dev/null)
  whole=$(replay)
  split=$(replay --split auto --joint-bound)
  others=$(for seed in 1 2; do replay --split auto --seed "$seed"; done | jq -s .)
  jq -c -n --arg name "$name" --argjson percent "$percent" \
    --argjson unlimited "$unlimited" --argjson whole "$whole" \
    --argjson split "$split" --argjson others "$others" '
    def fixed: if . == null then null else . * 100 | round / 100 end;
    {workload: $name, budget_percent: $percent, compute_ms: ($split.compute_step_ms | fixed),
     whole: $whole.outcome, outcome: $split.outcome,
     step_ms: ($split.steady_step_ms | fixed), bound_ms: ($split.bound_ms | fixed), joint_bound_ms: ($split.joint_bound_ms | fixed),
     recomputed_ms: ($split.recomputed_ms | fixed), races: ([$split, $others[]] | map(.races) | add),
     fits: ([$split, $others[]] | all(.peak_device_bytes <= .budget_bytes)),
     checksums: ([$unlimited, ($split, $others[] | select(.outcome == "ok"))] | map(.checksum) | unique),
     split: ([$split.split[]? | select(.parts > 1)] | group_by([.name, .parts]) | map({name: .[0].name, parts: .[0].parts, operators: length})),
     not_split: ([$split.split[]? | select(.parts == 1 and .bytes > $split.budget_bytes)] | group_by(.name) |
       map({name: .[0].name, bytes: .[0].bytes, why_not: .[0].why_not}))}' |
    tee -a "$rows" | jq -r '[.workload, "\(.budget_percent)%", .compute_ms, .whole, (.step_ms // .outcome), (.joint_bound_ms // "-"),
      ((.split | map("\(.name): \(.parts)") | join(", ")) + (.not_split | map(", \(.name): not") | join("")))] | @tsv' |
    while IFS=$'\t' read -r -a cell; do print_row "${cell[@]}"; done
done

# One row a line: the file is kept in bench/results/, and two runs are compared by row.
jq -rs --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" '
  {schema: "thermocline-bench-split/1", device: "reference", commit: $commit, date: $date, rows: .}
  | "{", (to_entries[] | select(.key != "rows") | "  \(.key | tojson): \(.value | tojson),"),
    "  \"rows\": [", (.rows | map("    " + tojson) | join(",\n")), "  ]", "}"' "$rows" >"$build/bench/split.json"
jq -es 'all(.[]; .races == 0 and .fits and (.checksums | length) == 1)' "$rows" >/dev/null || {
  echo "bench: other results in another order, a race, or more than the budget" >&2
  rm "$rows"
  exit 1
}
rm "$rows"
