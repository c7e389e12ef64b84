// SPDX-License-Identifier: Apache-2.0
// printf of device code.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/ptx/context.h"

namespace simulator::ptx {

// Text in device memory that ends in NUL, as far as the thread may read it.
std::string device_text(ThreadContext& thread, std::uint64_t at);

// Appends what `format` says of the arguments, which lie one behind the other at their own alignment. The number of
// arguments, as vprintf of devices returns it.
int append_printed(ThreadContext& thread, std::uint64_t format, std::uint64_t arguments, std::string* out);

}  // namespace simulator::ptx
