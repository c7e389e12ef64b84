#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tour.sh BUILD_FOLDER [--write] [PAGE...]: runs the commands of docs/first-hour.md and docs/tour.md, or of the pages named (lines that begin
# with "$ " in their console blocks), one after the other in a folder of each page's own, and says where a page shows something else than they print;
# figures may differ by a fifth, and lengths of bars. A block that begins with ```cpp NAME or ```python NAME is written to the file of that name.
# ```console torch is for PyTorch: where TOUR_PYTHON (else python3) has none, such blocks are left as they are, and a line says so. With
# --write the pages take what the commands print. Called by ./dev tour.
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
# `python` is the one with PyTorch, with this checkout's package.
python=${TOUR_PYTHON:-python3}
has_torch=no
! "$python" -c 'import torch' 2>/dev/null || has_torch=yes
[[ $has_torch == yes ]] || echo "tour: $python has no PyTorch, so what is about it is not run" >&2
mkdir "$work/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" >"$work/bin/python"
chmod +x "$work/bin/python"
export PATH="$build/bin:$work/bin:$PATH" XDG_CONFIG_HOME="$work" PYTHONPATH="$root/integrations/pytorch/src"

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
    elif [[ $line == '```console' || ($line == '```console torch' && $has_torch == yes) ]]; then
      in_block=yes block=
    elif [[ $line == '```cpp '* || $line == '```python '* ]]; then
      file=${line##* } block=
    fi
    printf '%s\n' "$line"
  done
}

without_digests() { sed -E 's/[0-9a-f]{16}/DIGEST/g' "$1"; }

# The text without its figures: digests, numbers, bars, units.
shape() { without_digests "$1" | sed -E 's/[0-9][0-9.]*/N/g; s/#+/#/g; s/[KMG]iB|bytes/B/g; s/ +/ /g'; }

# Removes figures that differ from run to run: bytes that a program moved, host waits, pinned memory. They depend on which copies the host finds
# completed when it looks: a copy that is not known to have ended keeps its pinned memory, and the next one needs other.
steady() { without_digests "$1" | sed -E '/^ +(on the host|evicted|fetched|host waited) /s/[0-9][0-9.]*/N/g'; }

# The lines of two texts of one shape in which a steady figure differs by more than a fifth.
far_figures() {
  awk '
    function next_figure(text) { return match(text, /[0-9][0-9.]*/) ? substr(text, RSTART, RLENGTH) : "" }
    NR == FNR { page[FNR] = $0; next }
    {
      old = page[FNR]; new = $0
      while ((figure = next_figure(old)) != "") {
        old = substr(old, RSTART + RLENGTH)
        now = next_figure(new)
        new = substr(new, RSTART + RLENGTH)
        larger = figure > now + 0 ? figure + 0 : now + 0
        if ((figure - now) ^ 2 > (larger / 5) ^ 2) { print FNR ": < " page[FNR] "\n" FNR ": > " $0; break }
      }
    }' <(steady "$1") <(steady "$2")
}

tour_page() {
  local page=$1 name
  name=$(basename "$page" .md)
  local differences=$work/$name.differences
  mkdir "$work/$name"
  ln -s "$root/bench/traces" "$work/$name/traces"
  ln -s "$build/bin/examples/digits" "$work/$name/digits"
  (cd "$work/$name" && run_page <"$root/$page" >"$work/$name.md")
  if [[ $mode == --write ]]; then
    cp "$work/$name.md" "$root/$page"
    echo "tour: wrote $page" >&2
  elif diff <(shape "$root/$page") <(shape "$work/$name.md") >"$differences" &&
    far_figures "$root/$page" "$work/$name.md" >"$differences" && [[ ! -s $differences ]]; then
    echo "tour: $page shows what its commands print" >&2
  else
    cat "$differences" >&2
    echo "tour: $page does not show what its commands print (< the page, > the commands); scripts/tour.sh $build --write $page renews it" >&2
    return 1
  fi
}

# Side by side: each page has a folder of its own, and most of its commands have one thread.
status=0
tours=()
for page in "${pages[@]}"; do
  tour_page "$page" &
  tours+=($!)
done
for tour in "${tours[@]}"; do
  wait "$tour" || status=1
done
exit "$status"
