// SPDX-License-Identifier: Apache-2.0
// A launch as programs describe it, and the resulting operation: for streams and for graphs.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

struct Launch {
  Dim3 grid, block;
  unsigned shared_bytes = 0;
  CUstream stream = nullptr;
  void** parameters = nullptr;
  void** extra = nullptr;
  bool is_cooperative = false;
  Dim3 cluster{0, 0, 0};  // blocks; zeros: none are given
};

// `handle`: a CUfunction or a CUkernel.
CUresult make_kernel(Call& call, const void* handle, const Launch& launch, Kernel* out, CUfunction* function);

}  // namespace simulator::cuda
