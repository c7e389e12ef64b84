#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# count_instructions.sh BUILD_FOLDER [--check FILE]: instructions of an allocation with its free, of an event of a recorded step, of an
# operator and of a launch, by callgrind, as JSON. All are counted that are executed from the call to its return, in any library:
# inlined code, the C library, the driver that returns at once. --check compares with FILE: a count may be larger by 5 %, and FILE says for
# which compiler and build it stands; elsewhere, and without valgrind, nothing is compared (exit status 77).
set -euo pipefail
build=${1:?the build folder}
command -v valgrind >/dev/null || {
  echo "count_instructions: valgrind is not installed; nothing is compared" >&2
  exit 77
}
for program in instructions compare_allocators; do
  [[ -x $build/bench/$program ]] || {
    echo "count_instructions: $build/bench/$program was not built; nothing is compared" >&2
    exit 77
  }
done
built="$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt"), g++ $(${CXX:-g++} -dumpversion), $(uname -m)"
if [[ ${2:-} == --check && $(jq -r .built "$3") != "$built" ]]; then
  echo "count_instructions: $3 stands for $(jq -r .built "$3"), this is $built; nothing is compared" >&2
  exit 77
fi
pinned=
[[ ${2:-} != --check ]] || pinned=$3
traces=$(dirname "$0")/../bench/traces
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# Counts only within functions named `measured`; the program runs other code before.
count() {
  valgrind --tool=callgrind --callgrind-out-file="$folder/out" --toggle-collect='*thermocline::bench::measured*' "$@" \
    >"$folder/log" 2>&1 || {
    cat "$folder/log" >&2
    exit 1
  }
  collected=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$folder/log")
}
allocator() { # name, sequence, rounds
  count "$build/bench/compare_allocators" "$2" "$3" 1 "$build/bench/peer_thermocline.so"
  jq -n --arg name "$1" --argjson all "$collected" --argjson units "$(grep '^{' "$folder/log" | jq .units)" \
    '{($name): ($all / $units | round)}'
}
# The least of up to three runs. When the planning thread has finished, one call takes over its plan, which takes some million instructions; on a
# busy machine that call may be a measured one. With --check a run is repeated only if it exceeds the figure to compare with.
calls() { # name, shape, times
  local least=0 enough=0 try
  [[ -z $pinned ]] || enough=$(jq --arg name "$1" --argjson times "$3" '(.instructions[$name] // 0) * 1.05 * $times | floor' "$pinned")
  for try in 1 2 3; do
    count "$build/bench/instructions" "$2" "$3"
    [[ $try != 1 && $least -le $collected ]] || least=$collected
    [[ $least -gt $enough ]] || break
  done
  jq -n --arg name "$1" --argjson all "$least" --argjson times "$3" '{($name): ($all / $times | round)}'
}

{
  allocator "hit" hit 5000
  allocator "churn to 1 MiB, 1,000 live" churn-1000-1024k 5000
  allocator "churn to 1 MiB, 20,000 live" churn-20000-1024k 5000
  # The warm-up takes its time.
  [[ ${2:-} == --check ]] || allocator "churn to 1 MiB, 100,000 live" churn-100000-1024k 5000
  allocator "churn to 64 MiB, 1,000 live" churn-1000-65536k 5000
  allocator "freed by another thread" handed-over 5120
  allocator "GPT-2, an allocation or free" "$traces/gpt2_b8.jsonl.gz" 2
  allocator "ResNet-50, an allocation or free" "$traces/resnet50_b64.jsonl.gz" 2
  calls "operator" operate 5000
  calls "launch, 256 bytes" launch-256 5000
  THERMOCLINE_DIGESTS=auto calls "launch, 256 bytes, digests = auto" launch-256 5000
  calls "launch, 256 bytes, four buffers with pages of their own" launch-256-whole 5000
  calls "launch, 4 KiB" launch-4096 5000
  calls "launch, 256 bytes, most of memory free" launch-256-roomy 5000
  THERMOCLINE_RECOMPUTE=auto calls "launch, 256 bytes, most of memory free, recompute = auto" launch-256-roomy 5000
  THERMOCLINE_DIGESTS=auto calls "launch, 256 bytes, most of memory free, digests = auto" launch-256-roomy 5000
  # Nothing is learned from it for ever.
  calls "launch, 256 bytes, one buffer in a slab" launch-256-slab 5000
} | jq -s --arg built "$built" '{built: $built, command: "scripts/count_instructions.sh build/release", instructions: add}' >"$folder/found.json"
cat "$folder/found.json"
[[ ${2:-} == --check ]] || exit 0

jq -e -n --slurpfile found "$folder/found.json" --slurpfile pinned "$3" '
  [$pinned[0].instructions | to_entries[] | $found[0].instructions[.key] as $now | select($now != null and $now > .value * 1.05)
   | "\(.key): \(.value) pinned, \($now) found"]
  + [$found[0].instructions | keys[] | select($pinned[0].instructions[.] == null) | "\(.): not pinned"] | if length == 0 then true else error(join("; ")) end' >/dev/null
