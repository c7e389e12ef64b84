// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/device_view.h"

#include <sys/mman.h>

#include "simulator/core/check.h"

namespace simulator {
namespace {

void show(Address at, Bytes bytes, Access access) {
  const int protection = access == Access::kNone   ? PROT_NONE
                         : access == Access::kRead ? PROT_READ
                                                   : PROT_READ | PROT_WRITE;
  const int result = mprotect(reinterpret_cast<void*>(at), bytes, protection);
  SIMULATOR_CHECK(result == 0, "the system shows memory as one device sees it");
}

}  // namespace

DeviceView::DeviceView(const AddressSpace& addresses, DeviceId device) {
  addresses.for_device_mappings([&](Address at, Bytes bytes, Rights rights) {
    if (rights.of(device) == rights.of_any()) return;
    changed_.push_back({at, bytes, rights.of_any()});
    show(at, bytes, rights.of(device));
  });
}

DeviceView::~DeviceView() {
  for (const Changed& changed : changed_) show(changed.at, changed.bytes, changed.shown);
}

}  // namespace simulator
