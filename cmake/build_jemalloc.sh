#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build_jemalloc.sh PREFIX COMPILER [SOURCE]: builds jemalloc as a private static library below PREFIX.
#
# SOURCE is an unpacked jemalloc; without it the distribution's source package is fetched with apt, from the mirror that this machine
# already uses and with the keys it already trusts, but with sources, lists and cache of our own: apt's configuration stays as it was.
# What must hold of the result: every public function is called thermocline_je_*, nothing is exported, and thread-local storage is not
# initial-exec (a library that needs that can not always be loaded with dlopen). The distribution's own library fails all three.
# Several may run at once: the first builds, the others wait for it.
set -euo pipefail

prefix=$1
compiler=$2
source=${3:-}

mkdir -p "$(dirname "$prefix")"
exec 9>"$prefix.lock"
flock 9
[[ -f $prefix/complete ]] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt downloads as a user of its own

fail() {
  echo "jemalloc: $*" >&2
  echo "jemalloc: to build without the network, unpack a jemalloc 5.x release and pass -DTHERMOCLINE_JEMALLOC_SOURCE=<folder>" >&2
  exit 1
}

# Writes the machine's binary sources again as source-package sources: one-line files and deb822 files, Debian's or Ubuntu's.
private_sources() {
  local from to=$work/etc/sources.list.d
  mkdir -p "$to"
  for from in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -r $from ]] || continue
    sed -nE 's/^[[:space:]]*deb([[:space:]])/deb-src\1/p' "$from" >"$to/$(basename "$from" .list).list"
  done
  for from in /etc/apt/sources.list.d/*.sources; do
    [[ -r $from ]] || continue
    sed -E 's/^Types:.*/Types: deb-src/I' "$from" >"$to/$(basename "$from")"
  done
}

private_apt() {
  apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/etc/sources.list.d" \
    -o Dir::State="$work/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$work/cache" \
    -o Acquire::Languages=none -o APT::Get::List-Cleanup=0 "$@"
}

fetch() {
  command -v apt-get >/dev/null || fail "apt-get was not found, so there is no source package to take."
  command -v dpkg-source >/dev/null || fail "dpkg-source was not found; install dpkg-dev."
  private_sources
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/fetched"
  # A third-party source without source packages makes this fail while the distribution's own are there; what counts is the next step.
  private_apt update >"$work/log" 2>&1 || true
  (cd "$work/fetched" && private_apt source --only-source jemalloc) >>"$work/log" 2>&1 || {
    tail -20 "$work/log" >&2
    fail "its source package could not be fetched."
  }
  source=$(find "$work/fetched" -mindepth 1 -maxdepth 1 -type d | head -1)
}

build() {
  cp -r "$source" "$work/jemalloc"
  cd "$work/jemalloc"
  chmod -R u+w .
  [[ -x configure ]] || {
    command -v autoconf >/dev/null || fail "this source has no configure script; install autoconf."
    autoconf
  }
  CC=$compiler CFLAGS="-O2 -g -fPIC -fvisibility=hidden -ffile-prefix-map=$work=." \
    ./configure --prefix="$prefix.new" \
    --with-jemalloc-prefix=thermocline_je_ --with-private-namespace=thermocline_je_ --without-export \
    --disable-initial-exec-tls --disable-cxx --disable-libdl --disable-shared --enable-static \
    --disable-doc --disable-prof --disable-fill --disable-cache-oblivious >"$work/log" 2>&1 || { tail -20 "$work/log" >&2 && fail "configure failed."; }
  make -j"$(nproc)" build_lib_static >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2 && fail "the build failed."; }
  rm -rf "$prefix.new" "$prefix"
  make install_lib_static install_include >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2 && fail "the installation failed."; }
  cp COPYING "$prefix.new/"
}

# A wrong library is worse than none: look at what came out.
verify() {
  local archive=$prefix.new/lib/libjemalloc_pic.a symbols
  [[ -f $archive ]] || fail "libjemalloc_pic.a was not built."
  symbols=$(nm --defined-only --extern-only "$archive" 2>/dev/null | awk 'NF == 3 && $3 !~ /^thermocline_je_/ {print $3}')
  [[ -z $symbols ]] || fail "symbols without the private prefix: $symbols"
  if readelf -sW "$archive" 2>/dev/null | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND"' | grep -q .; then
    fail "symbols that a shared library would export."
  fi
  if readelf -rW "$archive" 2>/dev/null | grep -qE 'GOTTPOFF|TPOFF(32|64)'; then
    fail "thread-local storage is initial-exec."
  fi
}

[[ -n $source ]] || fetch
build
verify
mv "$prefix.new" "$prefix"
touch "$prefix/complete"
