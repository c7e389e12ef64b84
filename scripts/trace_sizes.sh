#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# trace_sizes.sh BUILD_FOLDER: bytes of two recorded traces in each form, as JSON: bench/results/trace_sizes.json, from which the table of
# docs/recording.md is made.
set -euo pipefail
build=${1:?the build folder}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in gpt2_b8 resnet50_b64; do
  for form in jsonl jsonl.gz packed; do
    "$build/bin/thermocline" convert "bench/traces/$name.jsonl.gz" "$scratch/$name.$form" 2>/dev/null
  done
  bytes() { stat -c %s "$scratch/$name.$1"; }
  jq -n --arg name "$name" --argjson steps "$(head -n 1 "$scratch/$name.jsonl" | jq .steps)" --argjson lines "$(wc -l <"$scratch/$name.jsonl")" \
    --argjson plain "$(bytes jsonl)" --argjson gzip "$(bytes jsonl.gz)" --argjson packed "$(bytes packed)" \
    '{trace: $name, steps: $steps, lines: $lines, json_lines_bytes: $plain, gzip_bytes: $gzip, packed_bytes: $packed}'
done | jq -s --arg commit "$(git rev-parse --short=8 HEAD)" \
  '{schema: "thermocline-trace-sizes/1", command: "scripts/trace_sizes.sh build/release > bench/results/trace_sizes.json", commit: $commit, rows: .}'
