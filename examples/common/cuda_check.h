// SPDX-License-Identifier: Apache-2.0
// CUDA calls that must succeed: a failure ends the program with one sentence on stderr and status 1.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace examples {

// Set by main(); the prefix of every message.
inline const char* program_name = "example";

inline void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s: %s (%s)\n", program_name, what, cudaGetErrorString(status), cudaGetErrorName(status));
  std::exit(1);
}

inline void refuse_allocation(cudaError_t status, std::size_t bytes, const char* where) {
  if (status == cudaErrorMemoryAllocation) {
    std::fprintf(stderr, "%s: out of memory allocating %zu bytes (%s)\n", program_name, bytes, where);
    std::exit(1);
  }
  require(status, where);
}

// Checks a launch: reports errors of the launch itself. Errors inside the kernel are reported by a later call.
inline void require_launched(const char* kernel) { require(cudaGetLastError(), kernel); }

}  // namespace examples
