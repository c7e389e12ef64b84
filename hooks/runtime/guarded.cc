// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/guarded.h"

#include <new>

#include "driver/undisturbed.h"
#include "hooks/interpose/log.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

CUresult guarded(Call body) {
  const Undisturbed undisturbed;
  return guarded_lightly(body);
}

CUresult guarded_lightly(Call body) {
  // Declared first, so it runs after everything that the body holds has been released.
  const GivesOutReport at_the_end;
  return without_exceptions(body);
}

CUresult error_of_exception() {
  try {
    throw;
  } catch (const BrokenInvariant&) {
    return CUDA_ERROR_UNKNOWN;
  } catch (const std::bad_alloc&) {
    return host_memory_is_exhausted();
  }
}

CUresult host_memory_is_exhausted() {
  THERMOCLINE_LOG_ONCE(LogLevel::kError, "host memory is exhausted");
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace thermocline
