// SPDX-License-Identifier: Apache-2.0
// A story (trace/story.h) in formats that other programs read; docs/export.md says what stands where.
#pragma once

#include "tool/output_file.h"
#include "tool/told.h"

namespace thermocline {

// For ui.perfetto.dev and chrome://tracing: slices for steps, streams and both links, counters, and a flow from each
// copy out to the copy that brings the same bytes back.
void export_perfetto(const Told& told, OutputFile& out);
// What torch.cuda.memory._dump_snapshot() writes, for pytorch.org/memory_viz.
void export_memory_viz(const Told& told, OutputFile& out);
// A line for each allocation, release, operator, copy and step, by time.
void export_csv(const Told& told, OutputFile& out);

// "aten::addmm at operator 17", or what stands for nobody.
std::string producer_of(const Told& told, const StoryBuffer& buffer);

}  // namespace thermocline
