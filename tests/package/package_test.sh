#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_test.sh BUILD_FOLDER SOURCE_FOLDER: installs into a folder of its own, and uses what is there.
set -euo pipefail
build=${1:?the build folder} source=${2:?the source folder}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "package_test: $*" >&2
  exit 1
}
expect() { # WHAT EXPECTED FOUND
  [[ $3 == "$2" ]] || fail "$1: expected '$2', found '$3'"
}

# In a folder that no setting of this machine's leads to.
use() {
  local prefix=$1
  (cd "$scratch" && "$prefix/bin/thermocline" replay "$source/bench/traces/resnet50_b64.jsonl.gz" --budget 60% --steps 2 --json) |
    grep -q '"outcome": *"ok"' || fail "$prefix: a replay did not end well"
  local example=$prefix/lib/thermocline/examples/streams
  [[ -x $example ]] || return 0
  local plain
  plain=$("$prefix/bin/thermocline" run --simulate reference --no-library -- "$example") || fail "$prefix: a program failed"
  [[ $plain == digest\ * ]] || fail "$prefix: a program printed '$plain'"
  expect "a program under $prefix" "$plain" "$("$prefix/bin/thermocline" run --simulate reference --budget 50% -- "$example")"
}

cmake --install "$build" --prefix "$scratch/first" >/dev/null
use "$scratch/first"
mv "$scratch/first" "$scratch/moved"
use "$scratch/moved"

# The pages for users are there, and no link of the first one leads nowhere.
pages=$scratch/moved/share/doc/thermocline
[[ -f $pages/docs/README.md && -f $pages/docs/commands.md && -f $pages/copyright ]] || fail "no documentation in $pages"
mapfile -t links < <(grep -oE '\]\([^)#:]+' "$pages/README.md" | cut -c3- | sort -u)
[[ ${#links[@]} -gt 5 ]] || fail "no links in $pages/README.md"
for link in "${links[@]}"; do
  [[ -e $pages/$link ]] || fail "README.md leads to $link, which is not installed"
done
[[ -f $scratch/moved/share/man/man1/thermocline.1 ]] || fail "no manual page"

version="$(cat "$source/VERSION") 0"
libraries=$(dirname "$(find "$scratch/moved/lib" -name libthermocline.so.1)")
cmake -S "$source/tests/package/consumer" -B "$scratch/consumer" "-DCMAKE_PREFIX_PATH=$scratch/moved" >/dev/null
cmake --build "$scratch/consumer" >/dev/null
expect "by find_package" "$version" "$("$scratch/consumer/consumer")"

read -r -a flags < <(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs thermocline)
cc "$source/tests/package/consumer/consumer.c" "${flags[@]}" -o "$scratch/by_pkg_config"
expect "by pkg-config" "$version" "$(LD_LIBRARY_PATH=$libraries "$scratch/by_pkg_config")"
