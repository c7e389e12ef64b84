// SPDX-License-Identifier: Apache-2.0
// An mbarrier: 64 bits in shared memory, whose contents PTX leaves undefined. Source: PTX ISA 9.0, 9.7.13.15.
#pragma once

#include <cstdint>

namespace simulator::ptx {

enum class MbarrierOperation : std::uint32_t {
  kInit,  // argument: the number of expected arrivals
  kInvalidate,
  kArrive,           // argument: number of arrivals; returns the former state
  kArriveExpecting,  // one arrival, and this many expected bytes
  kDrop,             // arrives, and is not expected in later phases
  kExpect,           // argument: bytes
  kComplete,         // argument: bytes
  kTest,             // argument: a result of kArrive; returns 1 if that phase has ended
  kTestParity,       // returns 1 if the phase with this parity has ended
};

inline constexpr std::uint64_t kMostArrivals = (1u << 20) - 1;

// Invariant: a phase ends when no arrivals and no bytes are missing, so `pending` and `bytes` are never both 0.
struct Mbarrier {
  std::uint32_t pending = 0, expected = 0;
  std::int32_t bytes = 0;
  bool phase = false;

  std::uint64_t word() const {
    return pending | std::uint64_t{expected} << 20 |
           (static_cast<std::uint64_t>(static_cast<std::uint32_t>(bytes)) & 0x7fffff) << 40 |
           std::uint64_t{phase} << 63;
  }
  static Mbarrier of(std::uint64_t word) {
    Mbarrier barrier;
    barrier.pending = static_cast<std::uint32_t>(word & kMostArrivals);
    barrier.expected = static_cast<std::uint32_t>(word >> 20 & kMostArrivals);
    barrier.bytes = static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 40 & 0x7fffff) << 9) >> 9;
    barrier.phase = word >> 63 != 0;
    return barrier;
  }
  void complete_phase_if_due() {
    if (pending != 0 || bytes != 0) return;
    phase = !phase;
    pending = expected;
  }
};

}  // namespace simulator::ptx
