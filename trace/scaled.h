// SPDX-License-Identifier: Apache-2.0
// Extrapolates a recorded program to another batch size, from two recordings of it at two batch sizes: the bytes of
// every buffer, and the flops, bytes and measured time of every operator, are on the straight line through the two
// recorded values.
//
// That is exact for everything that is a constant plus a multiple of the batch size, as parameters and activations are.
// Costs that grow otherwise, and libraries that choose another algorithm at another size, are not covered. Both
// recordings must have the same operators on the same buffers in the same order.
#pragma once

#include <string>

#include "trace/trace.h"

namespace thermocline {

struct BatchedTrace {
  const Trace* trace;
  double batch;
};

// False, with a message in `reason`, if the two are not one program at two sizes. The batch sizes must differ.
bool scale_trace(const BatchedTrace& a, const BatchedTrace& b, double batch, Trace* out, std::string* reason);

}  // namespace thermocline
