// SPDX-License-Identifier: Apache-2.0
// Splits operators that need more memory than there is, where the trace says that this is possible (trace/slices.h).
// The result is a trace like any other: such an operator becomes several, its parts, each of which computes consecutive
// slices; and the buffers that are split with it become several, their pieces, one for each part. Everything else (plans,
// bounds, replays) works on that trace and knows nothing of the other.
//
// Operators that are not split name all pieces of a buffer. A piece is allocated before the first part that uses it, if
// no other operator comes between the allocation and the parts, and freed behind the last one in the same way; otherwise
// with its buffer. Buffers that exist at the end of a step are not cut.
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
  double launch_seconds = 0;  // what each part adds to a measured duration
};

struct SplitOperator {
  std::uint32_t op = 0;     // of the trace that was split
  std::uint32_t parts = 0;  // 1: it needs more than the limit, and is not split
  Bytes bytes = 0;          // what it needs alone, of whole buffers
  Bytes part_bytes = 0;     // what its largest part needs, or all of it if it is not split, of buffers in pieces
  std::string why_not{};    // if it is not split, but has a mark
};

struct SplitTrace {
  Trace trace;
  std::vector<SplitOperator> operators;  // that need more than the limit, whole or in pieces; in program order
  bool any_split() const;
};

// Each operator that needs more than the limit is split into the least number of parts that need no more, or left as it
// is. A part takes its share of the time, and reads what is not split once more, at the rate of the operator's traffic;
// with a measured duration its share of it and the launch.
SplitTrace split_operators(const Trace& trace, const SplitTerms& terms);

// Bytes that an operator alone needs, in whole pages.
Bytes operand_bytes(const Trace& trace, const TraceOperator& op, Bytes page_bytes);

}  // namespace thermocline
