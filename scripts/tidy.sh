#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy.sh BUILD_FOLDER: clang-tidy over every C++ source that is compiled there, tests too. What was clean before is skipped (see
# tidy_one.sh), so only the first time takes minutes. CUDA sources are left out: clang-tidy knows no CUDA 13.
set -euo pipefail
build=$1
cache=${THERMOCLINE_BUILD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thermocline}/tidy
mkdir -p "$cache" "$build/tidy"
# gcc's precompiled header means nothing to clang; every test includes what it needs.
sed -E 's/-Winvalid-pch -include [^ ]+cmake_pch\.hxx//' "$build/compile_commands.json" >"$build/tidy/compile_commands.json"
git ls-files -z -- '*.cc' | xargs -0r -n 1 -P "${JOBS:-$(nproc)}" scripts/tidy_one.sh "$build/tidy" "$cache"
