#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two workloads on a simulated GPU, three ways each: with all the memory they want, with a third of it and no offloading, and with a third of it
# and Thermocline. What is to be seen: the second fails, the third computes the same bits as the first.
# demo.sh BUILD_FOLDER [--results FILE | --check FILE]; called by ./dev demo. The status is 0 only if exactly that happened. --results writes what was
# seen as JSON (bench/results/demo.json, from which README's table is made); --check compares memory, outcomes and digests with FILE. What was moved
# and the simulated time depend a little on when the host looks, and are not compared.
set -euo pipefail
build=${1:?the build folder}
mode=${2:-} results=${3:-}
thermocline=$build/bin/thermocline
digits=$build/bin/examples/digits
trace=bench/traces/resnet50_b64.jsonl.gz
device=h200
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=()

mebibytes() { awk -v bytes="${1:-0}" 'BEGIN {printf "%.1f MiB", bytes / 1048576}'; }

heading() { printf '\n%s\n\n  %-28s %12s  %-14s %11s %11s %10s  %s\n' "$1" "" "memory" "outcome" "moved out" "moved in" "time" "$2"; }

row() { # WORKLOAD, and what is printed
  printf '  %-28s %12s  %-14s %11s %11s %10s  %s\n' "${@:2}"
  jq -nc '$ARGS.positional | {workload: .[0], how: .[1], memory: .[2], outcome: .[3], moved_out: .[4], moved_in: .[5], time: .[6], digest: .[7]}' \
    --args "$@" >>"$work/rows"
}

expect() { # NAME EXPECTED ACTUAL
  [[ $2 == "$3" ]] || wrong+=("$1: expected '$2', got '$3'")
}

# --- A program, built by nvcc, not changed and not linked against the library ---

# run_digits NAME [FLAGS...]: leaves NAME.out, NAME.err, NAME.status in $work
run_digits() {
  local name=$1 status=0
  shift
  THERMOCLINE_SIMULATE_STATS=1 "$thermocline" run --simulate "$device" --stats=line "$@" -- "$digits" \
    >"$work/$name.out" 2>"$work/$name.err" || status=$?
  echo "$status" >"$work/$name.status"
}

# figure NAME KEY: the value of KEY=VALUE on the library's line of statistics; time_of NAME: the simulated device's clock, in milliseconds
figure() { grep '^thermocline: ' "$work/$1.err" | grep -oE " $2=[^ ]+" | tail -1 | cut -d= -f2 || true; }
time_of() { sed -nE 's/^simulated device .*time_ms=([0-9.]+).*/\1/p' "$work/$1.err" | tail -1; }

digits_row() { # LABEL NAME MEMORY
  local outcome=ok time
  if [[ $(cat "$work/$2.status") -ne 0 ]]; then
    outcome="failed ($(cat "$work/$2.status"))"
    grep -qi 'out of memory\|out_of_memory' "$work/$2.out" "$work/$2.err" && outcome="out of memory"
  fi
  time=$(time_of "$2")
  row digits "$1" "$3" "$outcome" "$(mebibytes "$(figure "$2" evicted_bytes)")" "$(mebibytes "$(figure "$2" restored_bytes)")" "$(printf '%.1f ms' "${time:-0}")" \
    "$([[ $outcome == ok ]] && sed -nE 's/^digest ([0-9a-f]+)$/\1/p' "$work/$2.out")"
}

demo_digits() {
  local peak third
  heading "A program: digits, built by nvcc, trains a network on 1,797 handwritten digits; device: $device, simulated" "digest of its results"
  run_digits unlimited
  peak=$(figure unlimited peak_live_bytes)
  [[ -n $peak ]] || {
    cat "$work/unlimited.err" >&2
    echo "demo: the program did not run." >&2
    exit 1
  }
  third=$((peak / 3))
  digits_row "all the memory it wants" unlimited "$(mebibytes "$peak")"
  run_digits none --budget "$third" --policy none
  digits_row "a third, without offloading" none "$(mebibytes "$third")"
  run_digits offload --budget "$third"
  digits_row "a third, with Thermocline" offload "$(mebibytes "$third")"

  expect "digits with all memory" 0 "$(cat "$work/unlimited.status")"
  [[ $(cat "$work/none.status") -ne 0 ]] || wrong+=("digits without offloading ran in a third of its memory")
  expect "digits with a third" 0 "$(cat "$work/offload.status")"
  cmp -s "$work/unlimited.out" "$work/offload.out" || wrong+=("digits printed something else with a third of its memory")
  [[ $(figure offload evicted_bytes) -gt 0 ]] || wrong+=("digits with a third moved nothing")
  [[ $(figure offload peak_device_bytes) -le $third ]] || wrong+=("digits held more than its budget")
}

