#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_peers.sh BUILD_FOLDER DIR: plays the same sequences of allocations and frees with our allocator and with each shared object in DIR
# (bench/peers/README.md), in turns, and prints a table; the figures also go to BUILD_FOLDER/bench/peers.json. Called by
# ./dev bench allocator --peers DIR.
set -euo pipefail
build=${1:?the build folder}
folder=${2:?the folder with the shared objects of the other allocators}
peers=("$folder"/*.so)
[[ -e ${peers[0]} ]] || {
  echo "bench_peers: there is no .so in $folder" >&2
  exit 2
}
play() { "$build/bench/compare_allocators" "$1" "$2" 7 "$build/bench/peer_thermocline.so" "${peers[@]}"; }
{
  play hit 200000
  for live in 1000 20000 100000; do play "churn-$live-1024k" 50000; done
  play churn-1000-65536k 50000
  play handed-over 50000
  for trace in bench/traces/*.jsonl.gz; do play "$trace" 4; done
} | jq -s . >"$build/bench/peers.json"
jq -r '.[] | [(.sequence | sub(".*/"; "") | sub("[.]jsonl.*"; "")), .allocator, .ns, .ratio, .reserved_per_live] | @tsv' "$build/bench/peers.json" |
  awk -F'\t' 'BEGIN { printf "%-22s %-20s %10s %8s %16s\n", "sequence", "allocator", "ns", "ratio", "reserved / live" }
    { printf "%-22s %-20s %10s %8s %16s\n", $1, $2, $3, $4, $5 }'
