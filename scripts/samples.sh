#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# samples.sh FOLDER [BUILD_FOLDER [NAME...]]: runs the CUDA programs of FOLDER, which somebody built with `nvcc -cudart shared`, on the simulated
# device: plain, and with a budget of half of what they hold. A program is an executable that has the name of the folder that it is in. Its own
# exit status and its own words say whether it is right; 2 is the status with which samples of CUDA's say that they can not run here.
# Writes BUILD_FOLDER/bench/samples.json; bench/results/samples.json was put together from such. Environment: DEVICE (h200), LIMIT (seconds for
# each run, 120). FOLDER/arguments has lines of a program's name and what it is to be given.
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

# What no two runs agree on: times and what is computed from them, addresses, process numbers.
same_words() {
  grep -viE 'time|second|[0-9] ?\(?(ms|us|s)\b|[GM]i?B/s|flop|bandwidth|throughput|clock|elapsed|0x[0-9a-f]{6}|pid|iterations while' "$1" || true
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
  (cd "$(dirname "$program")" && timeout "$limit" "$thermocline" run --simulate "$device" --stats=line "$@" -- \
    "./$name" "${arguments[@]}") >"$work/out" 2>"$work/err" </dev/null || status=$?
  reason=$(grep -m1 -oE 'simulated device: kernel .* can not be run: .*' "$work/err" | sed -E 's/ \(.thermocline run --made-up.*//' |
    cut -c1-300 || true)
  [[ -n $reason ]] || reason=$(grep -m1 -oE 'simulated device: .*|thermocline: out of memory.*' "$work/err" | cut -c1-300 || true)
  outcome=pass
  if [[ $status -eq 124 ]]; then
    outcome=timeout reason=${reason:-"takes longer than $limit s here"}
  elif [[ $status -eq 2 ]] && ! grep -qiE 'fail' "$work/out"; then
    outcome=waived reason=$(grep -iE 'waiv|support|require|need|two|more' "$work/out" "$work/err" -h | head -1 | cut -c1-200 || true)
  elif [[ $status -ne 0 || $reason == *'out of memory'* || $reason == *'can not be run'* ]] || grep -v 'as expected' "$work/out" | grep -qE '\b(FAIL(ED|URE)?|failed|Failed|Mismatch|MISMATCH|wrong result)\b'; then
    outcome=fail
    [[ -n $reason ]] || reason="status $status: $(grep -iE 'error|fail|mismatch' "$work/out" "$work/err" -h | head -1 | cut -c1-200 || true)"
  fi
}

printf '%-32s %-8s %6s %-8s %s\n' program outcome budget outcome reason
while read -r program; do
  name=$(basename "$program")
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  arguments=()
  [[ ! -f $folder/arguments ]] || read -r -a arguments < <(sed -n "s/^$name //p" "$folder/arguments") || true
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
        same_words "$work/out" | cmp -s - "$work/plain" || { squeezed=differs squeezed_why="other output than without a budget"; }
        break
      fi
      needed=$(sed -nE 's/^  do     budget = "([0-9]+)MiB".*/\1/p' "$work/err" | sort -n | tail -1)
      [[ -n $needed && $needed -gt $budget ]] || break
      budget=$needed
      squeezed=whole squeezed_why="uses all of its memory at once" percent=''
    done
  fi
  jq -cn --arg program "$name" --arg outcome "$plain" --arg reason "$why" --arg percent "$percent" --arg squeezed "$squeezed" \
    --arg squeezed_reason "$squeezed_why" '{$program, $outcome} + (if $reason != "" then {$reason} else {} end)
      + (if $percent != "" then {budget_percent: ($percent | tonumber)} else {} end)
      + (if $squeezed != "" then {$squeezed} else {} end)
      + (if $squeezed != "pass" and $squeezed_reason != "" then {$squeezed_reason} else {} end)' >>"$rows"
  printf '%-32s %-8s %6s %-8s %s\n' "$name" "$plain" "${percent:+$percent%}" "${squeezed:--}" "${why:-$squeezed_why}"
done < <(find "$folder" -type f -perm -u+x | awk -F/ 'NF > 1 && $NF == $(NF - 1)' | sort)

jq -rs --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --arg date "$(date -u +%F)" --arg device "$device" '
  {schema: "thermocline-samples/1", device: $device, commit: $commit, date: $date, programs: length,
   pass: (map(select(.outcome == "pass")) | length), squeezed: (map(select(.squeezed == "pass")) | length), rows: .}
  | "{", (to_entries[] | select(.key != "rows") | "  \(.key | tojson): \(.value | tojson),"),
    "  \"rows\": [", (.rows | map("    " + tojson) | join(",\n")), "  ]", "}"' "$rows" >"$build/bench/samples.json"
jq -r '"\(.programs) programs, \(.pass) pass, \(.squeezed) of them under a budget"' "$build/bench/samples.json"
rm "$rows"
