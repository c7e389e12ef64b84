// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/layouts.h"

#include <mutex>
#include <utility>

#include "hooks/interpose/nccl.h"
#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

// A kernel has at most 32,764 bytes of parameters (CUDA C++ Programming Guide); a layout with more is a driver that
// never ends the list.
constexpr std::size_t kMostParameters = 32764;

// Asks for one parameter after the other until "invalid value" ends the list. If a parameter were missed, its buffer
// would not be made resident, so a second query confirms the end. False: the handle is not of that kind, or the end is
// not confirmed. `is_refused`: the driver takes no calls of this thread, which runs a host function.
template <class Ask>
bool read_layout(Ask ask, ParameterLayout* out, bool* is_refused) {
  out->clear();
  for (std::size_t i = 0; i <= kMostParameters; ++i) {
    ParameterSlot slot;
    const CUresult result = ask(i, &slot.offset, &slot.bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) {
      return ask(i, &slot.offset, &slot.bytes) == result && ask(i + 1, &slot.offset, &slot.bytes) == result;
    }
    *is_refused = result == CUDA_ERROR_NOT_PERMITTED;
    if (result != CUDA_SUCCESS) return false;
    out->push_back(slot);
  }
  return false;
}

bool ask_driver(CUfunction function, bool is_kernel, ParameterLayout* layout, bool* is_refused) {
  return read_layout(
      [function, is_kernel](std::size_t i, std::size_t* offset, std::size_t* bytes) {
        return is_kernel ? real<Function::cuKernelGetParamInfo>(reinterpret_cast<CUkernel>(function), i, offset, bytes)
                         : real<Function::cuFuncGetParamInfo>(function, i, offset, bytes);
      },
      layout, is_refused);
}

// Whether the driver still returns the first parameter of a function for which it has returned one before.
bool still_tells(CUfunction function, bool is_kernel) {
  std::size_t offset = 0, bytes = 0;
  return (is_kernel ? real<Function::cuKernelGetParamInfo>(reinterpret_cast<CUkernel>(function), 0, &offset, &bytes)
                    : real<Function::cuFuncGetParamInfo>(function, 0, &offset, &bytes)) == CUDA_SUCCESS;
}

// Null if the driver does not support the query.
const char* ask_name(CUfunction function, bool is_kernel) {
  const char* name = nullptr;
  const CUresult result = is_kernel ? real<Function::cuKernelGetName>(&name, reinterpret_cast<CUkernel>(function))
                                    : real<Function::cuFuncGetName>(&name, function);
  return result == CUDA_SUCCESS ? name : nullptr;
}

}  // namespace

[[gnu::noinline]] const Layouts::Facts& Layouts::ask(CUfunction function) {
  bool is_kernel = false;
  {
    const ReaderLock lock(mutex_);
    if (const auto found = facts_.find(function); found != facts_.end()) {
      place_of(function).store(found->second, std::memory_order_release);
      return *found->second;
    }
    is_kernel = kernels_.contains(function);
  }
  ParameterLayout layout;
  bool is_refused = false;
  bool known = ask_driver(function, is_kernel, &layout, &is_refused), is_final = !is_refused;
  if (known && layout.empty()) {
    // Either there are no parameters, or the driver cannot answer at the moment. If it still answers for another
    // function (the witness), there are none. The witness is reset before its module is unloaded.
    const MutexLock lock(witness_mutex_);
    is_final = witness_.function != nullptr;
    known = is_final && still_tells(witness_.function, witness_.is_kernel);
  }
  const char* const name = ask_name(function, is_kernel);
  if (known && !layout.empty()) {
    const MutexLock lock(witness_mutex_);
    witness_ = {function, is_kernel};
  }
  const WriterLock lock(mutex_);
  const ParameterLayout* const shared = known ? &*all_.insert(std::move(layout)).first : nullptr;
  Facts facts{.function = function, .layout = shared, .is_final = is_final};
  if (name != nullptr) {
    facts.name = names_.emplace(name, function).first->first.c_str();
    facts.operator_class = classify_operator(name, rules_);
    facts.is_of_nccl = is_kernel_of_nccl(name);
  }
  const Facts& kept = *known_.insert(facts).first;
  if (!is_final) return kept;
  const Facts* const final = facts_.emplace(function, &kept).first->second;
  place_of(function).store(final, std::memory_order_release);
  return *final;
}

void Layouts::set_rules(const std::vector<OperatorRule>& rules) {
  const WriterLock lock(mutex_);
  rules_ = rules;
}

void Layouts::note_kernel(CUkernel kernel, CUlibrary library) {
  const WriterLock lock(mutex_);
  kernels_[reinterpret_cast<CUfunction>(kernel)] = library;
}

void Layouts::forget_kernels(CUlibrary library) {
  forget_witness();
  const WriterLock lock(mutex_);
  std::erase_if(kernels_, [library](const auto& kernel) { return kernel.second == library; });
}

void Layouts::forget() {
  forget_witness();
  const WriterLock lock(mutex_);
  facts_.clear();
  for (auto& one : latest_) one.store(nullptr, std::memory_order_release);
}

void Layouts::forget_witness() {
  const MutexLock lock(witness_mutex_);
  witness_ = {};
}

}  // namespace thermocline
