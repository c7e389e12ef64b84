// SPDX-License-Identifier: Apache-2.0
// A recorded program at another batch size, from two recordings of it at two batch sizes: every buffer's bytes, and
// every operator's flops, bytes and measured time, are on the straight line through the two recordings' figures.
//
// That is exact for what is a constant and a multiple of the batch, as parameters and activations are; a cost that
// grows otherwise, and a library that picks another algorithm at another size, are not foreseen. Both recordings must
// be of the same operators on the same buffers in the same order.
#pragma once

#include <string>

#include "trace/trace.h"

namespace thermocline {

struct BatchedTrace {
  const Trace* trace;
  double batch;
};

// False with a sentence in `reason` where the two are not one program at two sizes. The batches must differ.
bool scale_trace(const BatchedTrace& a, const BatchedTrace& b, double batch, Trace* out, std::string* reason);

}  // namespace thermocline
