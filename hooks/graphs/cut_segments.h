// SPDX-License-Identifier: Apache-2.0
// Cuts a kept graph into segments and makes an executable graph of each.
#pragma once

#include "hooks/graphs/kept_graphs.h"

namespace thermocline {

// Whether each segment fits in the budget as it is now, by itself.
bool segments_fit(const KeptGraph& kept);
// Cuts it anew. Null: it has segments now. Else why it can not be cut, as a noun; it has none.
const char* cut_into_segments(KeptGraph& kept);
// Makes two of a segment that was refused although it had fitted. False: it has one node, or the driver makes no others
// now; nothing has changed.
bool halve_segment(KeptGraph& kept, std::size_t at);

}  // namespace thermocline
