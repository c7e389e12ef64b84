// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress in both shapes (CUDA 11: four arguments, CUDA 12: five). The driver answers first; what it answered
// is then exchanged for the hook of exactly that function.
#include <atomic>

#include "hooks/log.h"
#include "hooks/symbols.h"

namespace thermocline {
namespace {

void exchange(const char* base, void** address, int version, cuuint64_t flags) {
  if (base == nullptr || address == nullptr || *address == nullptr) return;
  if (void* hook = hook_for_base(base, *address, version, flags)) {
    *address = hook;
    return;
  }
  // A variant that is newer than our table is left alone, as any unknown function; what it does goes unseen.
  if (!has_hooked_base(base) || version < 3020) return;
  THERMOCLINE_LOG_ONCE("the driver has a variant of %s that is not known; it is left alone", base);
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  using namespace thermocline;
  const CUresult result = real<Function::cuGetProcAddress>(symbol, pfn, cudaVersion, flags);
  if (result == CUDA_SUCCESS && !Inside::now()) exchange(symbol, pfn, cudaVersion, flags);
  return result;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  using namespace thermocline;
  const CUresult result = real<Function::cuGetProcAddress_v2>(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (result == CUDA_SUCCESS && !Inside::now()) exchange(symbol, pfn, cudaVersion, flags);
  return result;
}

}  // extern "C"
