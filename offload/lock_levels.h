// SPDX-License-Identifier: Apache-2.0
// The level of an engine's mutex (driver/locks.h): above those of the hooks that call engines, below the allocator's.
#pragma once

namespace thermocline::lock_level {

// Of the engine of device 0. Operations of several devices lock their engines in order of devices, so each device's
// level is one higher; there are fewer than 100.
inline constexpr int kEngine = 100;

}  // namespace thermocline::lock_level
