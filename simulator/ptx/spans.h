// SPDX-License-Identifier: Apache-2.0
// Accesses to global memory whose address is checked by a single check: loads and stores at constant offsets from one
// register that all execute whenever the first one does. A loop that nvcc has unrolled has dozens of them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "simulator/ptx/module.h"

namespace simulator::ptx {

struct SpanMember {
  unsigned instruction;  // in Function::code
  std::int64_t offset;   // from the register
  unsigned bytes;        // a power of two
  Space space;           // kGlobal or kGeneric
  bool writes;
};

// Invariants, for all members: instructions in rising order; control that reaches the first reaches all others before
// it leaves the function, comes back to the first, makes an access that has an order, or gives way to another thread;
// the register is not written between the first and the last; offsets are below kMostSpanBytes from one another;
// offset - low is a multiple of bytes.
struct Span {
  unsigned base;  // register of 64 bits
  std::vector<SpanMember> members;
  std::int64_t low = 0, high = 0;  // lowest offset, end of the highest access
  unsigned alignment = 1;          // of the address at `low` if all are aligned: the largest access
};

inline constexpr std::int64_t kMostSpanBytes = 1 << 16;

// Whether the access has an order, by its modifiers: others may see its position among the thread's accesses.
bool has_order(const Instruction& instruction);

// By the first member's instruction. Accesses that form no span with others are not included.
std::map<unsigned, Span> find_spans(const Function& function);

}  // namespace simulator::ptx
