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
refused no/such.trace 1 1 "$ours"
refused hit 0 1 "$ours"
refused hit 1 1 /no/such.so
refused hit 1
