// SPDX-License-Identifier: Apache-2.0
// Kernels that run their PTX: what the driver does with libthermocline_ptx.so (simulator/ptx), which it looks for
// beside itself when the first such kernel is launched.
#pragma once

#include <string>

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// What a pointer to this function holds in memory; 0 where the PTX has none of that name.
Address function_pointer(const Image& image, const std::string& name);

// Gives the function its code. CUDA_ERROR_NO_BINARY_FOR_GPU, and one line on stderr, where it has none that can be run.
// `most_steps`: of a thread in one loop, before it is taken for one that never ends.
CUresult find_code(CUfunc_st& function, std::uint64_t most_steps);

// Says that a launch in clusters can not be run.
CUresult refuse_cluster(const CUfunc_st& function);

}  // namespace simulator::cuda
