// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/nvtx_ranges.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cwchar>

#include "driver/printable.h"

namespace thermocline {
namespace {

constexpr std::size_t kMostRanges = 8, kMostBytes = 48;

// A trivial type, so that it can be accessed while a thread begins or ends.
struct Ranges {
  std::size_t depth;  // may be more than are kept
  std::array<std::array<char, kMostBytes>, kMostRanges> names;
};
thread_local constinit Ranges ranges{};

void enter(const char* name) {
  if (ranges.depth++ >= kMostRanges) return;
  std::array<char, kMostBytes>& kept = ranges.names[ranges.depth - 1];
  std::size_t i = 0;
  for (; name != nullptr && name[i] != '\0' && i + 1 < kept.size(); ++i) kept[i] = name[i];
  kept[i] = '\0';
}

void enter_wide(const wchar_t* name) {
  std::array<char, kMostBytes> narrow{};
  for (std::size_t i = 0; name != nullptr && name[i] != L'\0' && i + 1 < narrow.size(); ++i)
    narrow[i] = name[i] > 0 && name[i] < 0x80 ? static_cast<char>(name[i]) : '?';
  enter(narrow.data());
}

void enter_event(const nvtxEventAttributes_t* attributes) {
  if (attributes == nullptr) return enter(nullptr);
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return enter(attributes->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return enter_wide(attributes->message.unicode);
    default:
      return enter(nullptr);  // a string that the tool knows by a handle
  }
}

// Domains share one stack: ranges of different domains that overlap without being nested end in another order here.
void leave() { ranges.depth -= ranges.depth > 0 ? 1 : 0; }

// The tool's functions. All clients of NVTX in the process get the same ones.
struct Tool {
  std::atomic<int (*)(NvtxGetExportTableFunc_t)> initialize{nullptr};
  std::atomic<nvtxDomainRangePushEx_impl_fntype> domain_push{nullptr};
  std::atomic<nvtxDomainRangePop_impl_fntype> domain_pop{nullptr};
  std::atomic<nvtxRangePushEx_impl_fntype> push_event{nullptr};
  std::atomic<nvtxRangePushA_impl_fntype> push{nullptr};
  std::atomic<nvtxRangePushW_impl_fntype> push_wide{nullptr};
  std::atomic<nvtxRangePop_impl_fntype> pop{nullptr};
};
constinit Tool tool;

// The return value of NVTX's functions if no tool keeps ranges.
constexpr int kNobodyKeepsRanges = NVTX_NO_PUSH_POP_TRACKING;

template <typename Function, typename... Arguments>
int tool_answer(const std::atomic<Function>& function, Arguments... arguments) {
  const Function call = function.load(std::memory_order_relaxed);
  return call == nullptr ? kNobodyKeepsRanges : call(arguments...);
}

int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  enter_event(attributes);
  return tool_answer(tool.domain_push, domain, attributes);
}
int domain_pop(nvtxDomainHandle_t domain) {
  leave();
  return tool_answer(tool.domain_pop, domain);
}
int push_event(const nvtxEventAttributes_t* attributes) {
  enter_event(attributes);
  return tool_answer(tool.push_event, attributes);
}
int push(const char* message) {
  enter(message);
  return tool_answer(tool.push, message);
}
int push_wide(const wchar_t* message) {
  enter_wide(message);
  return tool_answer(tool.push_wide, message);
}
int pop() {
  leave();
  return tool_answer(tool.pop);
}

// A table of a client's slots, and their contents before the tool was asked: these are functions of NVTX's own, which
// must not be called.
class Slots {
 public:
  Slots(NvtxGetExportTableFunc_t export_table, NvtxCallbackModule module) {
    const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(module, &table_, &size_) == 0) size_ = 0;
    for (unsigned i = 0; i < std::min<unsigned>(size_, kMostSlots); ++i) before_[i] = table_[i] ? *table_[i] : nullptr;
  }

  template <typename Function>
  void replace(unsigned number, Function ours, std::atomic<Function>* of_tool) {
    if (number >= std::min<unsigned>(size_, kMostSlots) || table_[number] == nullptr) return;
    const NvtxFunctionPointer now = *table_[number], own = reinterpret_cast<NvtxFunctionPointer>(ours);
    if (now == own) return;
    if (now != before_[number]) of_tool->store(reinterpret_cast<Function>(now), std::memory_order_relaxed);
    *table_[number] = own;
  }

 private:
  static constexpr unsigned kMostSlots = 32;
  NvtxFunctionTable table_ = nullptr;
  unsigned size_ = 0;
  std::array<NvtxFunctionPointer, kMostSlots> before_{};
};

}  // namespace
}  // namespace thermocline

// Initializes the library as a tool; exported under another name (below). with_nvtx_ranges recognizes this address.
extern "C" int thermocline_initialize_nvtx(NvtxGetExportTableFunc_t export_table) {
  using namespace thermocline;
  if (export_table == nullptr) return 0;
  Slots core(export_table, NVTX_CB_MODULE_CORE), domains(export_table, NVTX_CB_MODULE_CORE2);
  const auto of_tool = tool.initialize.load(std::memory_order_acquire);
  if (of_tool != nullptr && of_tool(export_table) == 0) return 0;
  domains.replace(NVTX_CBID_CORE2_DomainRangePushEx, &domain_push, &tool.domain_push);
  domains.replace(NVTX_CBID_CORE2_DomainRangePop, &domain_pop, &tool.domain_pop);
  core.replace(NVTX_CBID_CORE_RangePushEx, &push_event, &tool.push_event);
  core.replace(NVTX_CBID_CORE_RangePushA, &push, &tool.push);
  core.replace(NVTX_CBID_CORE_RangePushW, &push_wide, &tool.push_wide);
  core.replace(NVTX_CBID_CORE_RangePop, &pop, &tool.pop);
  return 1;
}
extern "C" __attribute__((visibility("default"), alias("thermocline_initialize_nvtx"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t export_table);

namespace thermocline {

void* with_nvtx_ranges(void* found) noexcept {
  using Initialize = int (*)(NvtxGetExportTableFunc_t);
  const auto of_tool = reinterpret_cast<Initialize>(found);
  Initialize before = nullptr;
  if (found == nullptr || of_tool == &thermocline_initialize_nvtx) return found;
  const bool is_ours = tool.initialize.compare_exchange_strong(before, of_tool, std::memory_order_acq_rel);
  return is_ours || before == of_tool ? reinterpret_cast<void*>(&thermocline_initialize_nvtx) : found;
}

std::string nvtx_ranges() {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranges.depth, kMostRanges); ++i) {
    const std::string name = printable(ranges.names[i].data());
    text += (i == 0 ? "" : " > ") + (name.empty() ? "(a range without a name)" : name);
  }
  if (ranges.depth > kMostRanges) text += " > ...";
  return text;
}

}  // namespace thermocline
