#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peers_test.sh BUILD_FOLDER PEER.so TRACE: every kind of sequence is played with two allocators, and whatever is wrong is refused
# with one line.
set -euo pipefail
program=$1/bench/compare_allocators ours=$1/bench/peer_thermocline.so peer=$2 trace=$3
for sequence in hit churn-100-1024k handed-over "$trace"; do
  "$program" "$sequence" 2 3 "$ours" "$peer" |
    jq -es 'map(.allocator) == ["thermocline", "plain"] and .[0].ratio == 1 and all(.units > 0 and .ns > 0)' >/dev/null
done
# Each of two threads has buffers and a stream of its own. What both have live when they begin is more than one alone ever has.
for sequence in two-threads-hit two-threads-churn-100-1024k; do
  "$program" "$sequence" 20 3 "$ours" "$peer" |
    jq -es 'map(.allocator) == ["thermocline", "plain"] and all(.ns > 0 and .alone_ns > 0 and .over_alone > 0 and (.over_alone_quartiles | length) == 2)' >/dev/null
done
"$program" two-threads-churn-100-1024k 10 1 "$peer" | jq -e '.reserved_per_live > 0.65' >/dev/null
# Everything that is live is held.
"$program" churn-100-1024k 10 1 "$ours" "$peer" | jq -es 'all(.reserved_per_live > 0.5) and .[0].reserved_per_live >= 1' >/dev/null
refused() {
  local status=0
  "$program" "$@" >/dev/null 2>"$folder/line" || status=$?
  [[ $status != 0 && $(wc -l <"$folder/line") == 1 ]]
}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
refused nonsense 1 1 "$ours"
refused two-threads-handed-over 1 1 "$ours"
refused no/such.trace 1 1 "$ours"
refused hit 0 1 "$ours"
refused hit 1 1 /no/such.so
refused hit 1

# The script plays with whatever is in a folder; instructions are there where valgrind is.
mkdir "$folder/peers"
cp "$peer" "$folder/peers"
RESULT=$folder/result scripts/bench_peers.sh "$1" "$folder/peers" hit two-threads-hit >"$folder/table" 2>/dev/null
[[ $(wc -l <"$folder/table") == 7 ]]
counted=false
! command -v valgrind >/dev/null || counted=true
jq -e --argjson counted "$counted" '.schema == "thermocline-bench-peers/1" and (.rows | length) == 6
  and ([.rows[] | select(.sequence == "hit") | has("instructions")] | all(. == $counted))
  and ([.rows[] | select(.sequence == "two-threads-hit") | has("over_alone")] | all)' "$folder/result" >/dev/null
mkdir "$folder/empty"
if scripts/bench_peers.sh "$1" "$folder/empty" hit >/dev/null 2>"$folder/line"; then exit 1; fi
[[ $(wc -l <"$folder/line") == 1 ]]
