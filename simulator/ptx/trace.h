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
  void add(std::uint64_t address, std::uint64_t bytes, Traced how);
  void report(const Launch& launch) const;

 private:
  static constexpr std::uint64_t kPageBytes = std::uint64_t{1} << 21;
  using Bits = std::vector<std::uint64_t>;
  using Page = std::array<Bits, 3>;  // by kind; empty: none

  void add_within(std::uint64_t address, std::uint64_t bytes, Traced how);

  std::map<std::uint64_t, Page> pages_;
  std::uint64_t last_number_ = ~std::uint64_t{0};
  Page* last_ = nullptr;
};

}  // namespace simulator::ptx
