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
    lib*san.so.*) ;; # a sanitizer's runtime, in a build that asked for it
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

# The patterns before `local:`, as one regular expression.
global=$(sed -E 's,/\*.*\*/,,g; s,#.*,,' "$version_script" | tr '\n' ' ' | sed -E 's/local:[^}]*//g; s/extern "[^"]*"//g' |
  grep -oE '[A-Za-z_][A-Za-z0-9_]*[*?]*|\*;|cu\[[^;]*' | grep -vE '^(global|local)$' | sort -u)
pattern=$(sed -E 's/[*]/.*/g; s/[?]/./g' <<<"$global" | paste -sd '|')
while read -r name; do
  [[ ${name%%@*} =~ ^($pattern)$ ]] || complain "exports $name, which is not in $version_script"
done < <(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}')

for forbidden in malloc free calloc realloc mallocx dallocx _Znwm _ZdlPv pthread_create; do
  if nm -D --defined-only "$library" | awk '{print $3}' | grep -qE "^(.*_)?${forbidden}(@.*)?$"; then
    complain "exports $forbidden: the host's own must stay untouched"
  fi
done
[[ $status -eq 0 ]] && echo "$library: name, needs, exports and thread-local storage are as they must be" >&2
exit "$status"
