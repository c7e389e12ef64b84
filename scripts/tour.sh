#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tour.sh BUILD_FOLDER [--write]: runs the commands of docs/tour.md (lines that begin with "$ " in its console blocks) one after the
# other in a folder of their own, and says where the page shows something else than they print; figures and the lengths of bars may differ.
# With --write the page takes what they print. Called by ./dev tour.
set -euo pipefail
build=$(cd "${1:?the build folder}" && pwd)
mode=${2:-check}
page=$PWD/docs/tour.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tour"
ln -s "$PWD/bench/traces" "$work/tour/traces"
ln -s "$build/bin/examples/digits" "$work/tour/digits"
export PATH="$build/bin:$PATH" XDG_CONFIG_HOME="$work"
cd "$work/tour"

# One console block: each command, and what it prints on both streams.
run_block() {
  local line status
  while IFS= read -r line; do
    [[ $line == '$ '* ]] || continue
    printf '%s\n' "$line"
    status=0
    bash -c "${line#\$ }" 2>&1 </dev/null || status=$?
    [[ $status -eq 0 ]] || printf '[status %d]\n' "$status"
  done
}

in_block=no block=
while IFS= read -r line; do
  if [[ $in_block == yes && $line == '```' ]]; then
    run_block <<<"$block"
    in_block=no
  elif [[ $in_block == yes ]]; then
    block+=$line$'\n'
    continue
  elif [[ $line == '```console' ]]; then
    in_block=yes block=
  fi
  printf '%s\n' "$line"
done <"$page" >"$work/page.md"

if [[ $mode == --write ]]; then
  cp "$work/page.md" "$page"
  echo "tour: wrote $page" >&2
  exit
fi
shape() { sed -E 's/[0-9a-f]{16}/DIGEST/g; s/[0-9][0-9.]*/N/g; s/#+/#/g; s/[KMG]iB|bytes/B/g; s/ +/ /g' "$1"; }
if diff <(shape "$page") <(shape "$work/page.md") >"$work/differences"; then
  echo "tour: docs/tour.md shows what its commands print" >&2
else
  cat "$work/differences" >&2
  echo "tour: docs/tour.md does not show what its commands print (< the page, > the commands); scripts/tour.sh $build --write renews it" >&2
  exit 1
fi
