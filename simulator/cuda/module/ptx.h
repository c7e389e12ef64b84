// SPDX-License-Identifier: Apache-2.0
// Kernels that run their PTX: the driver's use of libthermocline_ptx.so (simulator/ptx), which it loads from its own
// folder when the first such kernel is launched.
#pragma once

#include <string>

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// Limits for running the code of kernels.
struct CodeLimits {
  std::uint64_t most_steps = 0;  // of a thread in one loop
  unsigned cores = 1;            // of the host, that may run blocks
};

// The value of a pointer to this function in memory; 0 if the PTX has no function of that name.
Address function_pointer(const Image& image, const std::string& name);

// Gives the function its code. CUDA_ERROR_NO_BINARY_FOR_GPU, and one line on stderr, if it has none that can be run.
// `most_steps`: of a thread in one loop, before the loop is considered endless.
CUresult find_code(CUfunc_st& function, const CodeLimits& limits);

}  // namespace simulator::cuda
