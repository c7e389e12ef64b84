#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_library.sh LIBRARY VERSION_SCRIPT: what must hold of libthermocline.so.1 as a file.
# - Its name is libthermocline.so.1.
# - It needs nothing of CUDA: it must load where no driver is, and meet the driver at run time.
# - It exports what its version script names and nothing else: above all no malloc, no C++ of ours.
# - It can be loaded with dlopen at any time: no initial-exec thread-local storage.
set -euo pipefail
library=$1
version_script=$2
status=0

complain() {
  echo "$library: $*" >&2
  status=1
}

dynamic=$(readelf -dW "$library")

grep -q 'SONAME.*\[libthermocline\.so\.1\]' <<<"$dynamic" || complain "its SONAME is not libthermocline.so.1"

needed=$(sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' <<<"$dynamic")
while read -r name; do
  case $name in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libstdc++.so.* | libgcc_s.so.* | ld-linux*) ;;
    libz.so.* | libzstd.so.*) ;;
    '' | lib*san.so.*) ;; # a sanitizer's runtime, in a build that asked for it
    *) complain "needs $name" ;;
  esac
done <<<"$needed"

if grep -q STATIC_TLS <<<"$dynamic"; then
  complain "has the STATIC_TLS flag"
fi
# The flag is advisory; the relocations are what counts.
if readelf -rW "$library" | grep -qE 'R_[A-Z0-9_]*_TPOFF'; then
  complain "has initial-exec thread-local storage"
fi

# The names between `global:` and `local:`, split at the semicolons. Their wildcards mean the same to bash.
mapfile -t patterns < <(sed -zE 's,/\*([^*]|\*[^/])*\*/,,g; s/.*global:(.*)local:.*/\1/' "$version_script" |
  tr -d '[:space:]\0' | tr ';' '\n' | grep .)
[[ ${#patterns[@]} -gt 0 ]] || complain "$version_script names nothing to export"

is_named() {
  local pattern
  for pattern in "${patterns[@]}"; do
    # shellcheck disable=SC2053  # a pattern, meant as one
    [[ $1 != $pattern ]] || return 0
  done
  return 1
}

while read -r name; do
  is_named "$name" || complain "exports $name, which is not in $version_script"
done < <(nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}')

# These must never be exported, even if the version script has a pattern for them.
if nm -D --defined-only "$library" | awk '{sub(/@.*/, "", $3); print $3}' |
  grep -E '^(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|memalign|_Zn[wa].*|_Zd[la].*|pthread_create|.*mallocx|.*dallocx)$' >&2; then
  complain "exports the names above: the host's own must stay untouched"
fi
[[ $status -eq 0 ]] && echo "$library: name, needs, exports and thread-local storage are as they must be" >&2
exit "$status"
