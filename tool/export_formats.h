// SPDX-License-Identifier: Apache-2.0
// Writes a story (trace/story.h) in formats that other programs read; docs/export.md describes them.
#pragma once

#include "tool/output_file.h"
#include "tool/told.h"

namespace thermocline {

// For ui.perfetto.dev and chrome://tracing: slices for steps, streams and both directions of the link; counters; and a
// flow from each copy out to the copy that fetches the same bytes.
void export_perfetto(const Told& told, OutputFile& out);
// The format of torch.cuda.memory._dump_snapshot(), for pytorch.org/memory_viz.
void export_memory_viz(const Told& told, OutputFile& out);
// One line for each allocation, release, operator, copy and step, in order of time.
void export_csv(const Told& told, OutputFile& out);

// "aten::addmm at operator 17", or a text for a buffer without a producer.
std::string producer_of(const Told& told, const StoryBuffer& buffer);

}  // namespace thermocline
