// SPDX-License-Identifier: Apache-2.0
// The parameter layout of every function that has been launched, queried once (cuFuncGetParamInfo, CUDA 12.4;
// cuKernelGetParamInfo for a CUkernel that is passed as a CUfunction), and its class according to its name
// (cuFuncGetName, CUDA 12.3). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/operands/parameters.h"
#include "offload/operator_class.h"

namespace thermocline {

class Layouts {
 public:
  struct Facts {
    const ParameterLayout* layout = nullptr;               // see of()
    OperatorClass operator_class = OperatorClass::kOther;  // kOther if the driver does not return the name
    const char* name = nullptr;                            // valid until the process ends; null: the same
    bool is_of_nccl = false;
    bool is_final = true;                            // false: queried again at the next launch
    auto operator<=>(const Facts&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // All that follows, looked up once. Valid until the process ends.
  const Facts& facts(CUfunction function);
  // Null: the driver does not support the query. Empty: the function has no parameters. Layouts are valid until the
  // process ends; functions with equal layouts share one. For the functions that a thread launched most recently no
  // lock is taken.
  const ParameterLayout* of(CUfunction function) { return facts(function).layout; }
  // Must be called before the first launch.
  void set_rules(const std::vector<OperatorRule>& rules);
  // The driver returned the handle as a CUkernel.
  void note_kernel(CUkernel kernel, CUlibrary library);
  // A module or library was unloaded, or a context has ended: its handles may be reused for other functions.
  void forget();
  void forget_kernels(CUlibrary library);

 private:
  // A function for which the driver has returned a parameter (see still_tells).
  struct Witness {
    CUfunction function = nullptr;
    bool is_kernel = false;
  };
  // The functions that a thread launched most recently.
  struct Remembered;

  const Facts& ask(CUfunction function);
  const Facts& ask_and_remember(CUfunction function, Remembered& remembered, std::uint64_t generation);
  void forget_witness();

  std::atomic<std::uint64_t> generation_{1};  // incremented by forget()
  // Never held during a driver call: the driver may be running a host function that launches kernels.
  SharedMutex mutex_{"layouts", lock_level::kLeaf};
  std::set<ParameterLayout> all_ THERMOCLINE_GUARDED_BY(mutex_);
  // Two functions of one name are two kernels.
  std::set<std::pair<std::string, CUfunction>> names_ THERMOCLINE_GUARDED_BY(mutex_);
  std::set<Facts> known_ THERMOCLINE_GUARDED_BY(mutex_);  // never removed, like the layouts
  std::unordered_map<CUfunction, const Facts*> facts_ THERMOCLINE_GUARDED_BY(mutex_);
  std::vector<OperatorRule> rules_ THERMOCLINE_GUARDED_BY(mutex_);
  std::unordered_map<CUfunction, CUlibrary> kernels_ THERMOCLINE_GUARDED_BY(mutex_);
  // Held while the driver is asked about the witness, so that its module is not unloaded meanwhile.
  Mutex witness_mutex_{"witness of layouts", lock_level::kLeaf};
  Witness witness_ THERMOCLINE_GUARDED_BY(witness_mutex_);
};

Layouts& layouts();

}  // namespace thermocline
