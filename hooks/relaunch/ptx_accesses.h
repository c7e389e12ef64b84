// SPDX-License-Identifier: Apache-2.0
// Through which words of its parameters a kernel reads and writes, by data flow over its PTX.
//
// Each register has the parameter words and the origins that its value may come from, whatever the path. An access
// goes through the words that its address comes from. If the address may come from a pointer that was found in memory,
// or from something that is not followed, nothing is said of the kernel. Assumed, as C++ demands it: an address that is
// computed from a buffer's pointer and indices lies in that buffer. A multiple of what was loaded is an index.
#pragma once

#include <string>
#include <vector>

#include "hooks/relaunch/ptx_kernel.h"
#include "hooks/relaunch/rerun_refusal.h"

namespace thermocline {

// Eight bytes of a parameter that are loaded as one value.
struct ParameterWord {
  unsigned parameter = 0, offset = 0;
  bool reads = false, writes = false;  // through it
  bool is_value = false;               // used as something else than an address, too
};

struct PtxAccesses {
  static constexpr std::size_t kMostWords = 64;

  std::vector<ParameterWord> words;
  RerunRefusal unknown;  // why nothing is said
  // It has a loop that may wait for others to write: what is submitted later may then run earlier.
  bool may_wait = false;
  // Per instruction, for accesses to global memory: the words that the address may come from.
  std::vector<std::uint64_t> through;
};

PtxAccesses find_accesses(const PtxKernel& kernel);

}  // namespace thermocline
