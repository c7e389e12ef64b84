# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Gets what ./dev needs: packages of the distribution with apt, and, only where there is no CUDA toolkit, a private copy of NVIDIA's headers
# and compiler in build/cuda. Sourced by ./dev.

# shellcheck disable=SC2034  # used by ./dev
{
  build_packages=(g++ cmake ninja-build make pkg-config dpkg-dev libboost-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
    zlib1g-dev libzstd-dev liburing-dev libxxhash-dev coinor-libclp-dev libgtest-dev ccache llvm-14-dev)
  test_packages=(lld jq binutils libbenchmark-dev valgrind openmpi-bin libopenmpi-dev libjemalloc2 libtcmalloc-minimal4)
  check_packages=(clang-format shellcheck git python3-venv)
}

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Runs a command as root, or says what to type.
as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    return 77
  fi
}

need_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    echo "dev: no dpkg here; going on in the hope that these are installed: $*" >&2
    return
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  echo "== installing ${missing[*]}" >&2
  mkdir -p build
  local status=0 apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  as_root "${apt[@]}" update >build/install.log 2>&1 || status=$?
  [[ $status -eq 77 ]] || {
    status=0
    as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>build/install.log 2>&1 || status=$?
  }
  case $status in
    0) ;;
    77) die "packages are missing and this user may not install them. As root: apt-get install ${missing[*]}" ;;
    *)
      tail -20 build/install.log >&2
      die "apt could not install: ${missing[*]} (all of its output: build/install.log)"
      ;;
  esac
}

# The oldest CUDA that the sources are written for, and the one fetched where there is none.
cuda_release=13.0

is_new_enough() { [[ $(printf '%s\n%s\n' "$cuda_release" "$1" | sort -V | head -1) == "$cuda_release" ]]; }

has_cuda() {
  local nvcc release
  for nvcc in "$(command -v nvcc || true)" "${CUDAToolkit_ROOT:+$CUDAToolkit_ROOT/bin/nvcc}" /usr/local/cuda/bin/nvcc \
    build/cuda/nvidia/cu13/bin/nvcc; do
    [[ -n $nvcc && -x $nvcc ]] || continue
    release=$("$nvcc" --version | sed -nE 's/.*release ([0-9.]+).*/\1/p')
    if is_new_enough "$release"; then
      return 0
    fi
  done
  return 1
}

# NVIDIA publishes its toolkit as Python wheels, too. Those below are 105 MB to fetch and 270 MB unpacked, where the toolkit has gigabytes; they need
# no root.
need_cuda() {
  has_cuda && return
  echo "== fetching the CUDA $cuda_release headers and compiler into build/cuda (no GPU or driver is needed)" >&2
  python3 -m pip --version >/dev/null 2>&1 || need_packages python3-pip
  local part wheels=()
  for part in cuda-runtime cuda-nvcc cuda-crt cuda-cccl nvvm nvtx; do
    wheels+=("nvidia-$part==$cuda_release.*")
  done
  mkdir -p build
  rm -rf build/cuda.new
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --target build/cuda.new "${wheels[@]}" \
    >build/install.log 2>&1 || {
    tail -20 build/install.log >&2
    die "the CUDA toolkit could not be fetched; install CUDA $cuda_release or newer and set CUDAToolkit_ROOT."
  }
  # The wheels lay things out for Python; nvcc and CMake look for these two names.
  ln -s lib build/cuda.new/nvidia/cu13/lib64
  ln -s libcudart.so.13 build/cuda.new/nvidia/cu13/lib/libcudart.so
  rm -rf build/cuda
  mv build/cuda.new build/cuda
  has_cuda || die "build/cuda was fetched but its nvcc does not run."
}

# The linter of one version wherever it runs, and a newer one than distributions have: it leaves system headers alone, which makes it four times
# faster. Prints the path of its executable.
lint_version=22.1.8

need_clang_tidy() {
  local folder=${THERMOCLINE_BUILD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thermocline}/clang-tidy-$lint_version
  if [[ ! -x $folder/bin/clang-tidy ]]; then
    echo "== fetching clang-tidy $lint_version into $folder" >&2
    mkdir -p build "$folder"
    { python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "clang-tidy==$lint_version"; } \
      >build/install.log 2>&1 || {
      tail -20 build/install.log >&2
      rm -rf "$folder"
      die "clang-tidy $lint_version could not be fetched."
    }
  fi
  printf '%s\n' "$folder/bin/clang-tidy"
}
