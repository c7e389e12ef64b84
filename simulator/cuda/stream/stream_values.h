// SPDX-License-Identifier: Apache-2.0
// Values that streams and graphs write to memory or wait for.
#pragma once

#include <span>
#include <vector>

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// The work of each operation of a batch, in order; all of them are checked first.
CUresult make_value_operations(Call& call, std::span<const CUstreamBatchMemOpParams> batch, std::vector<Work>* out);
// The work of the operations that a call names; first it is checked how many there may be, and which flags.
CUresult make_value_operations(Call& call, unsigned count, const CUstreamBatchMemOpParams* operations, unsigned flags,
                               std::vector<Work>* out);
// The operation that was made so; `work` writes a value or waits for one.
CUstreamBatchMemOpParams describe_value_operation(const Work& work);

}  // namespace simulator::cuda
