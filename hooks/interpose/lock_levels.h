// SPDX-License-Identifier: Apache-2.0
// Levels of the hooks' mutexes (driver/locks.h). Those below lock_level::kEngine may be held while an engine is called.
// The higher ones never are: an engine takes them itself, through the functions it was given.
#pragma once

namespace thermocline::lock_level {

inline constexpr int kOwnThreads = 10;      // while one calls the driver
inline constexpr int kEnginesInUse = 15;    // while an operation uses several engines
inline constexpr int kCaptureChange = 20;   // while engines are told whether a stream is captured
inline constexpr int kRuntime = 30;         // while an engine begins or ends
inline constexpr int kExternalMemory = 40;  // while the driver is asked for it and the engine is told
inline constexpr int kSyncMemops = 50;
inline constexpr int kPools = 70;  // of the program, while what they use is written down

inline constexpr int kLease = 800;     // of a device, with its engine held
inline constexpr int kRecorder = 900;  // an operation is written down with its engine held

// With one of these held no other is taken.
inline constexpr int kLeaf = 1000;

}  // namespace thermocline::lock_level
