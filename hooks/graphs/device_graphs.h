// SPDX-License-Identifier: Apache-2.0
// Executable graphs that kernels may launch. Such launches are not seen, so what the graph names is pinned as long as it
// names it. What it no longer names, because it was updated or destroyed, may still be in use: it is unpinned when
// somebody has waited for the context.
#pragma once

#include "hooks/graphs/graph_contents.h"
#include "hooks/submit/holding.h"

namespace thermocline {

// What the contents name is pinned before the driver's call, and unpinned if that fails. On success `pinned` has it.
CUresult pin_for_device(const GraphContents& contents, Call call, PinnedBuffers* pinned);

// `pinned` is what the executable graph names now, all of it: it replaces what was pinned for it before.
void device_graph_changed(CUgraphExec exec, PinnedBuffers& pinned);
// `pinned` is a part of what the executable graph names now; the rest is what graph_execs.h knows.
void device_graph_changed_in_part(CUgraphExec exec, PinnedBuffers& pinned);
// `call` destroys it: its handle may be reused before that returns.
CUresult destroy_device_graph(CUgraphExec exec, Call call);

}  // namespace thermocline
