#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# metadata_test.sh PROGRAM FILE: live small buffers take no more host memory than FILE says, by a tenth at most: other C libraries round
# otherwise.
set -euo pipefail
"$1" | jq -e --slurpfile pinned "$2" '
  [.rows[] as $now | $pinned[0].rows[] | select(.mix == $now.mix) | to_entries[] | select(.key | startswith("mib_per_gib"))
   | select($now[.key] > .value * 1.1) | "\($now.mix): \(.value) MiB a GiB pinned, \($now[.key]) found"] +
  [if [.rows[].mix] == [$pinned[0].rows[].mix] then empty else "other mixes than pinned" end]
  | if length == 0 then true else error(join("; ")) end'
