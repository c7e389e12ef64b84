// SPDX-License-Identifier: Apache-2.0
#include "driver/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

#include <cinttypes>
#include <cstdio>

namespace thermocline {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t ours = nvtxDomainCreateA("thermocline");
  return ours;
}

void push(const char* message) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = message;
  nvtxDomainRangePushEx(domain(), &attributes);
}

}  // namespace

UnorderedReads::UnorderedReads(bool tell) : told_(tell) {
  if (told_) push("unordered reads");
}

UnorderedReads::~UnorderedReads() {
  if (told_) nvtxDomainRangePop(domain());
}

DeclaredAccesses::DeclaredAccesses(bool tell, DeviceAddress at, Bytes bytes, const void* host) : told_(tell) {
  if (!told_) return;
  char message[128];
  const int length = std::snprintf(message, sizeof message, "reads 0x%" PRIx64 " %" PRIu64, at.value, bytes);
  if (host != nullptr) {
    std::snprintf(message + length, sizeof message - static_cast<std::size_t>(length),
                  ", may write 0x%" PRIxPTR " %" PRIu64, reinterpret_cast<std::uintptr_t>(host), bytes);
  }
  push(message);
}

DeclaredAccesses::~DeclaredAccesses() {
  if (told_) nvtxDomainRangePop(domain());
}

}  // namespace thermocline
