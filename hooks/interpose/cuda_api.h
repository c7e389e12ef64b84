// SPDX-License-Identifier: Apache-2.0
// cuda.h, with every variant of every function declared under the name that the driver exports (cuMemcpyHtoD_v2_ptds,
// not the name to which a macro maps cuMemcpyHtoD), and with default visibility, because the library defines some of
// them. No other CUDA header may be included.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT 1
#include <cuda.h>

#include "hooks/interpose/newer_functions.h"
