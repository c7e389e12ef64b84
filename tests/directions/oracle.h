// SPDX-License-Identifier: Apache-2.0
// Compares what the library says of a kernel's accesses (hooks/relaunch) with what the simulated device's executor
// reads and writes, byte by byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/directions/random_kernel.h"

namespace directions {

// Sums over many kernels.
struct Counts {
  std::uint64_t kernels = 0;
  std::uint64_t not_run = 0;  // the executor refused them, or they left their buffers
  std::map<std::string, std::uint64_t> why_not_run;
  std::uint64_t known = 0;         // the library says through which parameters they access memory
  std::uint64_t proven = 0;        // launches whose written ranges are proven
  std::uint64_t exact_ranges = 0;  // of these: ranges that were compared
  std::uint64_t begins = 0;        // pointers of which it is proven that nothing in front of them is accessed
  // Pointers among the parameters of known kernels, by what is said of them.
  std::uint64_t said_read = 0, said_written = 0, said_both = 0, said_not_accessed = 0;
  std::uint64_t false_claims = 0;
  // Buffers that the executor only read.
  std::uint64_t only_read = 0;
  std::uint64_t found_only_read = 0;               // the library says so
  std::map<std::string, std::uint64_t> not_found;  // why it does not
  std::map<std::string, std::uint64_t> steps;      // how often, in kernels whose accesses are known
};

class Oracle {
 public:
  Oracle();

  std::uint64_t memory() const { return memory_; }
  // "": nothing that the library says is wrong. Else what is.
  std::string judge(const RandomKernel& kernel, Counts* counts);

 private:
  std::uint64_t memory_;
};

}  // namespace directions
