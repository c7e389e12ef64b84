#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# single_faults.sh BUILD_FOLDER PROGRAM [ARGS]: runs a program under the library on the simulated device, once for each of
# the first calls of each driver function that the library makes, which then fails alone. Prints one line a function.
# recovered: the same output and exit status as without. error: the program said so and ended. abort: it was killed, which is
# a finding, as is a hang (a minute). Status 1 for findings.
set -uo pipefail
build=${1:?the build folder}
shift
budget=${BUDGET:-24MiB}
points=${POINTS:-4}
findings=0

run_once() {
  timeout 60 "$build/bin/thermocline" run --simulate reference --budget "$budget" ${1:+--faults "$1"} -- "${@:2}" 2>/dev/null
}

sound=$(run_once '' "$@") || {
  echo 'single_faults: it fails without a fault, too' >&2
  exit 1
}
for one in cuMemAddressReserve:OUT_OF_MEMORY cuMemCreate:OUT_OF_MEMORY cuMemMap:INVALID_VALUE cuMemSetAccess:INVALID_VALUE \
  cuMemUnmap:INVALID_VALUE cuMemRelease:INVALID_VALUE cuStreamCreate:OUT_OF_MEMORY cuEventCreate:OUT_OF_MEMORY \
  cuEventRecord:INVALID_VALUE cuStreamWaitEvent:INVALID_VALUE cuEventQuery:INVALID_VALUE \
  cuEventSynchronize:INVALID_VALUE cuMemHostAlloc:OUT_OF_MEMORY cuMemFreeHost:INVALID_VALUE \
  cuMemcpyDtoHAsync:INVALID_VALUE cuMemcpyHtoDAsync:INVALID_VALUE; do
  function=${one%:*} recovered=0 error=0 abort=0
  for ((n = 1; n <= points; ++n)); do
    output=$(run_once "fail $function call $n ${one#*:}" "$@")
    status=$?
    if [[ $status -ge 124 ]]; then
      abort=$((abort + 1))
      echo "single_faults: status $status: fail $function call $n ${one#*:}" >&2
    elif [[ $status -ne 0 ]]; then
      error=$((error + 1))
    elif [[ $output == "$sound" ]]; then
      recovered=$((recovered + 1))
    else
      abort=$((abort + 1))
      echo "single_faults: another output: fail $function call $n ${one#*:}" >&2
    fi
  done
  findings=$((findings + abort))
  printf '%-20s %s recovered, %s errors, %s findings\n' "$function" "$recovered" "$error" "$abort"
done
[[ $findings -eq 0 ]]
