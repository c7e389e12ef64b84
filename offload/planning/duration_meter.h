// SPDX-License-Identifier: Apache-2.0
// Measures how long operations take, if the caller does not know. Each kind of operation is put between two timed
// events the first few times that it is submitted.
//
// The first event comes after everything that the operation waits for, so the measurement does not include the copies
// before it. The first launch of a function may include loading it (lazy loading, CUDA 11.7 and later), so the shortest
// sample is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "driver/driver.h"

namespace thermocline {

// Guarded by the engine's lock.
class DurationMeter {
 public:
  explicit DurationMeter(const Driver& driver) : driver_(driver) {}
  ~DurationMeter();
  DurationMeter(const DurationMeter&) = delete;
  DurationMeter& operator=(const DurationMeter&) = delete;

  // Called before and after the submission of an operation to `stream`, which must not be capturing. `token`: equal for
  // operations that take equally long. Does nothing once enough operations of that kind have been measured.
  void begin(std::uint64_t token, StreamHandle stream);
  void end(StreamHandle stream);
  bool has_begun() const { return open_.before != EventHandle{}; }
  // The operation that was begun has not been submitted.
  void abandon();

  // Reads samples that have completed; never blocks.
  void collect();
  // The shortest sample; 0 if there is none.
  std::uint64_t nanoseconds(std::uint64_t token) const;
  // Calls visit(token, nanoseconds) for every kind that has been measured.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [token, measured] : measured_) {
      if (const std::uint64_t shortest = nanoseconds_of(measured); shortest != 0) visit(token, shortest);
    }
  }

 private:
  static constexpr unsigned kSamples = 3;                          // of each kind
  static constexpr std::size_t kMostPending = 1024;                // samples whose events have not completed
  static constexpr std::size_t kMostKinds = std::size_t{1} << 16;  // others are not measured

  struct Measured {
    unsigned samples = 0;
    float shortest_ms = 0;  // 0: none yet
  };
  struct Sample {
    std::uint64_t token = 0;
    EventHandle before{}, after{};
  };

  static std::uint64_t nanoseconds_of(const Measured& measured) {
    return static_cast<std::uint64_t>(static_cast<double>(measured.shortest_ms) * 1e6);
  }
  bool take_event(EventHandle* out);
  void give_events(const Sample& sample);

  const Driver& driver_;
  std::unordered_map<std::uint64_t, Measured> measured_;
  std::vector<Sample> pending_;
  std::vector<EventHandle> spare_;
  Sample open_;  // begun and not ended; valid while it has events
};

}  // namespace thermocline
