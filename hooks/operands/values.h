// SPDX-License-Identifier: Apache-2.0
// Memory operations of streams, for the calls and the graph nodes that carry them.
#pragma once

#include "hooks/operands/accesses.h"

namespace thermocline {

// `kept`: some graph may run them later, and asks again then what they write.
void add_value_operations(const CUstreamBatchMemOpParams* operations, unsigned int count, AccessList* accesses,
                          bool kept = true);

// Some stream, or some graph, waits for a value or has: what comes behind may stand until the program writes it.
bool any_waits_for_values();

}  // namespace thermocline
