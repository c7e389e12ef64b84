// SPDX-License-Identifier: Apache-2.0
// The parameter layout of every function that has been launched, asked for once (cuFuncGetParamInfo, CUDA 12.4; for a
// CUkernel in a CUfunction's clothes cuKernelGetParamInfo). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "hooks/cuda_api.h"
#include "hooks/parameters.h"

namespace thermocline {

class Layouts {
 public:
  // Null: the driver can not tell. What is returned stays as long as the process: functions of one layout share it. Of
  // the functions that a thread launched last it knows the layout without the lock.
  const ParameterLayout* of(CUfunction function);
  // The driver gave out the handle as a CUkernel.
  void is_kernel(CUkernel kernel, CUlibrary library);
  // Handles may come again for other functions after their module or library is unloaded.
  void forget();
  void forget_kernels(CUlibrary library);

 private:
  const ParameterLayout* ask(CUfunction function);

  std::atomic<std::uint64_t> generation_{1};  // counts what was forgotten
  std::shared_mutex mutex_;
  std::set<ParameterLayout> all_;
  std::unordered_map<CUfunction, const ParameterLayout*> layouts_;
  std::unordered_map<CUfunction, CUlibrary> kernels_;
};

Layouts& layouts();

}  // namespace thermocline
