// SPDX-License-Identifier: Apache-2.0
// Shared by all programs of a process: the contexts, the module, its functions.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/fuzz_cuda/setups.h"

namespace model {

// Ends the process with status 2 (kRefused if the call was out of memory), and names the call.
void check_cuda(CUresult result, const char* call);
// Printed when a call fails: the seed of the program that this thread runs, and the step.
inline thread_local std::uint64_t current_seed = 0, current_step = 0;

// Whether the driver has the function.
bool driver_has(const char* function);

#define CHECK_CUDA(call) ::model::check_cuda(call, #call)

struct Device {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUdeviceptr roots = 0;  // the module's global variable
  CUmemoryPool pool = nullptr;

  struct Function {
    CUfunction of_module = nullptr;
    CUfunction of_library = nullptr;  // a CUkernel, which needs no context
  };
  std::map<std::string, Function, std::less<>> functions;

  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Nanoseconds on the simulated device's clock; 0 on another device.
  static std::uint64_t simulated_ns();
};

}  // namespace model
