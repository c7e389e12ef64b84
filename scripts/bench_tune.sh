#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_tune.sh BUILD_FOLDER [TRACE_NAME...]: tunes each recorded training step for 70 % of its peak on several devices, and prints what a step takes with the
# defaults and with what was found. `slow link` is the reference device with 6 GB/s each way (eight lanes of PCIe 3.0). Writes
# BUILD_FOLDER/bench/tune.json. Called by ./dev bench tune. Where the result is slower than the defaults, or nothing is found, the status is 1.
set -euo pipefail
build=${1:?the build folder}
thermocline=$build/bin/thermocline
shift
names=("$@")
[[ $# -gt 0 ]] || mapfile -t names < <(cd bench/traces && printf '%s\n' *.jsonl.gz | sed 's/\.jsonl\.gz$//')
mkdir -p "$build/bench"
rows=$build/bench/tune.rows slow=$build/bench/slow_link.toml
: >"$rows"
status=0
cat >"$slow" <<'TOML'
like = "reference"
title = "the reference device on a slow link"
source = "made up: eight lanes of PCIe 3.0"
link_to_device = 6e9
link_to_host = 6e9
TOML

format='%-22s %-12s %12s %12s %8s %9s  %s\n'
# shellcheck disable=SC2059
printf "$format" workload device "defaults ms" "tuned ms" "gain" "at best" changed
for name in "${names[@]}"; do
  for device in reference v100-16g titan-x-12g rtx-4090 "$slow"; do
    title=$device
    [[ $device != "$slow" ]] || title="slow link"
    result=$("$thermocline" tune "bench/traces/$name.jsonl.gz" --device "$device" --budget 70%peak --no-curve --json || true)
    [[ -n $result && $(jq -r .outcome <<<"$result") == ok ]] || {
      echo "bench: $name on $title: nothing was found" >&2
      status=1
      continue
    }
    jq -c --arg name "$name" --arg device "$title" '
      {workload: $name, device: $device, budget_bytes, default_step_ms, steady_step_ms, compute_step_ms, bound_ms, trusting_step_ms, settings,
       changed: [.changed[].key], replays, is_no_slower: (.steady_step_ms <= .default_step_ms)}' <<<"$result" | tee -a "$rows" | jq -r '
        def fixed(n): if . == null then "-" else . * n | round / n | tostring end;
        [.workload, .device, (.default_step_ms | fixed(100)), (.steady_step_ms | fixed(100)),
         "\((.default_step_ms / .steady_step_ms - 1) * 100 | fixed(10)) %", (if .bound_ms == null then "-" else .steady_step_ms / .bound_ms | fixed(1000) end),
         (.settings as $s | [.changed[] | "\(.)=\($s[.])"] | join(" ") | if . == "" then "-" else . end)] | @tsv' |
      while IFS=$'\t' read -r -a cell; do
        # shellcheck disable=SC2059
        printf "$format" "${cell[@]}"
      done
  done
done
{
  echo '{"schema": "thermocline-bench-tune/1", "budget": "70%", "rows": ['
  sed '$!s/$/,/' "$rows"
  echo ']}'
} >"$build/bench/tune.json"
jq -e 'all(.rows[]; .is_no_slower)' "$build/bench/tune.json" >/dev/null || {
  echo "bench: a tuned step is slower than with the defaults" >&2
  status=1
}
echo "wrote $build/bench/tune.json" >&2
exit $status
