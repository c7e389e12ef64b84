#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# format.sh [--check]: rewrites the sources in the common format, or, with --check, names those that this would change (status 1 if any).
# Both look at the same files, those not committed yet among them, and --check rewrites copies of them and compares: it can not judge
# otherwise than the rewriting does. Called by ./dev format and ./dev check.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -d '' -t listed < <(git ls-files -z --cached --others --exclude-standard --deduplicate -- '*.h' '*.cc' '*.cu' '*.c')
files=()
for file in "${listed[@]}"; do
  [[ ! -f $file ]] || files+=("$file") # else deleted, but not committed yet
done
[[ ${#files[@]} -gt 0 ]] || {
  echo "format: git lists no sources here" >&2
  exit 1
}
[[ ${1:-} == --check ]] || exec clang-format -i "${files[@]}"

copies=$(mktemp -d)
trap 'rm -r "$copies"' EXIT
cp --parents .clang-format "${files[@]}" "$copies"
(cd "$copies" && clang-format -i "${files[@]}")
status=0
for file in "${files[@]}"; do
  cmp -s "$file" "$copies/$file" && continue
  echo "$file is not in the common format; ./dev format rewrites it" >&2
  status=1
done
exit "$status"
