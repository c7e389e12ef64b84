// SPDX-License-Identifier: Apache-2.0
// Kernels that are given tables, or write them: their image, what their host implementations need to know, and how many
// addresses the tables hold.
#pragma once

#include <cuda.h>

namespace program {

constexpr int kTargets = 3;

extern const char kTableKernels[];

// Where the image's globals are.
extern CUdeviceptr root, own_map;

}  // namespace program
