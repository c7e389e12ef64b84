#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_allocator.sh BUILD_FOLDER: what the allocator and a launch cost over a driver that returns at once, beside what was asked for;
# the figures also go to BUILD_FOLDER/bench/allocator.json. Called by ./dev bench allocator. The machine may be busy with other things: the
# time is that of the processor, and the least of five runs (with several threads the clock's).
set -euo pipefail
build=${1:?the build folder}
raw=$build/bench/raw
mkdir -p "$raw"

# Alone in its process: what others gave back to malloc would hide how much it takes.
"$build/bench/allocator_bench" --benchmark_filter='^metadata' --benchmark_format=json >"$raw/metadata.json" 2>/dev/null
"$build/bench/allocator_bench" --benchmark_filter='^(pair|churn|holes|threads|handed_over|varying)' --benchmark_repetitions=5 \
  --benchmark_min_time=0.2 --benchmark_format=json >"$raw/allocator.json" 2>/dev/null
"$build/bench/launch_bench" --benchmark_repetitions=5 --benchmark_min_time=0.2 --benchmark_format=json >"$raw/launch.json" 2>/dev/null
"$build/bench/host_bench" --benchmark_repetitions=5 --benchmark_min_time=0.2 --benchmark_format=json >"$raw/host.json" 2>/dev/null
for trace in bench/traces/*.jsonl.gz; do
  "$build/bin/thermocline" replay "$trace" --device reference --policy none --json |
    jq --arg name "$(basename "$trace" .jsonl.gz)" \
      '{name: $name, used: (.peak_live_bytes / .peak_device_bytes), calls: (.steps[-1] | .maps + .unmaps)}'
done | jq -s . >"$raw/traces.json"
# Measured by the clock between calls of the simulated device, so it includes cache misses that the simulator's work causes.
"$build/bench/step_bench" "$build/lib/thermocline/simulator/libcuda.so.1" 80 bench/traces/*.jsonl.gz | jq -s . >"$raw/steps.json"

jq -n --slurpfile a "$raw/allocator.json" --slurpfile l "$raw/launch.json" --slurpfile m "$raw/metadata.json" \
  --slurpfile h "$raw/host.json" \
  --slurpfile t "$raw/traces.json" --slurpfile s "$raw/steps.json" '
  def runs($of; $name): [$of[0].benchmarks[] | select(.run_type == "iteration" and (.name | sub("/repeats.*"; "")) == $name)];
  def cpu($of; $name): [runs($of; $name)[].cpu_time] | min;
  def real($name): [runs($a; $name)[].real_time] | min;
  def row($what; $asked; $found; $unit): {what: $what, asked: $asked, found: ($found * 1000 | round / 1000), unit: $unit};
  [ row("pair 1 KiB"; 25; cpu($a; "pair/1024"); "ns"), row("pair 3 MiB"; 25; cpu($a; "pair/3145728"); "ns"),
    row("pair 32 MiB"; 25; cpu($a; "pair/33554432"); "ns"), row("pair 1 GiB"; 25; cpu($a; "pair/1073741824"); "ns"),
    row("churn, 1,000 live"; 90; cpu($a; "churn/1000"); "ns"), row("churn, 20,000 live"; 120; cpu($a; "churn/20000"); "ns"),
    row("churn, 100,000 live"; 150; cpu($a; "churn/100000"); "ns"),
    row("pair behind 4k holes"; 50; cpu($a; "holes/4096/1024"); "ns"),
    row("pair behind 16k holes"; 50; cpu($a; "holes/16384/1024"); "ns"),
    row("pair behind 64k holes"; 50; cpu($a; "holes/65536/1024"); "ns"),
    row("other sizes behind 64k holes"; 50; cpu($a; "holes_mixed/65536"); "ns"),
    # The time of a pair over both threads; each thread takes twice as long for one pair.
    row("two threads, own streams"; 35; 2 * real("threads/real_time/threads:2"); "ns"),
    row("freed by another thread"; 150; real("handed_over/real_time"); "ns"),
    row("driver calls on a pair"; 0; ([runs($a; "pair/1024")[].driver_calls] | max); "calls"),
    row("launch, 256 B"; 60; cpu($l; "launch/256/4"); "ns"), row("launch, 4 KiB"; 250; cpu($l; "launch/4096/4"); "ns"),
    row("launch, 32 KiB"; 2000; cpu($l; "launch/32764/4"); "ns"),
    row("host memory per GiB"; 2; $m[0].benchmarks[0].mib_per_gib; "MiB"),
    # Plain: the driver called each time. Asked: what a bare jemalloc arena with extent hooks takes, and no powers of two.
    row("host pair 2 MiB"; 200; cpu($h; "host_pair<Pool>/2097152"); "ns"),
    row("host pair 5 MB"; 200; cpu($h; "host_pair<Pool>/5000000"); "ns"),
    row("host churn, 1,000 live"; 364; cpu($h; "host_churn<Pool>/1000"); "ns"),
    row("  driver calls (plain: 2)"; 0.01; ([runs($h; "host_churn<Pool>/1000")[].driver_calls] | max); "calls"),
    row("  registered (plain: \(runs($h; "host_churn<Plain>/1000")[0].registered_mib * 100 | round / 100) MiB)"; 0.01;
      ([runs($h; "host_churn<Pool>/1000")[].registered_mib] | max); "MiB"),
    row("host, varying batch, used"; 90; 100 * runs($h; "host_used/iterations:1")[0].used; "%"),
    row("host, kept by a trim"; 0; runs($h; "host_used/iterations:1")[0].kept_mib; "MiB"),
    row("varying batch, used"; 99; 100 * runs($a; "varying_batch/iterations:1")[0].used; "%"),
    ($s[0][] | row("\(.trace | sub(".*/"; "") | sub("\\.jsonl.*"; "")), an operator"; 300; .median_ns; "ns")),
    ($t[0][] | row("\(.name), used"; 97; 100 * .used; "%"), row("\(.name), calls in a step"; 0; .calls; "calls")) ]
  | map(. + {reached: (if .unit == "%" then .found >= .asked else .found <= .asked end)})' >"$build/bench/allocator.json"

jq -r '.[] | [.what, .asked, .found, .unit, (if .reached then "" else "not reached" end)] | @tsv' "$build/bench/allocator.json" |
  awk -F'\t' 'BEGIN { printf "%-34s %8s %12s\n", "", "asked", "found" } { printf "%-34s %8s %12s %-6s %s\n", $1, $2, $3, $4, $5 }'
