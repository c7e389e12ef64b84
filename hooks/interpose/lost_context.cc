// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/lost_context.h"

#include <cstddef>

#include "hooks/interpose/symbols.h"

namespace thermocline {

CUresult lost_context_error() {
  if (!any_context_lost.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  std::size_t free = 0, total = 0;
  const CUresult result = real<Function::cuMemGetInfo_v2>(&free, &total);
  return loses_the_context(result) ? result : CUDA_SUCCESS;
}

}  // namespace thermocline
