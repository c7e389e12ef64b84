#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_peers.sh BUILD_FOLDER DIR [SEQUENCE...]: plays the same sequences of allocations and frees (bench/peers/sequence.h; without any: all of
# the list below) with our allocator and with each shared object in DIR (bench/peers/README.md), in turns, counts their instructions by
# callgrind where valgrind is installed, and prints a table. The figures also go to $RESULT, BUILD_FOLDER/bench/peers.json by default. Called by
# ./dev bench allocator --peers DIR.
set -euo pipefail
build=${1:?the build folder}
folder=${2:?the folder with the shared objects of the other allocators}
shift 2
sequences=("$@")
[[ $# -gt 0 ]] || sequences=(hit churn-{1000,20000,100000}-1024k churn-1000-65536k handed-over bench/traces/*.jsonl.gz
  two-threads-hit two-threads-churn-1000-1024k)
peers=("$folder"/*.so)
[[ -e ${peers[0]} ]] || {
  echo "bench_peers: there is no .so in $folder" >&2
  exit 2
}
peers=("$build"/bench/peer_thermocline{,_2_mib}.so "${peers[@]}")
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT

play() {
  local rounds=50000 turns=15
  case $1 in
    hit) rounds=200000 ;;
    # Short turns, so that in some of them both threads have a core all the time.
    two-threads-*) rounds=5000 turns=201 ;;
    *.gz) rounds=4 ;;
  esac
  "$build/bench/compare_allocators" "$1" "$rounds" "$turns" "${peers[@]}"
}
# Instructions of a unit, of each allocator in a process of its own; those that take more than 10 us would take minutes.
count() {
  local rounds=5120 i slow
  [[ $1 != *.gz ]] || rounds=2
  for i in "${!peers[@]}"; do
    slow=$(jq -s --arg sequence "$1" --argjson i "$i" 'map(select(.sequence == $sequence))[$i].ns > 10000' "$out/times")
    [[ $slow == false ]] || continue
    valgrind --tool=callgrind --callgrind-out-file="$out/callgrind" --toggle-collect='*thermocline::bench::measured*' \
      "$build/bench/compare_allocators" "$1" "$rounds" 1 "${peers[i]}" >"$out/row" 2>"$out/log" || {
      echo "bench_peers: no instructions of ${peers[i]} with $1: callgrind failed: $(tail -n 1 "$out/log")" >&2
      continue
    }
    jq --argjson all "$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/log")" \
      '{sequence, allocator, instructions: ($all / .units | round)}' "$out/row"
  done
}

for sequence in "${sequences[@]}"; do play "$sequence"; done >"$out/times"
: >"$out/instructions"
if command -v valgrind >/dev/null; then
  for sequence in "${sequences[@]}"; do
    # With two threads it would be the same as with one, and callgrind runs one at a time.
    [[ $sequence == two-threads-* ]] || count "$sequence"
  done >"$out/instructions"
else
  echo "bench_peers: valgrind is not installed; no instructions are counted" >&2
fi
result=${RESULT:-$build/bench/peers.json}
jq -nr --slurpfile times "$out/times" --slurpfile counted "$out/instructions" \
  --arg built "$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt"), g++ $(${CXX:-g++} -dumpversion), $(uname -m)" \
  --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --argjson cores "$(nproc)" --argjson load "$(cut -d' ' -f1 /proc/loadavg)" '
  ($counted | map({key: "\(.sequence) \(.allocator)", value: {instructions}}) | from_entries) as $instructions
  | ($times | map(. + $instructions["\(.sequence) \(.allocator)"] | .sequence |= (sub(".*/"; "") | sub("[.]jsonl.*"; "")))) as $rows
  | {schema: "thermocline-bench-peers/1", command: "RESULT=bench/results/peers.json scripts/bench_peers.sh build/release DIR",
     commit: $commit, date: (now | todate[:10]), built: $built, cores: $cores, load: $load}
  | "{", (to_entries[] | "  \(.key | tojson): \(.value | tojson),"), "  \"rows\": [", ($rows | map("    \(tojson)") | join(",\n")), "  ]", "}"' >"$result"
jq -r '.rows[] | [.sequence, .allocator, .ns, .ratio, .reserved_per_live, .instructions // "-", .over_alone // "-"] | @tsv' "$result" |
  awk -F'\t' '
    BEGIN { printf "%-28s %-24s %8s %6s %16s %13s %21s\n", "sequence", "allocator", "ns", "ratio", "reserved / live", "instructions", "two threads over one" }
    { printf "%-28s %-24s %8s %6s %16s %13s %21s\n", $1, $2, $3, $4, $5, $6, $7 }'
