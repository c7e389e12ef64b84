// SPDX-License-Identifier: Apache-2.0
// The parameter layout of every function that has been launched, queried once (cuFuncGetParamInfo, CUDA 12.4;
// cuKernelGetParamInfo for a CUkernel that is passed as a CUfunction), and its class according to its name
// (cuFuncGetName, CUDA 12.3). Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/hash.h"
#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/operands/parameters.h"
#include "offload/operator_class.h"

namespace thermocline {

class Layouts {
 public:
  struct Facts {
    CUfunction function = nullptr;
    const ParameterLayout* layout = nullptr;               // see of()
    OperatorClass operator_class = OperatorClass::kOther;  // kOther if the driver does not return the name
    const char* name = nullptr;                            // valid until the process ends; null: the same
    bool is_of_nccl = false;
    bool is_final = true;                            // false: queried again at the next launch
    auto operator<=>(const Facts&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // All that follows, looked up once. Valid until the process ends. Nearly always found without a lock.
  const Facts& facts(CUfunction function) {
    const Facts* const there = place_of(function).load(std::memory_order_acquire);
    return there != nullptr && there->function == function ? *there : ask(function);
  }
  // Null: the driver does not support the query. Empty: the function has no parameters. Layouts are valid until the
  // process ends; functions with equal layouts share one.
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
  // As many as a program has kernels, with few that share a place.
  static constexpr unsigned kBits = 11;

  const Facts& ask(CUfunction function);
  void forget_witness();
  std::atomic<const Facts*>& place_of(CUfunction function) {
    return latest_.data()[hash_bits(reinterpret_cast<std::uintptr_t>(function), kBits)];
  }

  // By a hash of the function: one of facts_, or null. Written with mutex_ held, if only shared.
  std::array<std::atomic<const Facts*>, std::size_t{1} << kBits> latest_{};
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

inline Layouts& layouts() { return process_lifetime<Layouts>(); }

}  // namespace thermocline
