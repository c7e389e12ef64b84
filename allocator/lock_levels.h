// SPDX-License-Identifier: Apache-2.0
// Levels of the allocator's mutexes (driver/locks.h), which engines take while holding their own.
#pragma once

namespace thermocline::lock_level {

inline constexpr int kHostPool = 200;
inline constexpr int kHostSteps = 210;
inline constexpr int kMappableHost = 220;
inline constexpr int kHostLedger = 230;

}  // namespace thermocline::lock_level
