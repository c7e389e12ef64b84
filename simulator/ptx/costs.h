// SPDX-License-Identifier: Apache-2.0
// What one execution of an instruction counts for, besides itself: arithmetic and bytes of global memory.
#pragma once

#include <cstdint>

#include "simulator/ptx/module.h"

namespace simulator::ptx {

// As the members of Counts (interface.h) that generated code adds up.
struct Costs {
  std::uint32_t flops = 0, doubles = 0, tensor_flops = 0, accessed = 0;

  Costs& operator+=(const Costs& other) {
    flops += other.flops;
    doubles += other.doubles;
    tensor_flops += other.tensor_flops;
    accessed += other.accessed;
    return *this;
  }
};

// A generic address counts as one of global memory; an access that turns out to be elsewhere is taken back (block_memory.cc).
// What helpers access in loops of their own (bulk copies, matrices, textures) is counted there.
Costs costs_of(const Instruction& instruction);

// Whether costs_of() counts the bytes of an access with these modifiers.
bool counts_bytes(const Instruction& instruction);

// Atomic operations and reductions: costs_of() counts their bytes twice.
bool reads_and_writes(const Instruction& instruction);

}  // namespace simulator::ptx
