// SPDX-License-Identifier: Apache-2.0
// An mbarrier: 64 bits in shared memory, whose contents PTX leaves open. Source: PTX ISA 9.0, 9.7.13.15.
#pragma once

#include <cstdint>

namespace simulator::ptx {

enum class MbarrierOperation : std::uint32_t {
  kInit,  // argument: how many are expected
  kInvalidate,
  kArrive,           // so many; answers what was there before
  kArriveExpecting,  // one, and so many bytes
  kDrop,             // arrive, and are not expected again
  kExpect,           // bytes
  kComplete,         // bytes
  kTest,             // what kArrive answered: 1 where that phase is over
  kTestParity,       // 1 where the phase of this parity is over
};

inline constexpr std::uint64_t kMostArrivals = (1u << 20) - 1;

// Invariant: a phase ends when nobody and nothing is missing: never is `pending` 0 together with `bytes` 0.
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
  void settle() {
    if (pending != 0 || bytes != 0) return;
    phase = !phase;
    pending = expected;
  }
};

}  // namespace simulator::ptx
