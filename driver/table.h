// SPDX-License-Identifier: Apache-2.0
// The CUDA driver functions that Driver calls, as a table of pointers with the types of cuda.h. The table is filled at
// run time, by name, so the library does not link against CUDA; tests and hooks may put any pointer into any entry.
//
// A member has the exact name that cuda.h's macros map the function to (cuMemGetInfo is cuMemGetInfo_v2). The same name
// is looked up: dlsym finds exact versions, so cuGetProcAddress, which chooses one by CUDA version, is not needed. Code
// that includes this file sees those macros too: table.cuMemGetInfo works everywhere.
#pragma once

#include <string>

#include <cuda.h>

#include "driver/status.h"

// X(function, required). If a required function is missing, load_table fails; if an optional one is missing, Driver
// returns not_supported.
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
  X(cuMemcpyDtoDAsync, false)                 \
  X(cuStreamCreate, true)                     \
  X(cuStreamDestroy, true)                    \
  X(cuStreamSynchronize, true)                \
  X(cuStreamWaitEvent, true)                  \
  X(cuStreamWaitValue32, false)               \
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

// Fills the table with `find(exact name)`, null where a function is missing. not_found when a required function is
// missing.
Status load_table(void* (*find)(const char* name), DriverTable* out);

// Loads the table from a shared library (null: libcuda.so.1), which then stays loaded. On failure `why`, unless null,
// gets a message.
Status open_driver(const char* path, DriverTable* out, std::string* why);

}  // namespace thermocline
