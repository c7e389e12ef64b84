#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare.sh wheel|package [SUITE...]: tries what wheel.sh or `./dev package` built on bare systems of Debian. The wheel: bullseye (glibc 2.31),
# bookworm (2.36) and trixie (2.41), unless a SUITE is named; the packages: bookworm. pip or apt installs it, the command says what it is, a
# trace is replayed, and the program of docs/first-hour.md, which nvcc builds here, runs on the simulated device in half of its memory, then
# with a part of that on a disk (host_spill). Needs root and debootstrap. The systems stay in build/bare.
set -euo pipefail
kind=${1:-}
shift || true
suites=("$@")
nvcc=${NVCC:-$(command -v nvcc || echo build/cuda/nvidia/cu13/bin/nvcc)}
here=$PWD/build/bare
digest=1f7c43328ab22325 # docs/first-hour.md

die() {
  echo "bare: $*" >&2
  exit 1
}

case $kind in
  wheel)
    files=(build/wheels/*.whl)
    [[ ${#suites[@]} -gt 0 ]] || suites=(bullseye bookworm trixie)
    # For systems as old as the wheel is for, linked as the wheel's own command is.
    stubs=(build/wheel/glibc-*)
    link=(-L"${stubs[0]}" -Xlinker "--wrap=__libc_start_main,--allow-shlib-undefined" "${stubs[0]}/start.o" "${stubs[0]}/newer_glibc.o"
      -Xcompiler "-static-libstdc++,-static-libgcc" -lpthread -ldl)
    ;;
  package)
    files=(build/package/*.deb)
    [[ ${#suites[@]} -gt 0 ]] || suites=(bookworm)
    link=()
    ;;
  *) die "bare.sh wheel|package [SUITE...]" ;;
esac
[[ -f ${files[0]} ]] || die "there is no ${files[0]}: ./dev $kind builds it"
command -v debootstrap >/dev/null || die "debootstrap is not installed"
[[ $(id -u) -eq 0 ]] || die "bare systems are made by root"
mkdir -p "$here"
# shellcheck disable=SC2016  # backquotes of Markdown
sed -n '/^```cpp step.cu$/,/^```$/p' docs/first-hour.md | sed '1d;$d' >"$here/step.cu"
"$nvcc" -cudart shared -o "$here/step" "$here/step.cu" "${link[@]}"

# Runs what is on standard input in the system of folder $1, with a /proc of its own.
inside() {
  # shellcheck disable=SC2016  # for the inner shell
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$1/proc" && exec chroot "$1" bash -euo pipefail -s' bash "$1"
}

# Debian marks its Python as its own from 12 on; Debian 11's is a version older than the package asks for.
install_wheel() {
  cat <<'EOT'
    options=$(pip install --help | grep -o -e --break-system-packages || true)
    pip install -q --no-index --no-deps --ignore-requires-python --force-reinstall --root-user-action=ignore $options *.whl 2>/dev/null ||
      pip install -q --no-index --no-deps --ignore-requires-python --force-reinstall $options *.whl
    python3 -c 'import thermocline; assert not thermocline.is_loaded()'
EOT
}

install_package() {
  cat <<'EOT'
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends --reinstall ./*.deb >/dev/null
    test -s /usr/share/man/man1/thermocline.1.gz -o -s /usr/share/man/man1/thermocline.1
    thermocline run --simulate reference --budget 22MiB --stats -- /usr/lib/thermocline/examples/digits --epochs 1
EOT
}

try_it() {
  cat <<EOT
    thermocline --version
    thermocline devices | sed -n 2p
    thermocline doctor || [[ \$? -eq 4 ]]
    thermocline replay resnet50_b64.jsonl.gz --device h200 --budget 60%peak --steps 6 >replayed
    sed -n '1,4p' replayed
    thermocline run --simulate h200 --budget 68MiB --stats -- ./step | tee said
    grep -qx 'digest $digest' said
    mkdir -p disk
    export THERMOCLINE_HOST_SPILL=/trial/disk THERMOCLINE_HOST_LIMIT=100MiB
    thermocline run --simulate h200 --budget 68MiB --stats -- ./step >said 2>notes
    cat notes && grep -qx 'digest $digest' said && grep -q 'on the disk .* written' notes
EOT
}

for suite in "${suites[@]}"; do
  root=$here/$kind-$suite
  if [[ ! -f $root/made ]]; then
    echo "== a bare $suite" >&2
    include=()
    [[ $kind == package ]] || include=("--include=python3,python3-pip")
    debootstrap --variant=minbase "${include[@]}" "$suite" "$root" >"$here/$suite.log" || die "debootstrap failed; $here/$suite.log"
    : >"$root/made"
  fi
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  rm -rf "$root/trial"
  mkdir "$root/trial"
  cp "${files[@]}" bench/traces/resnet50_b64.jsonl.gz "$here/step" "$root/trial/"
  echo "== $suite" >&2
  { echo "cd /trial" && "install_$kind" && echo "ldd --version | sed -n 1p" && try_it; } | inside "$root"
done
echo "the $kind works on: ${suites[*]}" >&2
