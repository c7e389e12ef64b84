// SPDX-License-Identifier: Apache-2.0
// printf of device code.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/ptx/context.h"

namespace simulator::ptx {

// A NUL-terminated string in device memory, as far as the thread may read it.
std::string device_text(ThreadContext& thread, std::uint64_t at);

// Appends the formatted text. The arguments are in sequence, each at its own alignment. Returns the number of
// arguments, as the device's vprintf does.
int append_printed(ThreadContext& thread, std::uint64_t format, std::uint64_t arguments, std::string* out);

}  // namespace simulator::ptx
