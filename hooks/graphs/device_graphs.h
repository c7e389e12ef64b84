// SPDX-License-Identifier: Apache-2.0
// Executable graphs that kernels may launch. Such launches are not seen, so the memory that the graph names is pinned
// as long as the graph names it. Memory that it no longer names, because the graph was updated or destroyed, may still
// be in use: it is unpinned after a wait for the whole context.
#pragma once

#include "hooks/graphs/graph_contents.h"
#include "hooks/submit/holding.h"

namespace thermocline {

// Pins the memory that the contents name, then makes `call`. If that fails, unpins; on success `pinned` has the pins.
CUresult pin_for_device(const GraphContents& contents, Call call, PinnedBuffers* pinned);

// `pinned`: all memory that the executable graph names now. It replaces what was pinned for it before.
void device_graph_changed(CUgraphExec exec, PinnedBuffers& pinned);
// `pinned`: a part of the memory that the executable graph names now; graph_execs.h knows the rest.
void device_graph_changed_in_part(CUgraphExec exec, PinnedBuffers& pinned);
// `call` destroys the graph. Its handle may be reused before that call returns.
CUresult destroy_device_graph(CUgraphExec exec, Call call);

}  // namespace thermocline
