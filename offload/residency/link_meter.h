// SPDX-License-Identifier: Apache-2.0
// Measures the bandwidth of the link with the library's own copies: a few large ones per direction are submitted
// between two timed events.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "driver/driver.h"
#include "driver/units.h"

namespace thermocline {

// Bytes a nanosecond are GB/s.
struct Link {
  double out_bytes_per_ns = 0;  // device to host
  double in_bytes_per_ns = 0;   // host to device
};

// Guarded by the engine's lock.
class LinkMeter {
 public:
  enum Direction : std::size_t { kOut, kIn };

  // A copy between two events; if it has no events, it is not measured.
  struct Sample {
    Direction direction = kOut;
    Bytes bytes = 0;
    EventHandle before{}, after{};
  };

  explicit LinkMeter(const Driver& driver) : driver_(driver) {}
  ~LinkMeter();
  LinkMeter(const LinkMeter&) = delete;
  LinkMeter& operator=(const LinkMeter&) = delete;

  // Call these before and after the submission of a copy of `bytes` to `stream`.
  Sample begin(Direction direction, Bytes bytes, StreamHandle stream);
  void end(const Sample& sample, StreamHandle stream);

  // Evaluates the samples that have completed; never blocks. Returns the best rates seen; kAssumed if there is none.
  Link link();

  // PCIe 3.0 with 16 lanes, as programs see it (12.2 GB/s measured on a Titan X (Pascal), github.com/yaroslavvb/stuff).
  static constexpr double kAssumedBytesPerNs = 12;

 private:
  static constexpr Bytes kSmallestBytes = 2 * kMiB;  // shorter copies are mostly latency
  static constexpr unsigned kSamples = 6;            // per direction

  void collect();
  void discard(const Sample& sample);

  const Driver& driver_;
  std::vector<Sample> pending_;
  std::array<unsigned, 2> taken_{};
  std::array<double, 2> best_{};
};

}  // namespace thermocline
