// SPDX-License-Identifier: Apache-2.0
// Writes a timeline (trace/replay_timeline.h) in formats that other programs read; docs/export.md describes them.
#pragma once

#include "tool/output_file.h"
#include "tool/timeline_replay.h"

namespace thermocline {

// For ui.perfetto.dev and chrome://tracing: slices for steps, streams and both directions of the link; counters; and a
// flow from each copy out to the copy that fetches the same bytes.
void export_perfetto(const TimelineReplay& replayed, OutputFile& out);
// The format of torch.cuda.memory._dump_snapshot(), for pytorch.org/memory_viz.
void export_memory_viz(const TimelineReplay& replayed, OutputFile& out);
// One line for each allocation, release, operator, copy and step, in order of time.
void export_csv(const TimelineReplay& replayed, OutputFile& out);

// "aten::addmm at operator 17", or a text for a buffer without a producer.
std::string producer_of(const TimelineReplay& replayed, const TimelineBuffer& buffer);
// "aten::addmm", "aten::addmm part 2 of 4".
std::string title_of(const TimelineReplay& replayed, const TimelineOperator& op);

}  // namespace thermocline
