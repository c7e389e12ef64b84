// SPDX-License-Identifier: Apache-2.0
// Memory operations of streams, for the calls and the graph nodes that carry them.
#pragma once

#include "hooks/touches.h"

namespace thermocline {

void add_value_operations(const CUstreamBatchMemOpParams* operations, unsigned int count, TouchList* touches);

}  // namespace thermocline
