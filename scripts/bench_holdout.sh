#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_holdout.sh BUILD_FOLDER: replays steps that the planner was not made on (bench/traces/holdout) with 80 to 40 % of their memory on device
# `reference`, and compares a steady step with two bounds for swapping (docs/bound.md). The second allows for pages that are partly used: its budget is
# smaller by the ratio of live bytes to bytes in pages at the peak without a budget. Writes BUILD_FOLDER/bench/holdout.json. Called by
# ./dev bench holdout. A wrong checksum, a race or an exceeded budget makes it fail.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
mkdir -p "$build/bench"
rows=$build/bench/holdout.rows
: >"$rows"
printf '%-20s %6s %9s %9s %7s %9s\n' workload budget bound step ratio 'in pages'
for trace in bench/traces/holdout/*.jsonl.gz; do
  # fitting: the live bytes in as many bytes of pages as the peak has live bytes, if pages are as full as at the peak.
  IFS=$'\t' read -r checksum fitting < <("$thermocline" replay "$trace" --steps 8 --policy none --json |
    jq -r '[.checksum, (.peak_live_bytes * .peak_live_bytes / .peak_device_bytes | floor)] | @tsv')
  for percent in 80 60 50 40; do
    in_pages=$("$thermocline" bound "$trace" --budget "$((fitting * percent / 100))B" --json | jq '.rows[0].bound_ms')
    "$thermocline" replay "$trace" --budget "$percent%peak" --steps 8 --json |
      jq -c --arg name "$(basename "$trace" .jsonl.gz)" --argjson percent "$percent" --arg checksum "$checksum" --argjson in_pages "$in_pages" '
        def fixed: . * 100 | round / 100;
        {workload: $name, budget_percent: $percent, bound_ms: (.bound_ms | fixed), step_ms: (.steady_step_ms | fixed),
         ratio: (.steady_step_ms / .bound_ms * 1000 | round / 1000),
         bound_in_pages_ms: ($in_pages | fixed), ratio_in_pages: (.steady_step_ms / $in_pages * 1000 | round / 1000),
         keeps_promises: (.checksum == $checksum and .races == 0 and .peak_device_bytes <= .budget_bytes)}' | tee -a "$rows" |
      jq -r '[.workload, "\(.budget_percent)%", .bound_ms, .step_ms, .ratio, .ratio_in_pages] | @tsv' |
      while IFS=$'\t' read -r -a cell; do printf '%-20s %6s %9s %9s %7s %9s\n' "${cell[@]}"; done
  done
done
jq -rs --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" '
  {schema: "thermocline-bench-holdout/1", device: "reference", commit: $commit, date: $date,
   median_ratio: ([.[].ratio] | sort | .[length / 2 | floor]), worst_ratio: ([.[].ratio] | max),
   median_ratio_in_pages: ([.[].ratio_in_pages] | sort | .[length / 2 | floor]), worst_ratio_in_pages: ([.[].ratio_in_pages] | max), rows: .}
  | "{", (to_entries[] | select(.key != "rows") | "  \(.key | tojson): \(.value | tojson),"),
    "  \"rows\": [", (.rows | map("    " + tojson) | join(",\n")), "  ]", "}"' "$rows" >"$build/bench/holdout.json"
jq -r '"median \(.median_ratio), worst \(.worst_ratio); in pages \(.median_ratio_in_pages), \(.worst_ratio_in_pages)"' "$build/bench/holdout.json"
jq -es 'all(.[]; .keeps_promises)' "$rows" >/dev/null || {
  echo "bench: other results than without a limit, a race, or more than the budget" >&2
  exit 1
}
rm "$rows"
