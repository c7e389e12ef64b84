#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh BUILD_FOLDER SECONDS TARGET...: each target (of tests/fuzz) searches for its share of the time, from the corpus and what earlier
# runs have added to BUILD_FOLDER/corpus. Prints executions and findings; the status is 1 where there is a finding, whose input is then in
# BUILD_FOLDER/findings.
set -uo pipefail
build=${1:?the build folder}
seconds=${2:?the number of seconds}
shift 2
targets=("$@")
findings=$build/findings
mkdir -p "$findings"
failed=0
for target in "${targets[@]}"; do
  added=$build/corpus/$target
  mkdir -p "$added"
  log=$build/$target.log
  "$build/tests/fuzz_$target" "$added" "tests/fuzz/corpus/$target" -max_total_time=$((seconds / ${#targets[@]})) -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" -max_len=8192 -timeout=10 -rss_limit_mb=4096 >"$log" 2>&1
  status=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "$target: ${executions:-no} executions, $([[ $status -eq 0 ]] && echo "no finding" || echo "a FINDING, see $log")"
  [[ $status -eq 0 ]] || failed=1
done
exit $failed
