// SPDX-License-Identifier: Apache-2.0
// What every file of the driver API includes first: cuda.h with its true symbol names, visible to other libraries, and
// the simulated machine. The target defines __CUDA_API_VERSION_INTERNAL, so cuda.h declares each symbol under its own
// name and the compiler compares our definitions with it.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#ifndef __CUDA_API_VERSION_INTERNAL
#error "The driver API is built with __CUDA_API_VERSION_INTERNAL."
#endif

#define SIMULATED_API extern "C" __attribute__((visibility("default")))
