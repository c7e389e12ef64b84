// SPDX-License-Identifier: Apache-2.0
// One launch, for the launch functions and for nvcc's stubs alike.
#pragma once

#include "simulator/cudart/driver.h"

namespace simulator::cudart {

struct Shape {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};

// If no device can run the shape, the driver returns "invalid value", and the runtime "invalid configuration".
cudaError_t launch_kernel(const Driver& table, CUkernel kernel, const Shape& shape, void** arguments);
bool is_valid(const Driver& table, const Shape& shape);

}  // namespace simulator::cudart
