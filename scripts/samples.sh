#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# samples.sh FOLDER [BUILD_FOLDER [NAME...]]: runs the CUDA programs of FOLDER, which somebody built with `nvcc -cudart shared`, on the simulated
# device: plain, and with half of the memory that they hold as budget. A program is an executable named like its folder. Its exit status and its output
# say whether its results are right. A program is out of scope if it exits with 2, as CUDA's samples do where they can not run, or if the device refuses a
# feature by name (no PTX, kernels that launch kernels).
# Writes BUILD_FOLDER/bench/samples.json; with names, the other rows of an earlier file stay. Environment: DEVICE (h200), LIMIT (seconds of CPU time
# for each run, 120). Three files have lines that begin with a program's name: FOLDER/arguments its arguments, FOLDER/environment variables for it,
# FOLDER/reduced how it was changed to do less work than its source says.
set -euo pipefail
folder=${1:?the folder of programs}
build=$(cd "${2:-build/release}" && pwd)
thermocline=$build/bin/thermocline
device=${DEVICE:-h200} limit=${LIMIT:-120}
shift "$(($# < 2 ? $# : 2))"
mkdir -p "$build/bench"
rows=$build/bench/samples.rows
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$rows"

# Removes lines that differ from run to run: times and figures computed from them, addresses, process numbers.
same_words() {
  grep -viE 'time|second|/sec|[0-9] ?\(?(ms|us|s|msec)\b|[GM]i?B/s|flop|bandwidth|throughput|clock|elapsed|0x[0-9a-f]{6}|pid|iterations while|^(memcopy|kernel|non-streamed|[0-9]+ streams):' "$1" || true
}

# line_of FILE: what the file of the folder says of the program.
line_of() {
  [[ ! -f $folder/$1 ]] || sed -n "s/^$name //p" "$folder/$1"
}

