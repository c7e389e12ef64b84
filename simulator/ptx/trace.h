// SPDX-License-Identifier: Apache-2.0
// Records exactly which bytes a kernel accesses, for the race checker: one bit for each byte and kind of access, in
// pages that are created when they are first accessed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "simulator/ptx/interface.h"

namespace simulator::ptx {

class Trace {
 public:
  static constexpr std::uint64_t kWord = 64;

  void add(std::uint64_t address, std::uint64_t bytes, Traced how) {
    // Nearly all are within one word of a page that was accessed before.
    const std::uint64_t number = address / kPageBytes, from = address % kWord;
    const Recent& recent = recent_[number % kRecent];
    std::uint64_t* const bits = recent.number == number ? recent.bits[static_cast<std::size_t>(how)] : nullptr;
    if (bits == nullptr || bytes - 1 >= kWord - from) return add_slowly(address, bytes, how);
    bits[address % kPageBytes / kWord] |= (~std::uint64_t{0} >> (kWord - bytes)) << from;
  }
  void report(const Launch& launch) const;

 private:
  static constexpr std::uint64_t kPageBytes = std::uint64_t{1} << 21;
  static constexpr std::size_t kRecent = 16;
  using Bits = std::vector<std::uint64_t>;
  using Page = std::array<Bits, 3>;  // by kind; empty: none
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    std::array<std::uint64_t*, 3> bits{};  // nullptr: none
  };

  void add_slowly(std::uint64_t address, std::uint64_t bytes, Traced how);
  void add_within(std::uint64_t address, std::uint64_t bytes, Traced how);

  std::map<std::uint64_t, Page> pages_;
  // A cache of pages_, by the lowest bits of their numbers; what is in it is as in pages_.
  std::array<Recent, kRecent> recent_;
};

}  // namespace simulator::ptx
