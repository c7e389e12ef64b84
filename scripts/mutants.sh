#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mutants.sh [FIRST [LAST]]: plants the defects of tests/mutants/*.txt, one at a time, in a copy of the tree in
# build/mutants, and says which test or random program finds each. The first record, number 0, is the canary.
# mutants.sh --tests: only those that name a test. Seconds each; a survivor is a failure there.
# mutants.sh --check: only whether every old text is in the tree, and once. Called by ./dev mutants and by ctest.
# Status 1: the canary survived, a text is not there once, or a mutant does not build. Survivors are a result, not a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source_folder=$PWD
lists=(tests/mutants/offload.txt tests/mutants/recompute.txt tests/mutants/allocator.txt tests/mutants/hooks.txt tests/mutants/others.txt)
seeds=${MUTANT_SEEDS:-1000}
jobs=${JOBS:-$(nproc)}
names=() files=() olds=() news=() killers=() proofs=()

read_list() {
  local line n=-1
  while IFS= read -r line || [[ -n $line ]]; do
    case $line in
      '= '*)
        n=$((n + 1))
        names[n]=${line#= } files[n]='' olds[n]='' news[n]='' killers[n]='' proofs[n]=''
        ;;
      '@ '*) files[n]=${line#@ } ;;
      '! '*) killers[n]=${line#! } ;;
      '~ '*) proofs[n]+=${line#\~ }' ' ;;
      -*) olds[n]+=${line#-}$'\n' ;;
      +*) news[n]+=${line#+}$'\n' ;;
    esac
  done < <(cat "${lists[@]}")
  # Behind the last line of a text there is no newline.
  for n in "${!names[@]}"; do
    olds[n]=${olds[n]%$'\n'}
    news[n]=${news[n]%$'\n'}
  done
}

# The file with its newlines at the end, which $(...) would cut off.
slurp() {
  local whole
  whole=$(cat "$1" && printf x)
  printf -v "$2" '%s' "${whole%x}"
}

occurrences() {
  local text=$1 old=$2 rest
  rest=${text//"$old"/}
  echo $(((${#text} - ${#rest}) / ${#old}))
}

check_list() {
  local n text count bad=0
  for n in "${!names[@]}"; do
    count=0
    if [[ -f ${files[n]} ]]; then
      slurp "${files[n]}" text
      count=$(occurrences "$text" "${olds[n]}")
    fi
    [[ $count -eq 1 ]] && continue
    echo "mutants: '${names[n]}': its old text is $count times in '${files[n]}', not once" >&2
    bad=1
  done
  echo "mutants: ${#names[@]} texts looked for" >&2
  [[ ${#names[@]} -gt 40 && $bad -eq 0 ]]
}

copy_tree() {
  local file
  mkdir -p build/mutants/tree
  git ls-files -z -co --exclude-standard | tar --null -T - -cf - | tar -C build/mutants/tree -xf -
  # tar has restored the old time of sources that had a defect, so their objects, built with the defect, look newer: give them a new time.
  if [[ -f build/mutants/planted ]]; then
    while IFS= read -r file; do
      [[ ! -f $file ]] || cp "$file" "build/mutants/tree/$file"
    done < <(sort -u build/mutants/planted)
  fi
  export CCACHE_BASEDIR=$PWD/build/mutants/tree CCACHE_NOHASHDIR=1
  cmake -S build/mutants/tree -B build/mutants/tree/build/release --preset release >build/mutants/configure.log 2>&1
  [[ -n $only_tests ]] || build_tests fuzz_engine
}

build_tests() {
  cmake --build build/mutants/tree/build/release -j "$jobs" --target "$@" >build/mutants/build.log 2>&1
}

# A program of tests/, and a filter, as a record names them.
passes() {
  local program filter
  read -r program filter <<<"$1"
  timeout 300 "build/mutants/tree/build/release/tests/$program" --gtest_filter="$filter" >/dev/null 2>&1
}

# Prints what the test that a record names says of the planted defect, or nothing.
judge_by_test() {
  [[ -n $1 ]] || return 0
  if ! build_tests "${1%% *}"; then
    echo 'does not build |'
  elif ! passes "$1"; then
    echo "killed | $1"
  fi
}

is_asked_for() { [[ $1 -ge $first && $1 -le $last ]]; }

# A test that fails with nothing planted finds nothing.
check_killers() {
  local n killer
  local -A seen=()
  for n in "${!names[@]}"; do
    killer=${killers[n]}
    [[ -n $killer && -z ${seen[$killer]:-} ]] || continue
    is_asked_for "$n" || continue
    seen[$killer]=yes
    build_tests "${killer%% *}" && passes "$killer" && continue
    echo "mutants: '$killer' does not pass with nothing planted" >&2
    exit 1
  done
}

# Prints who found it, or "survived".
hunt() {
  local tests=build/mutants/tree/build/release/tests found
  for faults in '' --faults; do
    # shellcheck disable=SC2086
    if ! found=$("$tests/programs/fuzz_engine" --seeds "$seeds" --steps 2000 --shrink 0 --workers "$jobs" $faults 2>&1); then
      found=$(grep -m1 '^fuzz_engine: seed' <<<"$found" || echo 'fuzz_engine: it crashed')
      echo "killed | ${found#fuzz_engine: }${faults:+ (calls fail)}"
      return
    fi
  done
  if build_tests heap_model_test && THERMOCLINE_TEST_SEEDS=$((seeds / 20)) "$tests/heap_model_test" >/dev/null 2>&1; then
    echo 'survived |'
  else
    echo 'killed | the model of the heap'
  fi
}

try_one() {
  local n=$1 text planted result
  [[ -z ${proofs[n]} ]] || {
    printf '| %d | %s | %s | equivalent | %s|\n' "$n" "${names[n]}" "${files[n]}" "${proofs[n]}"
    return
  }
  slurp "$source_folder/${files[n]}" text
  planted=${text/"${olds[n]}"/"${news[n]}"}
  echo "${files[n]}" >>build/mutants/planted
  printf '%s' "$planted" >"build/mutants/tree/${files[n]}"
  result=$(judge_by_test "${killers[n]}")
  if [[ -n $result ]]; then
    :
  elif [[ -n $only_tests ]]; then
    result='survived |'
  elif build_tests fuzz_engine; then
    result=$(hunt)
  else
    result='does not build |'
  fi
  [[ $result != 'does not build'* && ($result != survived* || -z $only_tests) ]] || broken=1
  printf '%s' "$text" >"build/mutants/tree/${files[n]}"
  printf '| %d | %s | %s | %s |\n' "$n" "${names[n]}" "${files[n]}" "$result"
  [[ $n -gt 0 || $result == killed* ]] || {
    echo 'mutants: the canary survived: nothing that this run says counts' >&2
    exit 1
  }
}

read_list
check_list || exit 1
[[ ${1:-} != --check ]] || exit 0
only_tests=''
[[ ${1:-} != --tests ]] || {
  only_tests=yes
  shift
}
first=${1:-0} last=${2:-${#names[@]}}
copy_tree
check_killers
broken=0
for n in "${!names[@]}"; do
  [[ -z $only_tests || -n ${killers[n]} ]] && is_asked_for "$n" && try_one "$n"
done
exit "$broken"
