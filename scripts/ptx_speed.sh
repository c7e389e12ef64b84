#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ptx_speed.sh BUILD_FOLDER: how fast the simulated device runs and compiles kernels, as JSON: bench/results/ptx_speed.json, from which the tables
# of docs/simulated_device.md are made. In CPU time of one core, so that other work on the machine counts less.
set -euo pipefail
build=${1:?the build folder}
"$build/bench/ptx_speed_bench" --benchmark_format=json --benchmark_min_time=1 2>/dev/null |
  jq --arg commit "$(git rev-parse --short=8 HEAD)" --arg processor "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" '
  def seconds: {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[.time_unit];
  {schema: "thermocline-ptx-speed/1", command: "scripts/ptx_speed.sh build/release > bench/results/ptx_speed.json", commit: $commit, processor: $processor,
   run: [.benchmarks[] | select(.name | test("^run/[a-z]+/")) |
         {kernel: (.name | split("/")[1]), instructions_a_cpu_second: (.instructions * .real_time / .cpu_time | round)}],
   compile: [.benchmarks[] | select(.name | startswith("compile")) |
             {of: (.name | sub("compile."; "")), blocks: .blocks, instructions: .instructions, cpu_ms: (.cpu_time * seconds * 10000 | round / 10)}]}'
