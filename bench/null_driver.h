// SPDX-License-Identifier: Apache-2.0
// The number of calls that the null driver (null_driver.cc) has had from this thread.
#pragma once

#include <cstdint>

// The memory of its device, in bytes.
inline constexpr std::uint64_t kDeviceMemory = std::uint64_t{1} << 39;

extern "C" std::uint64_t null_driver_calls();
