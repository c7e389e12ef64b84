// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "simulator/ptx/interface.h"

namespace simulator::cuda {

// How a kernel samples the texture or surface object with this handle; false: there is none.
bool describe_texture(std::uint64_t handle, ptx::Texture* out);

}  // namespace simulator::cuda