# --- A recorded training step ---

replay() { # NAME [FLAGS...]; running out of memory is a result, too
  local name=$1
  shift
  "$thermocline" replay "$trace" --device reference --json "$@" >"$work/$name.json" 2>"$work/$name.err" || true
  if [[ ! -s $work/$name.json ]] || ! jq -e .schema "$work/$name.json" >/dev/null 2>&1; then
    cat "$work/$name.err" >&2
    echo "demo: the replay gave no result." >&2
    exit 1
  fi
}

value() { jq -r "$2" "$work/$1.json"; }

replay_row() { # LABEL NAME MEMORY
  local outcome time=-
  outcome=$(value "$2" .outcome)
  [[ $outcome != ok ]] || time=$(value "$2" '.steady_step_ms' | xargs printf '%.1f ms')
  row resnet50_b64 "$1" "$3" "${outcome//_/ }" "$(mebibytes "$(value "$2" '.steps[-1].evicted_bytes // 0')")" \
    "$(mebibytes "$(value "$2" '.steps[-1].restored_bytes // 0')")" "$time" "$([[ $outcome == ok ]] && value "$2" .checksum)"
}

demo_replay() {
  local peak third
  heading "A training step: ResNet-50 with batches of 64, recorded from PyTorch; device: reference, simulated; figures of one step" "checksum of its memory"
  replay unlimited
  peak=$(value unlimited .peak_live_bytes)
  third=$((peak / 3))
  replay_row "all the memory it wants" unlimited "$(mebibytes "$peak")"
  replay none --budget "$third" --policy none
  replay_row "a third, without offloading" none "$(mebibytes "$third")"
  replay offload --budget "$third"
  replay_row "a third, with Thermocline" offload "$(mebibytes "$third")"

  expect "replay with all memory" ok "$(value unlimited .outcome)"
  expect "replay without offloading" out_of_memory "$(value none .outcome)"
  expect "replay with a third" ok "$(value offload .outcome)"
  expect "the replay's checksum with a third" "$(value unlimited .checksum)" "$(value offload .checksum)"
  [[ $(value offload .peak_device_bytes) -le $third ]] || wrong+=("the replay held more than its budget")
}

# The rows as one JSON object, with how well digits has learned.
as_json() {
  jq -s --arg commit "$(git rev-parse --short=8 HEAD 2>/dev/null || echo unknown)" --arg learned "$(sed -nE 's/.*accuracy ([0-9.]+) ?%.*/\1/p' "$work/unlimited.out" | tail -n 1)" '
    {schema: "thermocline-demo/1", command: "scripts/demo.sh build/release --results bench/results/demo.json", commit: $commit,
     accuracy_percent: ($learned | tonumber), rows: .}' "$work/rows"
}

compared() { jq '[.accuracy_percent, (.rows[] | [.workload, .how, .memory, .outcome, .digest])]' "$@"; }

demo_digits
demo_replay
[[ $mode != --results ]] || as_json >"$results"
if [[ $mode == --check ]] && ! diff <(compared "$results") <(as_json | compared) >&2; then
  wrong+=("this is not what $results says (< the file, > the demo)")
fi

if [[ ${#wrong[@]} -gt 0 ]]; then
  printf '\nThis is not what should happen:\n' >&2
  printf '  %s\n' "${wrong[@]}" >&2
  exit 1
fi
cat <<TEXT

The same bits in a third of the memory. Try it with numbers of your own, no GPU needed:

  $thermocline run --simulate $device --budget 22MiB --stats -- $digits --epochs 2

and with your own program (nvcc -cudart shared): without --budget the last lines say what it holds at most; then ask for half of that.

  $thermocline run --simulate $device --stats -- ./your_cuda_program
TEXT