# run NAME ARGUMENTS... -- FLAGS...: sets outcome and reason.
run() {
  local name=$1 status=0
  shift
  local arguments=()
  while [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  shift
  (cd "$(dirname "$program")" && ulimit -S -t "$limit" && env "${environment[@]}" "$thermocline" run --simulate "$device" --stats=line "$@" -- \
    "./$name" "${arguments[@]}") >"$work/out" 2>"$work/err" </dev/null || status=$?
  reason=$(grep -m1 -oE 'simulated device: kernel .* can not be run: .*' "$work/err" | sed -E 's/ \(.thermocline run --made-up.*//' |
    cut -c1-300 || true)
  [[ -n $reason ]] || reason=$(grep -m1 -oE 'simulated device: .*|thermocline: out of memory.*' "$work/err" | cut -c1-300 || true)
  outcome=pass
  if [[ $status -eq 152 || $status -eq 137 ]]; then  # by SIGXCPU or SIGKILL
    outcome=timeout reason=${reason:-"takes longer than $limit s of one core"}
  elif [[ $status -eq 2 ]] && ! grep -qiE 'fail' "$work/out"; then
    outcome=waived reason=$(grep -iE 'waiv|support|require|need|two|more' "$work/out" "$work/err" -h | head -1 | cut -c1-200 || true)
  elif [[ $status -ne 0 || $reason == *'out of memory'* || $reason == *'can not be run'* ]] || grep -v 'as expected' "$work/out" | grep -qE '\b(FAIL(ED|URE)?|failed|Failed|Mismatch|MISMATCH|wrong result)\b'; then
    outcome=fail
    [[ $reason != *'no PTX'* && $reason != *'launches kernels from a kernel'* && $reason != *__cuda_syscall_cnp* ]] || outcome=refused
    [[ -n $reason ]] || reason="status $status: $(grep -iE 'error|fail|mismatch' "$work/out" "$work/err" -h | head -1 | cut -c1-200 || true)"
  fi
}

# The output under a budget is not that without. Some programs draw their input from the time.
compare_with_another_run() {
  squeezed=differs squeezed_why="other output than without a budget"
  run "$name" "$@" --
  same_words "$work/out" | cmp -s - "$work/plain" ||
    squeezed=pass squeezed_why="its input is another one in every run, so only its own check says so"
}

printf '%-32s %-8s %6s %-8s %s\n' program outcome budget outcome reason
while read -r program; do
  name=$(basename "$program")
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  read -r -a arguments < <(line_of arguments) || true
  read -r -a environment < <(line_of environment) || true
  reduced=$(line_of reduced)
  run "$name" "${arguments[@]}" --
  plain=$outcome why=$reason percent='' squeezed='' squeezed_why=''
  if [[ $plain == pass ]]; then
    same_words "$work/out" >"$work/plain"
    peak=$(sed -nE 's/.* peak_device_bytes=([0-9]+).*/\1/p' "$work/err" | sort -n | tail -1)
    # In pages of 2 MiB. What one operation or one allocation uses at once has to fit: then the least budget that the refusal names.
    pages=$((${peak:-0} / 2097152)) budget=$((${peak:-0} / 2097152 - ${peak:-0} / 2097152 % 2))
    while [[ $pages -ge 2 && $budget -lt $((2 * pages)) ]]; do
      percent=$((100 * budget / (2 * pages)))
      run "$name" "${arguments[@]}" -- --budget "${budget}MiB"
      squeezed=$outcome squeezed_why=$reason
      if [[ $squeezed == pass ]]; then
        same_words "$work/out" >"$work/squeezed"
        cmp -s "$work/squeezed" "$work/plain" || compare_with_another_run "${arguments[@]}"
        break
      fi
      needed=$(sed -nE 's/^  do     budget = "([0-9]+)MiB".*/\1/p' "$work/err" | sort -n | tail -1)
      [[ -n $needed && $needed -gt $budget ]] || break
      budget=$needed
      squeezed=whole squeezed_why="uses all of its memory at once" percent=''
    done
  fi
  jq -cn --arg program "$name" --arg outcome "$plain" --arg reason "$why" --arg percent "$percent" --arg squeezed "$squeezed" \
    --arg squeezed_reason "$squeezed_why" --arg reduced "$reduced" '{$program, $outcome} + (if $reason != "" then {$reason} else {} end)
      + (if $percent != "" then {budget_percent: ($percent | tonumber)} else {} end)
      + (if $squeezed != "" then {$squeezed} else {} end)
      + (if $squeezed_reason != "" then {$squeezed_reason} else {} end) + (if $reduced != "" then {$reduced} else {} end)' >>"$rows"
  printf '%-32s %-8s %6s %-8s %s\n' "$name" "$plain" "${percent:+$percent%}" "${squeezed:--}" "${why:-$squeezed_why}"
done < <(find "$folder" -type f -perm -u+x | awk -F/ 'NF > 1 && $NF == $(NF - 1)' | sort)

# The rows that were not renewed.
if [[ $# -gt 0 && -f $build/bench/samples.json ]]; then
  jq -c --slurpfile new "$rows" '.rows[] | select(.program as $of | $new | all(.program != $of))' "$build/bench/samples.json" >"$work/kept"
  cat "$work/kept" >>"$rows"
fi

jq -rs --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" --arg device "$device" '
  sort_by(.program) | map(select(.outcome != "waived" and .outcome != "refused")) as $in_scope |
  {schema: "thermocline-samples/2", device: $device, commit: $commit, date: $date, programs: length, in_scope: ($in_scope | length),
   pass: (map(select(.outcome == "pass")) | length), squeezed: (map(select(.squeezed == "pass")) | length), rows: .}
  | "{", (to_entries[] | select(.key != "rows") | "  \(.key | tojson): \(.value | tojson),"),
    "  \"rows\": [", (.rows | map("    " + tojson) | join(",\n")), "  ]", "}"' "$rows" >"$build/bench/samples.json"
jq -r '"\(.programs) programs, \(.in_scope) in scope, \(.pass) pass, \(.squeezed) of them under a budget"' "$build/bench/samples.json"
rm "$rows"
