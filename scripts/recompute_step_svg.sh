#!/usr/bin/env bash
# Draws the last of six steps of ResNet-50 in half of its memory, without and with recomputing, as docs/recompute_step.svg.
#
#   scripts/recompute_step_svg.sh build/release/bin/thermocline > docs/recompute_step.svg
set -euo pipefail
thermocline=${1:?usage: recompute_step_svg.sh THERMOCLINE > picture.svg}
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# How long the last step took, and when its last operator ended: FROM:TO in milliseconds.
window() {
  local took
  took=$(jq '.steps[-1].ms' "$scratch/$1.result")
  jq -r --argjson took "$took" '[.[] | select(.ph == "X" and .args.ordinal > 0 and .args.relaunch != 1) | .ts + .dur] | max / 1000
    | "\(. - $took):\(.)"' "$scratch/$1.json"
}

parts=()
for recompute in off auto; do
  "$thermocline" replay bench/traces/resnet50_b64.jsonl.gz --budget 50% --exact --recompute "$recompute" --steps 6 --no-check --json \
    --timeline "$scratch/$recompute.json" >"$scratch/$recompute.result"
  title="copies alone"
  [[ $recompute == off ]] || title="copies and recomputing, planned together"
  parts+=("$title=$scratch/$recompute.json:$(window "$recompute")")
done
scripts/timeline_svg.sh "${parts[@]}"
