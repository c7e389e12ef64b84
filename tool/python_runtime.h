// SPDX-License-Identifier: Apache-2.0
// NVIDIA's CUDA runtime in Python packages: these open it by a path of their own, bypassing LD_LIBRARY_PATH. So on the
// simulated device it is replaced by preloading the simulated runtime. (nvidia-cuda-runtime:
// site-packages/nvidia/cu13/lib/libcudart.so.13; nvidia-cuda-runtime-cu12:
// site-packages/nvidia/cuda_runtime/lib/libcudart.so.12.)
#pragma once

#include <optional>
#include <string>

namespace thermocline {

struct PythonRuntime {
  std::string path;
  bool is_replaceable;  // the simulated runtime has the same version number
};

// The runtime that `program`, a Python or a script beside one (torchrun), finds among its packages, including those of
// its user and of PYTHONPATH; nothing for other programs.
std::optional<PythonRuntime> find_python_runtime(const std::string& program);

}  // namespace thermocline
