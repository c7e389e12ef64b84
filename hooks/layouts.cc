// SPDX-License-Identifier: Apache-2.0
#include "hooks/layouts.h"

#include <mutex>

#include "hooks/symbols.h"

namespace thermocline {
namespace {

// A kernel has at most 32,764 bytes of parameters (CUDA C++ Programming Guide); more would be an endless answer.
constexpr std::size_t kMostParameters = 32764;

// Asks for one parameter after the other until "invalid value" ends the list. False when the handle is not of that
// kind.
template <class Ask>
bool read_layout(Ask ask, ParameterLayout* out) {
  out->clear();
  for (std::size_t i = 0; i <= kMostParameters; ++i) {
    ParameterSlot slot;
    const CUresult result = ask(i, &slot.offset, &slot.bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) return true;
    if (result != CUDA_SUCCESS) return false;
    out->push_back(slot);
  }
  return false;
}

std::shared_ptr<const ParameterLayout> ask_driver(CUfunction function, bool is_kernel) {
  auto layout = std::make_shared<ParameterLayout>();
  const bool known = read_layout(
      [function, is_kernel](std::size_t i, std::size_t* offset, std::size_t* bytes) {
        return is_kernel ? real<Function::cuKernelGetParamInfo>(reinterpret_cast<CUkernel>(function), i, offset, bytes)
                         : real<Function::cuFuncGetParamInfo>(function, i, offset, bytes);
      },
      layout.get());
  return known ? layout : nullptr;
}

}  // namespace

std::shared_ptr<const ParameterLayout> Layouts::of(CUfunction function) {
  bool is_kernel = false;
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = layouts_.find(function); found != layouts_.end()) return found->second;
    is_kernel = kernels_.contains(function);
  }
  auto layout = ask_driver(function, is_kernel);
  const std::unique_lock lock(mutex_);
  return layouts_.emplace(function, std::move(layout)).first->second;
}

void Layouts::is_kernel(CUkernel kernel, CUlibrary library) {
  const std::unique_lock lock(mutex_);
  kernels_[reinterpret_cast<CUfunction>(kernel)] = library;
}

void Layouts::forget_kernels(CUlibrary library) {
  const std::unique_lock lock(mutex_);
  std::erase_if(kernels_, [library](const auto& kernel) { return kernel.second == library; });
}

void Layouts::forget() {
  const std::unique_lock lock(mutex_);
  layouts_.clear();
}

Layouts& layouts() {
  // Never destroyed: programs launch kernels in their own destructors.
  static auto* const all = new Layouts;
  return *all;
}

}  // namespace thermocline
