// SPDX-License-Identifier: Apache-2.0
// The parameter layout of every function that has been launched, asked for once (cuFuncGetParamInfo, CUDA 12.4; for a
// CUkernel in a CUfunction's clothes cuKernelGetParamInfo), and what it is by its name (cuFuncGetName, CUDA 12.3).
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/operands/parameters.h"
#include "offload/operator_class.h"

namespace thermocline {

class Layouts {
 public:
  // Null: the driver can not tell. Empty: the function has no parameters. What is returned stays as long as the
  // process: functions of one layout share it. Of the functions that a thread launched last it knows the layout without
  // the lock.
  const ParameterLayout* of(CUfunction function) { return facts(function).layout; }
  // kOther where the driver can not tell the name.
  OperatorClass class_of(CUfunction function) { return facts(function).operator_class; }
  // As long as the process lives; null where the driver can not tell.
  const char* name_of(CUfunction function) { return facts(function).name; }
  bool is_of_nccl(CUfunction function) { return facts(function).is_of_nccl; }
  // Before the first launch.
  void set_rules(const std::vector<OperatorRule>& rules);
  // The driver gave out the handle as a CUkernel.
  void is_kernel(CUkernel kernel, CUlibrary library);
  // Handles may come again for other functions after their module or library is unloaded, or their context has ended.
  void forget();
  void forget_kernels(CUlibrary library);

 private:
  struct Facts {
    const ParameterLayout* layout = nullptr;
    OperatorClass operator_class = OperatorClass::kOther;
    const char* name = nullptr;
    bool is_of_nccl = false;
    bool is_settled = true;                          // false: asked for again at the next launch
    auto operator<=>(const Facts&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // A function of which the driver has told a parameter.
  struct Witness {
    CUfunction function = nullptr;
    bool is_kernel = false;
  };
  // What a thread launched last, by function.
  struct Remembered;

  const Facts& facts(CUfunction function);
  const Facts& ask(CUfunction function);
  void forget_witness();

  std::atomic<std::uint64_t> generation_{1};  // counts what was forgotten
  // Never held while the driver is asked: it may be running a function of the host, which launches.
  std::shared_mutex mutex_;
  std::set<ParameterLayout> all_;
  std::set<std::string> names_;
  std::set<Facts> known_;  // these stay, as the layouts do
  std::unordered_map<CUfunction, const Facts*> facts_;
  std::vector<OperatorRule> rules_;
  std::unordered_map<CUfunction, CUlibrary> kernels_;
  // Held while the driver is asked for the witness, so that its module stays loaded meanwhile.
  Mutex witness_mutex_{"witness of layouts", lock_level::kLeaf};
  Witness witness_ THERMOCLINE_GUARDED_BY(witness_mutex_);
};

Layouts& layouts();

}  // namespace thermocline
