#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planning_time.sh BUILD_FOLDER: the CPU time of planning 20,000 operations, the least of three runs, and of joint plans of recorded steps, one run with
# reading the trace, as JSON: bench/results/planning_time.json, from which the tables of docs/measurements.md are made.
set -euo pipefail
build=${1:?the build folder}
joint=$(for row in cifar_resnet1001_b64:50 gpt2_b8:50 gpt2_b8:33 resnet50_b64:50 resnet50_b64:33 vgg16_b32:60; do
  name=${row%:*} percent=${row#*:}
  seconds=$({ TIMEFORMAT=%U; time "$build/bin/thermocline" plan "bench/traces/$name.jsonl.gz" --budget "$percent%peak" --json >/dev/null 2>&1; } 2>&1)
  jq -cn --arg name "$name" --argjson percent "$percent" --argjson seconds "$seconds" \
    '{workload: $name, budget_percent: $percent, cpu_ms: ($seconds * 1000 | round)}'
done | jq -cs .)
"$build/bench/planner_bench" --benchmark_filter='operations:20000' --benchmark_repetitions=3 --benchmark_format=json 2>/dev/null |
  jq --argjson joint "$joint" --arg commit "$(git rev-parse --short=8 HEAD)" --arg processor "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" '
  def parameter($name): .[0].run_name | capture($name + ":(?<n>[0-9]+)").n | tonumber;
  {schema: "thermocline-planning-time/1", command: "scripts/planning_time.sh build/release > bench/results/planning_time.json", commit: $commit,
   processor: $processor, operations: 20000, joint: $joint,
   rows: ([.benchmarks[] | select(.run_type == "iteration")] | group_by(.run_name) | map({
     budget_percent: parameter("budget_percent"), pages_per_contents: parameter("pages_per_contents"), cpu_ms: (map(.cpu_time) | min | round)}))}'
