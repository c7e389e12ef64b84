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

DeclaredRead::DeclaredRead(bool tell, DeviceAddress at, Bytes bytes) : told_(tell) {
  if (!told_) return;
  char message[64];
  std::snprintf(message, sizeof message, "reads 0x%" PRIx64 " %" PRIu64, at.value, bytes);
  push(message);
}

DeclaredRead::~DeclaredRead() {
  if (told_) nvtxDomainRangePop(domain());
}

}  // namespace thermocline
