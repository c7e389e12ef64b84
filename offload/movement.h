// SPDX-License-Identifier: Apache-2.0
// Why contents leave the device, and why they come back. Every copy out, every eviction and every fetch has one reason,
// by which it is counted, and which whoever observes movements is told.
//
// A copy out may come long before the eviction that it is for, or for none, where the unit is accessed first. So a unit
// that was chosen to leave keeps that reason until it is evicted, fetched or accessed; one that nobody had chosen is
// evicted for what its room is needed for. What is dropped to be recomputed is no eviction (dropped_bytes).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "driver/units.h"

namespace thermocline {

enum class EvictReason : std::uint8_t {
  kPressure,      // an operation or a pin needs room
  kWriteBehind,   // it was idle while memory filled up
  kPlanned,       // the plan of the iteration says so, or gives its room to what it fetches
  kLimitLowered,  // external memory, the driver's needs, or the end of a soft limit leave less for the engine
  kRequested,     // the program asked for its eviction, or for a prefetch that takes its room
};
inline constexpr std::size_t kEvictReasons = 5;
inline constexpr std::array<const char*, kEvictReasons> kEvictReasonNames = {"pressure", "write_behind", "planned",
                                                                             "limit_lowered", "requested"};

enum class FetchReason : std::uint8_t {
  kAccessed,   // an operation was waiting for it
  kPinned,     // it has to stay on the device from now on
  kPredicted,  // it left last, and the program is coming back
  kPlanned,    // the plan of the iteration says that it is next
  kRequested,  // the program asked for a prefetch
};
inline constexpr std::size_t kFetchReasons = 5;
inline constexpr std::array<const char*, kFetchReasons> kFetchReasonNames = {"accessed", "pinned", "predicted",
                                                                             "planned", "requested"};

constexpr const char* name_of(EvictReason reason) { return kEvictReasonNames[static_cast<std::size_t>(reason)]; }
constexpr const char* name_of(FetchReason reason) { return kFetchReasonNames[static_cast<std::size_t>(reason)]; }

// Of one reason: eviction units that left or came back, and bytes that were copied for it.
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

// An eviction unit, and the block that it is of: a buffer that has its pages to itself, or a slab of small ones.
struct MovedUnit {
  DeviceAddress address;
  Bytes bytes = 0;  // of a copy what is copied, else the unit's pages
  DeviceAddress block;
  Bytes block_bytes = 0;
  bool is_slab = false;
};

// Told in the order in which copies are submitted to the two streams of the engine. With the engine's lock held: calls
// no engine.
class MovementObserver {
 public:
  virtual ~MovementObserver() = default;
  virtual void copying_out(const MovedUnit& unit, EvictReason reason) = 0;
  virtual void evicted(const MovedUnit& unit, EvictReason reason) = 0;
  virtual void fetching(const MovedUnit& unit, FetchReason reason) = 0;
};

}  // namespace thermocline
