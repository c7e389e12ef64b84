// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/mechanisms.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "hooks/interpose/dynamic_linker.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/real_table.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

namespace {

void log_and_count(const MechanismText& text) {
  count(Counter::kMissingMechanisms);
  log_line(LogLevel::kWarning, "the driver does not do what the library assumes: %s (%s); %s", text.what, text.name,
           text.without);
}

// Without the layout of its parameters, a launch may access everything, and then everything would have to fit. A driver
// may export a function that it does not have: then a look-up does not find it.
bool driver_tells_parameters() {
  constexpr int kFirst = 12040;  // cuFuncGetParamInfo
  if (real_address(Function::cuFuncGetParamInfo) == nullptr) return false;
  void* found = nullptr;
  const CUresult asked = real<Function::cuGetProcAddress_v2>("cuFuncGetParamInfo", &found, kFirst,
                                                             cuuint64_t{CU_GET_PROC_ADDRESS_DEFAULT}, nullptr);
  if (asked != CUDA_ERROR_NOT_SUPPORTED && (asked != CUDA_SUCCESS || found == nullptr)) return false;
  const auto version_of = reinterpret_cast<CUresult (*)(int*)>(real_symbol("cuDriverGetVersion"));
  int version = 0;
  return version_of == nullptr || version_of(&version) != CUDA_SUCCESS || version >= kFirst;
}

}  // namespace

// If the library was loaded first, every object that asks the dynamic linker for the driver's functions uses its dlsym.
bool sees_operations() {
  static const bool sees = next_dlsym()(RTLD_DEFAULT, "dlsym") == reinterpret_cast<void*>(&dlsym);
  return sees;
}

void do_without(Mechanism mechanism) {
  static std::atomic<std::uint32_t> done{0};
  const std::uint32_t bit = 1U << static_cast<unsigned>(mechanism);
  if ((done.fetch_or(bit) & bit) != 0) return;
  for (const MechanismText& text : mechanism_texts()) {
    if (text.mechanism == mechanism) log_and_count(text);
  }
}

bool do_without(const Findings& findings, EngineOptions* options, const char** why) {
  *why = nullptr;
  for (const MechanismText& text : mechanism_texts()) {
    if (!findings.fails(text.mechanism)) continue;
    log_and_count(text);
    const bool is_vital = text.mechanism == Mechanism::kEvents || text.mechanism == Mechanism::kRemap;
    if (is_vital && *why == nullptr) *why = "the driver does not do what the library relies on";
  }
  if (findings.fails(Mechanism::kAlias)) options->may_alias = false;
  return *why == nullptr;
}

const char* missing_capability(const EngineOptions& options, const DeviceFacts& facts) {
  if (counted(Counter::kUnknownFunctions) > 0) return "the program has asked for driver functions that are not known";
  if (!sees_operations()) return "the program's operations are not seen";
  if (any_variant_goes_unseen().load()) return "the driver has a variant of a function that is not known";
  if (!driver_tells_parameters()) return "the driver does not tell what kernels are given";
  const bool full = options.host_fallback == HostFallback::kFull;
  return full && !facts.can_map_host ? "the device can not map memory of the host" : nullptr;
}

void limit_to_what_is_seen(EngineOptions* options) {
  if (!sees_operations() || any_variant_goes_unseen().load()) options->policy = kNoPolicy;
  options->evict_no_more = &any_variant_goes_unseen();
  if (driver_tells_parameters()) return;
  THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                       "the driver does not tell what kernels are given (CUDA 12.4 and later do); nothing is evicted");
  options->policy = kNoPolicy;
}

}  // namespace thermocline
