#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy_one.sh FOLDER CACHE FILE: clang-tidy on one file, as the compile_commands.json in FOLDER compiles it, unless it was clean before:
# the same text after preprocessing, wherever the source folder lies, under the same rules and the same version. Prints complaints on stdout.
set -euo pipefail
folder=$1
cache=$2
file=$3
[[ -f $file ]] || exit 0 # deleted, but not committed yet
entry=$(jq -c --arg file "$PWD/$file" '[.[] | select(.file == $file)][0] // empty' "$folder/compile_commands.json")
[[ -n $entry ]] || exit 0 # not compiled in this configuration
preprocess=$(jq -r .command <<<"$entry" | sed -E 's/ -o [^ ]+//; s/ -c / -E -P /')
key=$({
  clang-tidy --version
  cat .clang-tidy tests/.clang-tidy "${BASH_SOURCE[0]}"
  echo "$file"
  (cd "$(jq -r .directory <<<"$entry")" && bash -c "$preprocess" 2>/dev/null) | sed "s|$PWD/||g"
} | sha256sum | cut -c1-40)
[[ ! -e $cache/$key ]] || exit 0
# Of -Wconversion clang makes more than gcc does.
if output=$(clang-tidy --quiet -p "$folder" --extra-arg=-Wno-unknown-warning-option \
  --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-sign-conversion "$file" 2>/dev/null); then
  touch "$cache/$key"
else
  printf '%s\n' "$output"
  exit 1
fi
