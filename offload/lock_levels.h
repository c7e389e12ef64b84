// SPDX-License-Identifier: Apache-2.0
// The levels of an engine's mutexes (driver/locks.h): above those of the hooks that call engines, below the allocator's.
#pragma once

namespace thermocline::lock_level {

// Of the engine of device 0. Operations of several devices lock their engines in order of devices, so each device's
// level is one higher; there are fewer than 90.
inline constexpr int kEngine = 100;
// Of what waits to be written to a spill file, or read from it.
inline constexpr int kSpillQueue = 190;
// Of the file itself.
inline constexpr int kSpillFile = 195;

}  // namespace thermocline::lock_level
