// SPDX-License-Identifier: Apache-2.0
// Memory operations of streams (writing values, waiting for values), as arguments of calls and of graph nodes.
#pragma once

#include "hooks/operands/accesses.h"

namespace thermocline {

// `kept`: a graph may execute them later, and then needs the values that they write.
void add_value_operations(const CUstreamBatchMemOpParams* operations, unsigned int count, AccessList* accesses,
                          bool kept = true);

// Whether any stream or graph has ever waited for a value: work ordered after the wait may be blocked until the program
// writes the value.
bool any_waits_for_values();

}  // namespace thermocline
