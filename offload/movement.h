// SPDX-License-Identifier: Apache-2.0
// Why contents are evicted and why they are fetched. Every copy out, eviction and fetch has one reason; it is counted
// by reason, and observers of movements are told the reason.
//
// A copy out may come long before the eviction that it is for; or there may be no eviction, if the unit is accessed
// first. So a unit that was chosen for eviction keeps that reason until it is evicted, fetched or accessed. A unit that
// had not been chosen is evicted for the reason for which its room is needed. Contents that are dropped to be
// recomputed are not evicted (dropped_bytes); observers are told of them, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "driver/units.h"

namespace thermocline {

enum class EvictReason : std::uint8_t {
  kPressure,      // an operation or a pin needs room
  kWriteBehind,   // it was idle while memory filled up
  kPlanned,       // according to the plan of the iteration, or to make room for a planned fetch
  kLimitLowered,  // external memory, the driver's needs, or the end of a soft limit leave less for the engine
  kRequested,     // the program requested its eviction, or a prefetch that takes its room
  kSleep,         // the program was put to sleep (sleep.h)
  kPassing,       // without a plan: it is not among the buffers that stay (policy/resident_set.h)
};
inline constexpr std::size_t kEvictReasons = 7;
inline constexpr std::array<const char*, kEvictReasons> kEvictReasonNames = {
    "pressure", "write_behind", "planned", "limit_lowered", "requested", "sleep", "passing"};
// The policy has chosen what leaves for this reason, with what is used next in view: it goes before anything else.
constexpr bool is_chosen(EvictReason reason) {
  return reason == EvictReason::kPlanned || reason == EvictReason::kPassing;
}

enum class FetchReason : std::uint8_t {
  kAccessed,   // an operation was waiting for it
  kPinned,     // it has to stay on the device from now on
  kPredicted,  // it was evicted last, and the program is accessing such memory again
  kPlanned,    // according to the plan of the iteration
  kRequested,  // the program requested a prefetch
  kWake,       // the program was woken
};
inline constexpr std::size_t kFetchReasons = 6;
inline constexpr std::array<const char*, kFetchReasons> kFetchReasonNames = {"accessed", "pinned",    "predicted",
                                                                             "planned",  "requested", "wake"};

// Why dropped contents are recomputed.
enum class RecomputeReason : std::uint8_t {
  kPlanned,        // according to the plan of the iteration
  kAccessed,       // an operation that the plan did not expect reads them
  kInputEnds,      // their inputs are about to be overwritten or freed
  kUnknownAccess,  // an operation is about to run whose accesses are not all known
  kForgotten,      // the operations that make them are about to be forgotten
  kAllNeeded,      // the engine needs all contents: for a pin, sleep, or its end
};
inline constexpr std::size_t kRecomputeReasons = 6;
inline constexpr std::array<const char*, kRecomputeReasons> kRecomputeReasonNames = {
    "planned", "accessed", "input_ends", "unknown_access", "forgotten", "all_needed"};

constexpr const char* name_of(EvictReason reason) { return kEvictReasonNames[static_cast<std::size_t>(reason)]; }
constexpr const char* name_of(FetchReason reason) { return kFetchReasonNames[static_cast<std::size_t>(reason)]; }

constexpr const char* name_of(RecomputeReason reason) {
  return kRecomputeReasonNames[static_cast<std::size_t>(reason)];
}

// For one reason: number of eviction units that were evicted or fetched, and bytes that were copied for it.
struct MovementCount {
  std::uint64_t units = 0;
  Bytes copied_bytes = 0;

  MovementCount& operator+=(const MovementCount& other) {
    units += other.units;
    copied_bytes += other.copied_bytes;
    return *this;
  }
};

struct MovementCounts {
  std::array<MovementCount, kEvictReasons> evictions;
  std::array<MovementCount, kFetchReasons> fetches;

  MovementCount& of(EvictReason reason) { return evictions[static_cast<std::size_t>(reason)]; }
  MovementCount& of(FetchReason reason) { return fetches[static_cast<std::size_t>(reason)]; }
  const MovementCount& of(EvictReason reason) const { return evictions[static_cast<std::size_t>(reason)]; }
  const MovementCount& of(FetchReason reason) const { return fetches[static_cast<std::size_t>(reason)]; }
  MovementCounts& operator+=(const MovementCounts& other) {
    for (std::size_t i = 0; i < kEvictReasons; ++i) evictions[i] += other.evictions[i];
    for (std::size_t i = 0; i < kFetchReasons; ++i) fetches[i] += other.fetches[i];
    return *this;
  }
};

// An eviction unit, and the block that contains it: a buffer that has its pages to itself, or a slab of small ones.
struct MovedUnit {
  DeviceAddress address;
  Bytes bytes = 0;  // of a copy: what is copied; else the unit's pages
  DeviceAddress block;
  Bytes block_bytes = 0;
  bool is_slab = false;
};

// Called in the order in which copies are submitted to the engine's two copy streams. The engine's lock is held, so an
// observer must not call an engine.
class MovementObserver {
 public:
  virtual ~MovementObserver() = default;
  virtual void copying_out(const MovedUnit& unit, EvictReason reason) = 0;
  virtual void evicted(const MovedUnit& unit, EvictReason reason) = 0;
  virtual void fetching(const MovedUnit& unit, FetchReason reason) = 0;
  // A host copy is about to be written to the spill file, or to be read from there.
  virtual void spilling(const MovedUnit&) {}
  virtual void reading_spilled(const MovedUnit&) {}
  // The contents of a whole block are dropped, without a copy.
  virtual void dropped(const MovedUnit&) {}
  // recomputing(): operations are about to run again. recomputed(): after their submission, for some of the contents
  // that they made; for none if one of them was refused.
  virtual void recomputing(RecomputeReason) {}
  virtual void recomputed(const MovedUnit&, RecomputeReason) {}
};

}  // namespace thermocline
