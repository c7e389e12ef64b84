// SPDX-License-Identifier: Apache-2.0
// NVIDIA's CUDA runtime as Python's packages bring it: they open it by a path of their own, past LD_LIBRARY_PATH, so on
// the simulated device its place is taken by preloading the simulated one. (nvidia-cuda-runtime:
// site-packages/nvidia/cu13/lib/libcudart.so.13; nvidia-cuda-runtime-cu12:
// site-packages/nvidia/cuda_runtime/lib/libcudart.so.12.)
#pragma once

#include <optional>
#include <string>

namespace thermocline {

struct PythonRuntime {
  std::string path;
  bool is_replaceable;  // the simulated runtime is of the same number
};

// What `program`, a Python or a script beside one (torchrun), finds among its packages, those of its user and of PYTHONPATH
// included; nothing for other programs.
std::optional<PythonRuntime> find_python_runtime(const std::string& program);

}  // namespace thermocline
