#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tour.sh BUILD_FOLDER [--write] [PAGE...]: runs the commands of docs/first-hour.md and docs/tour.md, or of the pages named (lines that begin
# with "$ " in their console blocks), one after the other in a folder of their own, and says where a page shows something else than they print;
# figures and the lengths of bars may differ. A block that begins with ```cpp NAME is written to the file of that name. With --write the pages
# take what the commands print. Called by ./dev tour.
set -euo pipefail
build=$(cd "${1:?the build folder}" && pwd)
shift
mode=check
[[ ${1:-} != --write ]] || { mode=--write && shift; }
pages=("$@")
[[ $# -gt 0 ]] || pages=(docs/first-hour.md docs/tour.md)
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for nvcc in /usr/local/cuda/bin "$root"/build/cuda/*/bin; do
  [[ ! -x $nvcc/nvcc ]] || PATH=$PATH:$nvcc
done
export PATH="$build/bin:$PATH" XDG_CONFIG_HOME="$work"

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

# The page as it is when its commands are run.
run_page() {
  local in_block=no block='' line file=''
  while IFS= read -r line; do
    if [[ -n $file && $line == '```' ]]; then
      printf '%s' "$block" >"$file"
      file=
    elif [[ -n $file ]]; then
      block+=$line$'\n'
    elif [[ $in_block == yes && $line == '```' ]]; then
      run_block <<<"$block"
      in_block=no
    elif [[ $in_block == yes ]]; then
      block+=$line$'\n'
      continue
    elif [[ $line == '```console' ]]; then
      in_block=yes block=
    elif [[ $line == '```cpp '* ]]; then
      file=${line#'```cpp '} block=
    fi
    printf '%s\n' "$line"
  done
}

shape() { sed -E 's/[0-9a-f]{16}/DIGEST/g; s/[0-9][0-9.]*/N/g; s/#+/#/g; s/[KMG]iB|bytes/B/g; s/ +/ /g' "$1"; }

status=0
for page in "${pages[@]}"; do
  name=$(basename "$page" .md)
  mkdir "$work/$name"
  ln -s "$root/bench/traces" "$work/$name/traces"
  ln -s "$build/bin/examples/digits" "$work/$name/digits"
  (cd "$work/$name" && run_page <"$root/$page" >"$work/$name.md")
  if [[ $mode == --write ]]; then
    cp "$work/$name.md" "$root/$page"
    echo "tour: wrote $page" >&2
  elif diff <(shape "$root/$page") <(shape "$work/$name.md") >"$work/differences"; then
    echo "tour: $page shows what its commands print" >&2
  else
    cat "$work/differences" >&2
    echo "tour: $page does not show what its commands print (< the page, > the commands); scripts/tour.sh $build --write $page renews it" >&2
    status=1
  fi
done
exit "$status"
