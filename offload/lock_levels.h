// SPDX-License-Identifier: Apache-2.0
// The levels of an engine's mutexes (driver/locks.h): above the levels of the hooks, below those of the allocator.
#pragma once

namespace thermocline::lock_level {

// The lock of the engine of device 0. Operations of several devices lock the engines in order of devices, so each
// device's level is one higher; there are fewer than 90.
inline constexpr int kEngine = 100;
// The lock of the queue of transfers to and from a spill file.
inline constexpr int kSpillQueue = 190;
// The lock of the file itself.
inline constexpr int kSpillFile = 195;

}  // namespace thermocline::lock_level
