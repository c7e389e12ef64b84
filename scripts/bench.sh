#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD_FOLDER [TRACE...]: replays the recorded training steps with 80 to 40 % of their memory and compares the time of a step with the lower bound
# in bench/traces/bounds.json: no schedule that may only swap is faster. Called by ./dev bench.
# A row that runs out of memory is a result, not a failure; a wrong checksum or an exceeded budget is one.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
shift
traces=("$@")
[[ $# -gt 0 ]] || traces=(bench/traces/*.jsonl.gz)
status=0

replay() { "$thermocline" replay "$trace" --device reference --json "$@" || true; }

printf '%-22s %-9s %7s %12s %9s %9s %8s  %s\n' trace policy budget "step (ms)" bound ratio compute outcome
for trace in "${traces[@]}"; do
  name=$(basename "$trace" .jsonl.gz)
  reference=$(replay | jq -r .checksum)
  for policy in reactive learned; do
    for percent in 80 70 60 50 40; do
      result=$(replay --policy "$policy" --budget "$percent%")
      [[ -n $result ]] || {
        echo "bench: $name at $percent% ($policy) gave no result" >&2
        status=1
        continue
      }
      bound=$(jq -r --arg t "$name" --argjson b "0.$((percent / 10))" \
        '.[$t].rows[]? | select((.budget - $b) | fabs < 0.001) | .bound_ms' bench/traces/bounds.json)
      jq -r --arg name "$name" --arg policy "$policy" --arg percent "$percent%" --arg bound "${bound:-null}" '
        def fixed: if . == null then "-" else . * 100 | round / 100 | tostring end;
        ($bound | fromjson) as $b | [$name, $policy, $percent, (.steady_step_ms | fixed), ($b | fixed),
          (if .outcome == "ok" and $b != null then .steady_step_ms / $b | fixed else "-" end), (.compute_step_ms | fixed), .outcome]
        | @tsv' <<<"$result" | xargs -r printf '%-22s %-9s %7s %12s %9s %9s %8s  %s\n'
      jq -e --arg reference "$reference" \
        '.peak_device_bytes <= .budget_bytes and (.outcome != "ok" or .checksum == $reference)' <<<"$result" >/dev/null || {
        echo "bench: $name at $percent% ($policy) broke its budget or its bits" >&2
        status=1
      }
    done
  done
done
exit "$status"
