#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD_FOLDER [--device NAME] [TRACE_NAME...]: replays the recorded training steps with 80 to 40 % of the memory of a step, lru, reactive,
# learned, and learned with `safety = "trusting"`, and compares the time of a steady step with the lower bound that `thermocline bound` computes (docs/bound.md): no schedule that may only
# swap is faster. A trace without steps of one shape (nmt_varlen) is run at 80 % of its peak and compared with unlimited memory. Writes
# BUILD_FOLDER/bench/offload.json. Called by ./dev bench offload.
# A row that runs out of memory is a result, not a failure; a wrong checksum, a race or an exceeded budget is one.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
device=reference
shift
if [[ ${1-} == --device ]]; then
  device=${2:?a device: thermocline devices lists them}
  shift 2
fi
names=("$@")
[[ $# -gt 0 ]] || mapfile -t names < <(cd bench/traces && printf '%s\n' *.jsonl.gz | sed 's/\.jsonl\.gz$//')
mkdir -p "$build/bench"
rows=$build/bench/offload.rows
: >"$rows"
status=0

# NAME PERCENT BUDGET BOUND
row() {
  local trace=bench/traces/$1.jsonl.gz policy result
  # shellcheck disable=SC2059
  for policy in lru reactive learned trusting; do
    local flags=(--policy "$policy")
    [[ $policy != trusting ]] || flags=(--policy learned --safety trusting)
    result=$("$thermocline" replay "$trace" --device "$device" --steps 12 "${flags[@]}" --budget "$3" --json || true)
    [[ -n $result ]] || {
      echo "bench: $1 at $2 % ($policy) gave no result" >&2
      status=1
      continue
    }
    jq -c --arg name "$1" --arg policy "$policy" --argjson percent "$2" --argjson bound "$4" --arg reference "$reference" '
      $bound as $b | .steps[-1] as $last
      | {workload: $name, budget_percent: $percent, policy: $policy, outcome, bound_ms: $b, steady_step_ms, compute_step_ms, predicted_step_ms,
         ratio: (if .outcome == "ok" then .steady_step_ms / $b else null end), learned_after_steps,
         evicted_bytes_per_step: $last.evicted_bytes, restored_bytes_per_step: $last.restored_bytes,
         maps_per_step: $last.maps, unmaps_per_step: $last.unmaps, host_waits, races,
         keeps_promises: (.peak_device_bytes <= .budget_bytes and .races == 0 and (.outcome != "ok" or .checksum == $reference))}' \
      <<<"$result" | tee -a "$rows" | jq -r '
        def fixed(n): if . == null then "-" else . * n | round / n | tostring end;
        [.workload, "\(.budget_percent)%", .policy, (.bound_ms | fixed(10)), (.steady_step_ms | fixed(10)), (.ratio | fixed(1000)),
         (if .predicted_step_ms == null then null else .predicted_step_ms / .bound_ms end | fixed(1000)),
         ((.evicted_bytes_per_step // 0) / 1048576 | fixed(1)), ((.restored_bytes_per_step // 0) / 1048576 | fixed(1)),
         (.maps_per_step // 0), (.host_waits // 0), .outcome] | @tsv' |
      while IFS=$'\t' read -r -a cell; do printf "$format" "${cell[@]}"; done
  done
}

format='%-22s %6s %-9s %10s %10s %7s %9s %9s %9s %6s %6s  %s\n'
# shellcheck disable=SC2059
printf "$format" workload budget policy "bound ms" "step ms" ratio predicted "out MiB" "in MiB" maps waits outcome
for name in "${names[@]}"; do
  # The checksum of a step does not depend on the device; an h200 holds every step whole.
  reference=$("$thermocline" replay "bench/traces/$name.jsonl.gz" --device h200 --steps 12 --policy none --json | jq -r .checksum)
  if [[ $name == *varlen* ]]; then
    compute=$("$thermocline" replay "bench/traces/$name.jsonl.gz" --device "$device" --steps 12 --policy none --json | jq .compute_step_ms)
    row "$name" 80 80%peak "$compute"
    continue
  fi
  while read -r percent bytes bound; do
    row "$name" "$percent" "$bytes" "$bound"
  done < <("$thermocline" bound "bench/traces/$name.jsonl.gz" --device "$device" --budget 80%peak,70%peak,60%peak,50%peak,40%peak --json |
    jq -r '.rows[] | select(.feasible) | [(.budget | rtrimstr("%peak")), .budget_bytes, .bound_ms] | @tsv')
done

# One row a line: the file is kept in bench/results/, and two runs are compared by row.
jq -rs --arg device "$device" --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" '
  def median: sort | if length == 0 then null else .[length / 2 | floor] end;
  {schema: "thermocline-bench-offload/1", device: $device, commit: $commit, date: $date,
   summary: (group_by(.policy) | map({key: .[0].policy, value: (map(.ratio | select(. != null)) | {rows: length, median: median, maximum: max})}) | from_entries),
   rows: .}
  | "{", (to_entries[] | select(.key != "rows") | "  \(.key | tojson): \(.value | tojson),"),
    "  \"rows\": [", (.rows | map("    " + tojson) | join(",\n")), "  ]", "}"' "$rows" >"$build/bench/offload.json"
rm "$rows"
jq -r '.summary | to_entries[] | "\(.key): median \(.value.median * 1000 | round / 1000), maximum \(.value.maximum * 1000 | round / 1000) of \(.value.rows)"' \
  "$build/bench/offload.json"
jq -r '.rows[] | select(.keeps_promises | not) | "bench: \(.workload) at \(.budget_percent) % (\(.policy)) broke its budget, its bits or its order"' \
  "$build/bench/offload.json" >&2
jq -e '.rows | all(.keeps_promises)' "$build/bench/offload.json" >/dev/null || status=1
exit "$status"
