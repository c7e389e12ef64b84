// SPDX-License-Identifier: Apache-2.0
// Finds the words of a kernel's parameters through which it reads and writes, by data flow analysis of its PTX.
//
// For each register the analysis finds the parameter words and the origins that its value may come from, on any path.
// An access goes through the words that its address comes from. If the address may come from a pointer found in memory,
// or from a source that is not tracked, the accesses of the kernel are unknown. Assumption, required by C++: an address
// computed from a buffer's pointer and indices lies in that buffer. A multiple of a loaded value is an index.
#pragma once

#include <string>
#include <vector>

#include "hooks/relaunch/ptx_kernel.h"
#include "hooks/relaunch/rerun_refusal.h"

namespace thermocline {

// Eight bytes of a parameter that the kernel loads as one value.
struct ParameterWord {
  unsigned parameter = 0, offset = 0;
  bool reads = false, writes = false;  // through this word
  bool is_value = false;               // also used as something other than an address
};

struct PtxAccesses {
  static constexpr std::size_t kMostWords = 64;

  std::vector<ParameterWord> words;
  RerunRefusal unknown;  // why the accesses are unknown; none: `words` are complete
  // It has a loop that may wait for others to write: work that is submitted later may then run earlier.
  bool may_wait = false;
  // By instruction, for accesses to global memory: a bit for each word that the address may come from.
  std::vector<std::uint64_t> through;
};

PtxAccesses find_accesses(const PtxKernel& kernel);

}  // namespace thermocline
