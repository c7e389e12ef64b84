// SPDX-License-Identifier: Apache-2.0
// The CUDA driver entry points that Driver calls, as a table of pointers typed by cuda.h. It is filled at run time, by
// name, so nothing of CUDA is linked; a test or the hooks may put any pointer into any entry.
//
// A member carries the exact name that cuda.h's macros map the function to (cuMemGetInfo is cuMemGetInfo_v2), and that
// is also the name that is looked up: dlsym answers exact versions, so cuGetProcAddress, which chooses one by CUDA
// version, is not needed. Whoever includes this file sees those macros: table.cuMemGetInfo works everywhere.
#pragma once

#include <string>

#include <cuda.h>

#include "driver/status.h"

// X(function, required). Without a required function load_table fails; without an optional one Driver answers
// not_supported.
#define THERMOCLINE_DRIVER_FUNCTIONS(X)       \
  X(cuCtxGetCurrent, true)                    \
  X(cuCtxGetDevice, true)                     \
  X(cuCtxSynchronize, true)                   \
  X(cuDeviceGetAttribute, true)               \
  X(cuDeviceTotalMem, true)                   \
  X(cuDeviceGetPCIBusId, false)               \
  X(cuMemGetInfo, false)                      \
  X(cuMemGetAllocationGranularity, false)     \
  X(cuMemAddressReserve, false)               \
  X(cuMemAddressFree, false)                  \
  X(cuMemCreate, false)                       \
  X(cuMemRelease, false)                      \
  X(cuMemMap, false)                          \
  X(cuMemSetAccess, false)                    \
  X(cuMemUnmap, false)                        \
  X(cuMemcpyDtoHAsync, true)                  \
  X(cuMemcpyHtoDAsync, true)                  \
  X(cuStreamCreate, true)                     \
  X(cuStreamDestroy, true)                    \
  X(cuStreamSynchronize, true)                \
  X(cuStreamWaitEvent, true)                  \
  X(cuStreamIsCapturing, false)               \
  X(cuStreamGetFlags, false)                  \
  X(cuThreadExchangeStreamCaptureMode, false) \
  X(cuEventCreate, true)                      \
  X(cuEventDestroy, true)                     \
  X(cuEventRecord, true)                      \
  X(cuEventQuery, true)                       \
  X(cuEventSynchronize, true)                 \
  X(cuEventElapsedTime, false)                \
  X(cuMemHostAlloc, true)                     \
  X(cuMemFreeHost, true)                      \
  X(cuModuleLoadData, false)                  \
  X(cuModuleUnload, false)                    \
  X(cuModuleGetFunction, false)               \
  X(cuLaunchKernel, false)

namespace thermocline {

struct DriverTable {
#define THERMOCLINE_MEMBER(function, required) decltype(&::function) function = nullptr;
  THERMOCLINE_DRIVER_FUNCTIONS(THERMOCLINE_MEMBER)
#undef THERMOCLINE_MEMBER
};

// Fills the table by `find(exact name)`, null where there is none. not_found when a required function is missing.
Status load_table(void* (*find)(const char* name), DriverTable* out);

// The same from a shared library (null: libcuda.so.1), which then stays loaded. On failure `why`, unless null, gets a
// sentence.
Status open_driver(const char* path, DriverTable* out, std::string* why);

}  // namespace thermocline
