// SPDX-License-Identifier: Apache-2.0
// Must be included first by every file of the driver API: cuda.h with its exact symbol names, visible to other
// libraries, and the simulated machine. The target defines __CUDA_API_VERSION_INTERNAL, so cuda.h declares each symbol
// under its own name and the compiler checks the definitions here against it.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#ifndef __CUDA_API_VERSION_INTERNAL
#error "The driver API is built with __CUDA_API_VERSION_INTERNAL."
#endif

#define SIMULATED_API extern "C" __attribute__((visibility("default")))
