// SPDX-License-Identifier: Apache-2.0
// The simulator as a consumer of NVTX's ranges: two names of pushed ranges have a meaning here (nvtx_ranges.h). Source:
// nvtx3/nvtxDetail/nvtxTypes.h of CUDA 13.0: the client passes an export table, whose table of functions has slots for
// the tool's functions.
#include "simulator/cuda/memory/nvtx_ranges.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace simulator::cuda {
namespace {

constexpr char kName[] = "unordered reads";

struct Range {
  bool reads_without_order = false;
  std::optional<Declared> declared{};
};

// The ranges that the thread has pushed, innermost last; null: none. Without a destructor: where a process ends, exit
// handlers push ranges when the thread's objects have been destroyed.
thread_local constinit std::vector<Range>* ranges = nullptr;

Fetch plain(Address address, Bytes bytes) {
  Fetch range;
  range.address = address;
  range.shape.width = bytes;
  return range;
}

std::optional<Declared> declared_in(const char* message) {
  unsigned long long read = 0, read_bytes = 0, written = 0, written_bytes = 0;
  const int found =
      std::sscanf(message, "reads 0x%llx %llu, may write 0x%llx %llu", &read, &read_bytes, &written, &written_bytes);
  if (found < 2) return std::nullopt;
  Declared declared{plain(read, read_bytes)};
  if (found == 4) declared.may_write = plain(written, written_bytes);
  return declared;
}

int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  Range range;
  if (attributes != nullptr && attributes->messageType == NVTX_MESSAGE_TYPE_ASCII &&
      attributes->message.ascii != nullptr) {
    range.reads_without_order = std::strcmp(attributes->message.ascii, kName) == 0;
    range.declared = declared_in(attributes->message.ascii);
  }
  if (ranges == nullptr) ranges = new std::vector<Range>();
  ranges->push_back(range);
  return static_cast<int>(ranges->size()) - 1;
}

// Domains share one stack here: if ranges of different domains overlap without being nested, they end in another order
// than intended.
int pop(nvtxDomainHandle_t) {
  if (ranges == nullptr) return -2;  // NVTX's result for that
  ranges->pop_back();
  const auto left = static_cast<int>(ranges->size());
  if (left == 0) delete std::exchange(ranges, nullptr);
  return left;
}

}  // namespace

bool reads_without_order() {
  return ranges != nullptr &&
         std::any_of(ranges->begin(), ranges->end(), [](const Range& range) { return range.reads_without_order; });
}

std::optional<Declared> declared_accesses() { return ranges == nullptr ? std::nullopt : ranges->back().declared; }

}  // namespace simulator::cuda

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainRangePop) {
    return 1;  // the rest of NVTX is usable without this
  }
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&simulator::cuda::push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&simulator::cuda::pop);
  return 1;
}
