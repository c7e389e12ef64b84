// SPDX-License-Identifier: Apache-2.0
// The host function that a program gives for one of its kernels.
#pragma once

#include <string>

#include "simulator/core/streams/operation.h"

namespace simulator::cuda {

// Exported by the program or one of its libraries as simulated_<mangled name>, or as simulated_<name> where the kernel
// is a plain function of that name; the first wins. nullptr: there is none.
KernelFunction find_host_implementation(const std::string& kernel);

// The function's name where `mangled` is one outside any namespace or class and no template; else empty.
std::string plain_name(const std::string& mangled);

}  // namespace simulator::cuda
