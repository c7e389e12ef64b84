// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/page_table.h"

namespace simulator {

PageTable::PageTable() {
  void* const table =
      mmap(nullptr, kPages * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SIMULATOR_CHECK(table != MAP_FAILED, "there is address space for the page table (256 MiB)");
  entries_ = static_cast<Entry*>(table);
}

std::optional<Address> PageTable::first_denied(Address at, Bytes bytes, Access needed) const {
  const auto needs = static_cast<Entry>(needed) << kAccessShift;
  const Address end = at + bytes;
  if (bytes > 0 && (end > kEnd || end < at)) return at;
  for (Address page = round_down(at, kPageBytes); page < end; page += kPageBytes) {
    if ((entries_[page / kPageBytes] & (needs | kHost)) != needs) return page < at ? at : page;
  }
  return std::nullopt;
}

}  // namespace simulator
