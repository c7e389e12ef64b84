// SPDX-License-Identifier: Apache-2.0
// The driver API as this runtime uses it: two tables of entry points, one for each meaning of the default stream. They
// are looked up in the same way as in NVIDIA's runtime (dlopen of libcuda.so.1, dlsym of cuGetProcAddress_v2,
// everything else through that). So a library that interposes between a program and its driver sees this runtime like
// the real one.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

namespace simulator::cudart {

// The meaning of stream 0 for the caller: `_ptsz` and `_ptds` functions use the per-thread default stream.
enum class Rule { kLegacy, kPerThread };

// A function that the driver lacks is null; invoke() turns a call of it into an error.
struct Driver {
#define CUDART_ENTRY(name) decltype(&::name) name = nullptr;
#include "simulator/cudart/driver_entries.def"
#undef CUDART_ENTRY
};

// Loads and initializes the driver at the first call. Later calls return the first call's result.
cudaError_t load_driver();

// May be called only after load_driver() has succeeded.
const Driver& driver(Rule rule = Rule::kLegacy);

cudaError_t from_driver(CUresult result);

// Prints a message, once for each name, and returns cudaErrorCallRequiresNewerDriver.
cudaError_t missing_entry(const char* name);

template <typename... Parameters, typename... Arguments>
cudaError_t invoke(CUresult (*entry)(Parameters...), const char* name, Arguments... arguments) {
  return entry == nullptr ? missing_entry(name) : from_driver(entry(arguments...));
}

}  // namespace simulator::cudart

// CUDART_CALL(table, cuMemFree, address): makes the call and returns its result as a runtime error.
#define CUDART_CALL(table, name, ...) ::simulator::cudart::invoke((table).name, #name __VA_OPT__(, ) __VA_ARGS__)
