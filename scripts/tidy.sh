#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy.sh BUILD_FOLDER [--all]: clang-tidy over the product's sources; tests are compiled with every warning and left at that.
# Without --all it stops after TIDY_SECONDS (200): changed files come first, files that were clean before are skipped
# (see tidy_one.sh), and it says how many it did not get to.
set -euo pipefail
build=$1
limit=${TIDY_SECONDS:-200}
[[ ${2:-} != --all ]] || limit=86400
cache=${THERMOCLINE_BUILD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thermocline}/tidy
mkdir -p "$cache"

mapfile -t files < <({
  git diff --name-only HEAD
  git diff --name-only HEAD~3 HEAD 2>/dev/null || true # a shallow clone may not reach that far
  git ls-files
} | grep -E '^(driver|allocator|offload|config|hooks|trace|tool|simulator|integrations)/.*\.cc$' | awk '!seen[$0]++')

deadline=$((SECONDS + limit))
status=0
looked_at=0
batch=$((2 * $(nproc)))
while [[ $looked_at -lt ${#files[@]} && $SECONDS -lt $deadline ]]; do
  printf '%s\0' "${files[@]:looked_at:batch}" | xargs -0 -n 1 -P "$(nproc)" scripts/tidy_one.sh "$build" "$cache" || status=1
  looked_at=$((looked_at + batch))
done
left=$((${#files[@]} - looked_at))
[[ $left -le 0 ]] || echo "tidy: time is up; $left of ${#files[@]} files were not looked at (./dev check --all does all)" >&2
exit "$status"
