// SPDX-License-Identifier: Apache-2.0
// Splits operators that need more memory than there is, if the trace says that this is possible (trace/slices.h). The
// result is an ordinary trace. Such an operator becomes several operators, its parts, each of which computes
// consecutive slices; the buffers that are split with it become several buffers, their pieces, one for each part.
// Everything else (plans, bounds, replays) works on that trace and need not know of the split.
//
// Operators that are not split name all pieces of a buffer. A piece is allocated before the first part that uses it,
// and freed after the last one, if no other operator comes between these parts and the allocation (or the free);
// otherwise together with its buffer. Buffers that exist at the end of a step are not cut.
//
// Pieces take whole pages, so an operator may need more of a buffer in pieces than of the whole one; then it is divided
// further. Slices that a number of parts does not divide are spread: parts differ by one slice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace thermocline {

struct SplitTerms {
  Bytes limit = 0;            // for all operands of one operator
  Bytes page_bytes = 1;       // buffers take whole pages
  double launch_seconds = 0;  // the time that each part adds to a measured duration
};

struct SplitOperator {
  std::uint32_t op = 0;     // of the trace that was split
  std::uint32_t parts = 0;  // 1: it needs more than the limit, but is not split
  Bytes bytes = 0;          // bytes that it needs alone, with whole buffers
  Bytes part_bytes = 0;     // bytes that its largest part needs (the operator, if not split), with buffers in pieces
  std::string why_not{};    // if it is not split, but has a mark
};

struct SplitTrace {
  Trace trace;
  std::vector<SplitOperator> operators;  // operators that exceed the limit, whole or in pieces; in program order
  bool any_split() const;
};

// Splits each operator that needs more than the limit into the smallest number of parts that need no more, or leaves it
// as it is. A part takes its share of the time, and reads the operands that are not split once more, at the rate of the
// operator's traffic. With a measured duration it takes its share of that, and the launch.
SplitTrace split_operators(const Trace& trace, const SplitTerms& terms);

// Bytes that an operator alone needs, in whole pages.
Bytes operand_bytes(const Trace& trace, const TraceOperator& op, Bytes page_bytes);

}  // namespace thermocline
