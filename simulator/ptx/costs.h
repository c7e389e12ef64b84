// SPDX-License-Identifier: Apache-2.0
// The cost of one execution of an instruction, besides itself: arithmetic, and bytes of global memory.
#pragma once

#include <cstdint>

#include "simulator/ptx/module.h"

namespace simulator::ptx {

// The members correspond to those members of Counts (interface.h) that generated code adds up.
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

// A generic address counts as global memory. An access that turns out to be elsewhere is subtracted again
// (block_memory.cc). Accesses that helpers make in loops (bulk copies, matrices, textures) are counted there.
Costs costs_of(const Instruction& instruction);

// Whether costs_of() counts the bytes of an access with these modifiers.
bool counts_bytes(const Instruction& instruction);

// Whether it is an atomic operation or a reduction, whose bytes costs_of() counts twice.
bool reads_and_writes(const Instruction& instruction);

}  // namespace simulator::ptx
