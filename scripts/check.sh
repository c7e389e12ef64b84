#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh BUILD_FOLDER LINT_FOLDER: everything that can be checked without running the product. LINT_FOLDER: configured, each source alone.
# Called by ./dev check.
# Every check runs, whatever the others say; the status is 1 if one of them complained.
set -uo pipefail
build=${1:?the build folder} lint=${2:?the folder that is configured for the linter}
failed=()

check() {
  local name=$1
  shift
  printf '\n== %s\n' "$name" >&2
  "$@" || failed+=("$name")
}

shell_scripts() { git ls-files -z -- dev .ci/run '*.sh' | xargs -0r shellcheck -x; }

check "format" scripts/format.sh --check
check "shell scripts" shell_scripts
check "words" scripts/words.sh
check "layers and file lengths" ctest --test-dir "$build" -R '^layer_' --output-on-failure --no-tests=error
check "the library as a file" scripts/check_library.sh "$build/lib/libthermocline.so.1" hooks/interpose/exports.map
check "lint" scripts/lint.py "${CLANG_TIDY:-clang-tidy}" "$lint"

[[ ${#failed[@]} -eq 0 ]] || {
  printf '\ncheck: complaints from: %s\n' "$(printf '%s; ' "${failed[@]}")" >&2
  exit 1
}
printf '\n== nothing to complain about\n' >&2
