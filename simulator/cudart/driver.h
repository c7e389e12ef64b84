// SPDX-License-Identifier: Apache-2.0
// The driver API as this runtime sees it: two tables of entry points, one per rule for the default stream. They are
// looked up the way NVIDIA's runtime does it (dlopen of libcuda.so.1, dlsym of cuGetProcAddress_v2, the rest through
// that), so whoever stands between a program and its driver meets this runtime as the real one.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

namespace simulator::cudart {

// What stream 0 means to the caller: `_ptsz` and `_ptds` functions are compiled with the per-thread rule.
enum class Rule { kLegacy, kPerThread };

// An entry that the driver does not have is null; invoke() turns a call of it into an error.
struct Driver {
#define CUDART_ENTRY(name) decltype(&::name) name = nullptr;
#include "simulator/cudart/driver_entries.def"
#undef CUDART_ENTRY
};

// Loads the driver at the first call and initialises it. Later calls return the first call's status.
cudaError_t load_driver();

// Only after load_driver() has succeeded.
const Driver& driver(Rule rule = Rule::kLegacy);

cudaError_t from_driver(CUresult result);

// A sentence on stderr, once for each name, then cudaErrorCallRequiresNewerDriver.
cudaError_t missing_entry(const char* name);

template <typename... Parameters, typename... Arguments>
cudaError_t invoke(CUresult (*entry)(Parameters...), const char* name, Arguments... arguments) {
  return entry == nullptr ? missing_entry(name) : from_driver(entry(arguments...));
}

}  // namespace simulator::cudart

// CUDART_CALL(table, cuMemFree, address): the call, its result as a runtime error.
#define CUDART_CALL(table, name, ...) ::simulator::cudart::invoke((table).name, #name __VA_OPT__(, ) __VA_ARGS__)
