// SPDX-License-Identifier: Apache-2.0
// Kernels that are given pointer tables, or write them: their image, what their host implementations need to know, and
// how many addresses the tables hold.
#pragma once

#include <cuda.h>

namespace program {

constexpr int kTargets = 3;

extern const char kTableKernels[];

// Addresses of the image's global variables.
extern CUdeviceptr root, own_map;

}  // namespace program
