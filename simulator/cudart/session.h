// SPDX-License-Identifier: Apache-2.0
// The runtime's state besides the driver's: each thread's device and its primary context, set up at the first call.
// Invariant: a thread for which `ready()` succeeded has the primary context of its device current, until it changes
// that itself through the driver.
#pragma once

#include "simulator/cudart/driver.h"
#include "simulator/cudart/errors.h"

namespace simulator::cudart {

cudaError_t ready();

int current_device();
cudaError_t select_device(int ordinal);
// Resets the primary context of the calling thread's device; threads get a new one at their next call.
cudaError_t reset_device();
// The primary context of a device, retained if necessary.
cudaError_t primary_context(int ordinal, CUcontext* context);

// The common frame of nearly every function: get ready, run the body, record a failure.
template <typename Body>
cudaError_t api(Rule rule, Body body) {
  const cudaError_t status = ready();
  return record(status == cudaSuccess ? body(driver(rule)) : status);
}

template <typename Body>
cudaError_t api(Body body) {
  return api(Rule::kLegacy, body);
}

inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUdeviceptr* address_out(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

// Prints "cudart: <name> is not carried by the simulated runtime (<reason>) ..." on stderr, once for each name, and
// returns the error for the caller.
cudaError_t not_carried(const char* name, const char* reason);

}  // namespace simulator::cudart

#define CUDART_UNPACK(...) __VA_ARGS__

// Defines a function and its per-thread variant with one implementation, whose first argument is the rule.
#define CUDART_BOTH(name, suffix, implementation, parameters, arguments)                   \
  extern "C" cudaError_t name parameters {                                                 \
    return implementation(::simulator::cudart::Rule::kLegacy, CUDART_UNPACK arguments);    \
  }                                                                                        \
  extern "C" cudaError_t name##suffix parameters;                                          \
  extern "C" cudaError_t name##suffix parameters {                                         \
    return implementation(::simulator::cudart::Rule::kPerThread, CUDART_UNPACK arguments); \
  }
