// SPDX-License-Identifier: Apache-2.0
// The host function that a program provides for one of its kernels.
#pragma once

#include <string>

#include "simulator/core/streams/operation.h"

namespace simulator::cuda {

// Looks for a function exported by the program or one of its libraries: simulated_<mangled name>, or, for a kernel that
// is a plain function, simulated_<name>; the first has priority. nullptr: there is none.
KernelFunction find_host_implementation(const std::string& kernel);

// The function's name, if it is outside any namespace or class and no template; else empty.
std::string plain_name(const std::string& mangled);

}  // namespace simulator::cuda
