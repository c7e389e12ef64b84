// SPDX-License-Identifier: Apache-2.0
// An executable graph that does not fit in the budget at once is launched in segments, one behind the other on the
// launch's stream: each is an executable graph of its own, and an operation of its own for the engine, which moves buffers
// between them. The segments are runs of nodes in one topological order (cut_order.h), so every dependency between two of
// them is kept by the stream's order.
#pragma once

#include <optional>

#include "hooks/graphs/graph_execs.h"
#include "hooks/graphs/kept_graphs.h"

namespace thermocline {

// Whether what a launch accesses does not fit at once and may take turns. Where it surely fits this costs a few
// instructions, unless addresses are stored in memory that it may follow.
bool must_be_cut(const KeptGraph& kept, const GraphAccess& access);

// Launches the graph in segments; `submit` submits one of them. Nothing: it can not be done; nothing has been submitted,
// the reason has been counted and said, and the launch is to be refused as a whole.
std::optional<CUresult> launch_in_segments(KeptGraph& kept, StreamHandle stream, CallOf<CUgraphExec> submit);

// Launches of one executable graph run one after the other, however they are launched. Around a launch of the whole one:
CUresult launch_as_a_whole(KeptGraph& kept, StreamHandle stream, Call launch);

}  // namespace thermocline
