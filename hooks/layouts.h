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
  // Handles may come again for other functions after a module or library is unloaded.
  void forget();

 private:
  std::shared_mutex mutex_;
  std::unordered_map<CUfunction, std::shared_ptr<const ParameterLayout>> layouts_;
};

Layouts& layouts();

}  // namespace thermocline
