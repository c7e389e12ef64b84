// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels can read and the library does not search: it is registered as a device's registers. The
// library cannot see what a kernel finds there.
#pragma once

#include <cuda.h>

#include <stdlib.h>

static inline CUresult allocate_unread(void** at, size_t bytes) {
  const size_t page = 4096;
  bytes = (bytes + page - 1) / page * page;
  *at = aligned_alloc(page, bytes);
  if (!*at) return CUDA_ERROR_OUT_OF_MEMORY;
  return cuMemHostRegister(*at, bytes, CU_MEMHOSTREGISTER_IOMEMORY);
}

static inline CUresult free_unread(void* at) {
  const CUresult result = cuMemHostUnregister(at);
  if (result == CUDA_SUCCESS) free(at);
  return result;
}
