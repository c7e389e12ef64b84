#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planning_time.sh BUILD_FOLDER: the CPU time of planning 20,000 operations, the least of three runs, as JSON: bench/results/planning_time.json, from
# which the table of docs/measurements.md is made.
set -euo pipefail
build=${1:?the build folder}
"$build/bench/planner_bench" --benchmark_filter='operations:20000' --benchmark_repetitions=3 --benchmark_format=json 2>/dev/null |
  jq --arg commit "$(git rev-parse --short=8 HEAD)" --arg processor "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" '
  def parameter($name): .[0].run_name | capture($name + ":(?<n>[0-9]+)").n | tonumber;
  {schema: "thermocline-planning-time/1", command: "scripts/planning_time.sh build/release > bench/results/planning_time.json", commit: $commit,
   processor: $processor, operations: 20000,
   rows: ([.benchmarks[] | select(.run_type == "iteration")] | group_by(.run_name) | map({
     budget_percent: parameter("budget_percent"), pages_per_contents: parameter("pages_per_contents"), cpu_ms: (map(.cpu_time) | min | round)}))}'
