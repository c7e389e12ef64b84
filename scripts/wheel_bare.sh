#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel_bare.sh [SUITE...]: tries the wheel that wheel.sh built on bare systems of Debian (bullseye: glibc 2.31, bookworm: 2.36, trixie: 2.41; all
# of them without SUITE): pip installs it, the command says what it is, a trace is replayed, and a program runs on the simulated device
# in half of its memory. Needs root and debootstrap. The systems stay in build/bare. PROGRAM is the one of docs/first-hour.md.
set -euo pipefail
suites=("$@")
[[ ${#suites[@]} -gt 0 ]] || suites=(bullseye bookworm trixie)
wheel=(build/wheels/*.whl)
nvcc=${NVCC:-$(command -v nvcc || echo build/cuda/nvidia/cu13/bin/nvcc)}
stubs=(build/wheel/glibc-*)
here=$PWD/build/bare
digest=1f7c43328ab22325 # docs/first-hour.md

die() {
  echo "wheel_bare: $*" >&2
  exit 1
}

[[ -f ${wheel[0]} ]] || die "no wheel in build/wheels: ./dev wheel builds it"
command -v debootstrap >/dev/null || die "debootstrap is not installed"
[[ $(id -u) -eq 0 ]] || die "bare systems are made by root"
mkdir -p "$here"

# For systems as old as the wheel is for, linked as the wheel's own command is.
# shellcheck disable=SC2016  # backquotes of Markdown
sed -n '/^```cpp step.cu$/,/^```$/p' docs/first-hour.md | sed '1d;$d' >"$here/step.cu"
"$nvcc" -cudart shared -o "$here/step" "$here/step.cu" -L"${stubs[0]}" -Xlinker --wrap=__libc_start_main,--allow-shlib-undefined "${stubs[0]}/start.o" \
  "${stubs[0]}/newer_glibc.o" -Xcompiler -static-libstdc++,-static-libgcc -lpthread -ldl

# Runs what is on standard input in the system of folder $1, with a /proc of its own.
inside() {
  # shellcheck disable=SC2016  # for the inner shell
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$1/proc" && exec chroot "$1" bash -euo pipefail -s' bash "$1"
}

for suite in "${suites[@]}"; do
  root=$here/$suite
  if [[ ! -f $root/made ]]; then
    echo "== a bare $suite" >&2
    debootstrap --variant=minbase --include=python3,python3-pip "$suite" "$root" >"$here/$suite.log" || die "debootstrap failed; $here/$suite.log"
    : >"$root/made"
  fi
  rm -rf "$root/trial"
  mkdir "$root/trial"
  cp "${wheel[0]}" bench/traces/resnet50_b64.jsonl.gz "$here/step" "$root/trial/"
  echo "== $suite" >&2
  inside "$root" <<EOT
    cd /trial
    ldd --version | sed -n 1p
    # Debian marks its Python as its own from 12 on; Debian 11's is a version older than the package asks for.
    options=\$(pip install --help | grep -o -e --break-system-packages || true)
    pip install -q --no-index --no-deps --ignore-requires-python --force-reinstall --root-user-action=ignore \$options *.whl 2>/dev/null ||
      pip install -q --no-index --no-deps --ignore-requires-python --force-reinstall \$options *.whl
    thermocline --version
    thermocline devices | sed -n 2p
    thermocline doctor || [[ \$? -eq 4 ]]
    thermocline replay resnet50_b64.jsonl.gz --device h200 --budget 60%peak --steps 6 >replayed
    sed -n '1,4p' replayed
    thermocline run --simulate h200 --budget 68MiB --stats -- ./step | tee said
    grep -qx 'digest $digest' said
    python3 -c 'import thermocline; assert not thermocline.is_loaded()'
EOT
done
echo "the wheel works on: ${suites[*]}" >&2
