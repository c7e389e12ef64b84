// SPDX-License-Identifier: Apache-2.0
// Facts about a function that launches and occupancy need.
#pragma once

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// With the defaults of the device where the image or the program said nothing.
int function_attribute(const Profile& profile, const CUfunc_st& function, CUfunction_attribute attribute);

}  // namespace simulator::cuda
