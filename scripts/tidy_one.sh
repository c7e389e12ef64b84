#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy_one.sh BUILD_FOLDER CACHE FILE: clang-tidy on one file, unless it was clean before: the same text after preprocessing, under the
# same rules and the same version. Prints complaints on stdout.
set -euo pipefail
build=$1
cache=$2
file=$3
[[ -f $file ]] || exit 0 # deleted, but not committed yet
command=$(jq -r --arg file "$PWD/$file" '[.[] | select(.file == $file)][0].command // empty' "$build/compile_commands.json")
[[ -n $command ]] || exit 0 # not compiled in this configuration
preprocess=$(sed -E 's/ -o [^ ]+//; s/ -c / -E -P /' <<<"$command")
key=$({
  clang-tidy --version
  cat .clang-tidy
  echo "$file"
  (cd "$build" && bash -c "$preprocess" 2>/dev/null)
} | sha256sum | cut -c1-40)
[[ ! -e $cache/$key ]] || exit 0
if output=$(clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option \
  --extra-arg=-Wno-ignored-optimization-argument "$file" 2>/dev/null); then
  touch "$cache/$key"
else
  printf '%s\n' "$output"
  exit 1
fi
