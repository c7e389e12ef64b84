// SPDX-License-Identifier: Apache-2.0
// The parameter layout of every function that has been launched, asked for once (cuFuncGetParamInfo, CUDA 12.4; for a
// CUkernel in a CUfunction's clothes cuKernelGetParamInfo). Thread-safe.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "hooks/cuda_api.h"
#include "hooks/parameters.h"

namespace thermocline {

class Layouts {
 public:
  // Null: the driver can not tell.
  std::shared_ptr<const ParameterLayout> of(CUfunction function);
  // The driver gave out the handle as a CUkernel.
  void is_kernel(CUkernel kernel, CUlibrary library);
  // Handles may come again for other functions after their module or library is unloaded.
  void forget();
  void forget_kernels(CUlibrary library);

 private:
  std::shared_mutex mutex_;
  std::unordered_map<CUfunction, std::shared_ptr<const ParameterLayout>> layouts_;
  std::unordered_map<CUfunction, CUlibrary> kernels_;
};

Layouts& layouts();

}  // namespace thermocline
