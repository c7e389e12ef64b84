#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run (scripts/gpu.py): gpu.sh BUILD_FOLDER [FLAGS]. Called by ./dev gpu, and runs on its own where what
# `gpu.sh BUILD_FOLDER --pack FILE.tar.gz` packs was carried: there only Python is needed, with PyTorch for the part that is about it.
# PYTHON: which Python. Status: 0 done, 1 something is not right, 4 no usable GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?the build folder}
shift

if [[ ${1:-} == --pack ]]; then
  git rev-parse HEAD >"$build/commit" 2>/dev/null || echo unknown >"$build/commit"
  # Libraries that the other machine may lack; not those that come with its C and C++, which its own programs need.
  mkdir -p "$build/carried"
  for program in bin/thermocline bench/gpu_probe bench/gpu_digests tests/conformance/conformance bin/examples/digits_static; do
    [[ ! -x $build/$program ]] || ldd "$build/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
  done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda|libcudart)\.so' |
    while read -r library; do cp -L "$library" "$build/carried/"; done
  tar -czf "${2:?the file to write}" --exclude=__pycache__ --transform 's,^,thermocline-gpu/,' "$build/commit" "$build/carried" "$build/bin" \
    "$build"/lib/libthermocline.so* "$build/lib/libmanaged_allocator.so" "$build/lib/thermocline" \
    "$build/bench/gpu_probe" "$build/bench/gpu_digests" "$build/tests/conformance/conformance" "$build/tests/programs/api_paths" scripts/gpu.sh scripts/gpu.py scripts/gpu_sections.py scripts/gpu_report.py \
    bench/gpu bench/traces/unet3d_b1_128.jsonl.gz integrations/pytorch/src examples/digits/digits.csv.gz
  echo "gpu: wrote $2; on the other machine: tar -xzf it, then thermocline-gpu/scripts/gpu.sh $build" >&2
  exit 0
fi
exec "${PYTHON:-python3}" -B scripts/gpu.py "$build" "$@"
