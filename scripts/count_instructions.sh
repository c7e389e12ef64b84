#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# count_instructions.sh BUILD_FOLDER [--check FILE]: instructions per operation in our own functions (namespace thermocline, and what of
# Boost and the standard library is compiled into them), by callgrind, as JSON. Twice as many operations less as many: what
# happens once is not counted. --check compares with FILE: a count may be larger by 5 %, and FILE says for which compiler and build
# it stands; elsewhere, and without valgrind, nothing is compared (exit status 77).
set -euo pipefail
build=${1:?the build folder}
program=$build/bench/instructions
command -v valgrind >/dev/null || {
  echo "count_instructions: valgrind is not installed; nothing is compared" >&2
  exit 77
}
[[ -x $program ]] || {
  echo "count_instructions: $program was not built; nothing is compared" >&2
  exit 77
}
built="$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt"), g++ $(${CXX:-g++} -dumpversion), $(uname -m)"
if [[ ${2:-} == --check && $(jq -r .built "$3") != "$built" ]]; then
  echo "count_instructions: $3 stands for $(jq -r .built "$3"), this is $built; nothing is compared" >&2
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

count() {
  valgrind --tool=callgrind --callgrind-out-file="$folder/out" "$program" "$1" "$2" >"$folder/log" 2>&1 || {
    cat "$folder/log" >&2
    exit 1
  }
  # Of the lines "count (share) file:function [object]" those of this program's own code.
  callgrind_annotate --threshold=100 --show-percs=no "$folder/out" |
    awk '/\/instructions\]$/ && !/thermocline::bench::|:main/ { gsub(",", "", $1); sum += $1 } END { print sum + 0 }'
}

{
  for shape in pair churn operate; do
    times=20000
    once=$(count "$shape" "$times")
    twice=$(count "$shape" $((2 * times)))
    jq -n --arg shape "$shape" --argjson per "$(((twice - once) / times))" '{($shape): $per}'
  done
} | jq -s --arg built "$built" '{built: $built, instructions: add}' >"$folder/found.json"
cat "$folder/found.json"
[[ ${2:-} == --check ]] || exit 0

jq -e -n --slurpfile found "$folder/found.json" --slurpfile pinned "$3" '
  [$pinned[0].instructions | to_entries[] | select($found[0].instructions[.key] > .value * 1.05)
   | "\(.key): \(.value) pinned, \($found[0].instructions[.key]) found"] | if length == 0 then true else error(join("; ")) end' >/dev/null
