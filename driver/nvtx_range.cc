// SPDX-License-Identifier: Apache-2.0
#include "driver/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

namespace thermocline {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t ours = nvtxDomainCreateA("thermocline");
  return ours;
}

}  // namespace

UnorderedReads::UnorderedReads(bool tell) : told_(tell) {
  if (!told_) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "unordered reads";
  nvtxDomainRangePushEx(domain(), &attributes);
}

UnorderedReads::~UnorderedReads() {
  if (told_) nvtxDomainRangePop(domain());
}

}  // namespace thermocline
