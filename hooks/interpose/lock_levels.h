// SPDX-License-Identifier: Apache-2.0
// Levels of the hooks' mutexes (driver/locks.h). Mutexes below lock_level::kEngine may be held while an engine is
// called. Higher ones may not: engines themselves take them, in functions that were passed to them.
#pragma once

namespace thermocline::lock_level {

inline constexpr int kOwnThreads = 10;      // while one calls the driver
inline constexpr int kEnginesInUse = 15;    // while an operation uses several engines
inline constexpr int kCaptureChange = 20;   // while engines are told whether a stream is captured
inline constexpr int kRuntime = 30;         // while an engine begins or ends
inline constexpr int kExternalMemory = 40;  // while the driver is asked for it and the engine is told
inline constexpr int kSyncMemops = 50;
inline constexpr int kPools = 70;  // of the program's pools, while their use is recorded

inline constexpr int kLease = 800;     // of a device, with its engine held
inline constexpr int kRecorder = 900;  // an operation is written down with its engine held

// While one of these is held, no other lock is taken.
inline constexpr int kLeaf = 1000;

}  // namespace thermocline::lock_level
