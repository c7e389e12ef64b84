// SPDX-License-Identifier: Apache-2.0
// Properties of a function that launches and occupancy need.
#pragma once

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// The device's default if neither the image nor the program has set the attribute.
int function_attribute(const Profile& profile, const CUfunc_st& function, CUfunction_attribute attribute);

}  // namespace simulator::cuda
