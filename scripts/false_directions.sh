#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# false_directions.sh BUILD_FOLDER [KERNELS]: random kernels (100,000), what the library says of their accesses, and what the simulated
# device's executor reads and writes. Writes BUILD_FOLDER/bench/false_directions.json; some 15 minutes on two cores.
# Status 1: the library was wrong about a kernel, which is printed with its seed.
set -euo pipefail
build=${1:?the build folder} kernels=${2:-100000}
jobs=${JOBS:-$(nproc)}
mkdir -p "$build/bench"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
each=$(((kernels + jobs - 1) / jobs))
pids=()
for ((i = 0; i < jobs; ++i)); do
  "$build/tests/programs/directions" --first $((1 + i * each)) --seeds "$each" >"$scratch/$i.json" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
# Counts are added, and counts by name, name by name.
jq -s --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" '
  def sum: if (.[0] | type) == "number" then add elif (.[0] | type) == "object"
    then (map(keys) | add | unique) as $names | [. as $all | $names[] | . as $name | {key: $name, value: ([$all[][$name] // 0] | add)}] | from_entries
    else .[0] end;
  (.[0] | keys_unsorted) as $fields | . as $all
  | [$fields[] | . as $field | {key: $field, value: ([$all[][$field]] | sum)}] | from_entries
  | {schema, commit: $commit, date: $date} + del(.schema)' "$scratch"/*.json >"$build/bench/false_directions.json"
jq -e '.false_claims == 0' "$build/bench/false_directions.json" >/dev/null || status=1
exit "$status"
