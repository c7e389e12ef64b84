#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# share.sh BUILD_FOLDER [--check FILE]: what two programs that share a device get done (bench/share_bench.cc), as JSON; 10 s. --check
# compares one device with FILE: simulated time is the same everywhere, so a throughput may differ by 0.01. Status 1: one differs by more.
set -euo pipefail
build=$(realpath "${1:?the build folder}")
kept=${3:+$(realpath "$3")}
cd "$(dirname "$0")/.."
devices=(reference bench/quick_pages.toml h100-80g h200)
[[ ${2:-} != --check ]] || devices=(reference)
found=$("$build/bench/share_bench" "$build/lib/thermocline/simulator/libcuda.so.1" "${devices[@]}")
if [[ ${2:-} != --check ]]; then
  echo "$found"
  exit 0
fi
jq -e -n --argjson found "$found" --slurpfile kept "${kept:?the file to compare with}" '
  def known: .rows | map({key: "\(.device), \(.memory_gib) GiB", value: {bursts_throughput, at_once_throughput, thrashing_throughput, sliced_throughput}}) | from_entries;
  ($found | known) as $now | ($kept[0] | known) as $before
  | [$now | keys[] as $row | .[$row] | keys[] as $figure | select((.[$figure] - ($before[$row][$figure] // 0)) | fabs > 0.01)
     | "\($row): \($figure) is \($now[$row][$figure]), \($before[$row][$figure]) in the file"]
  | if length == 0 then true else error(join("; ")) end' >/dev/null || exit 1
