// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/page_table.h"

#include <algorithm>
#include <new>

namespace simulator {

namespace {

template <typename T>
T* make_table(std::size_t count) {
  void* const table =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) throw std::bad_alloc();
  return static_cast<T*>(table);
}

}  // namespace

PageTable::PageTable(DeviceId devices) : entries_(make_table<Entry>(kPages)) {
  if (devices <= 1) return;
  try {
    rights_ = make_table<std::uint16_t>(kPages);
  } catch (const std::bad_alloc&) {
    munmap(entries_, kPages * sizeof(Entry));
    throw;
  }
}

PageTable::~PageTable() {
  munmap(entries_, kPages * sizeof(Entry));
  if (rights_ != nullptr) munmap(rights_, kPages * sizeof *rights_);
}

std::optional<Address> PageTable::first_denied(Address at, Bytes bytes, Access needed, DeviceId device) const {
  if (rights_ == nullptr) return first_denied(at, bytes, needed);
  const Address end = at + bytes;
  if (bytes > 0 && (end > kEnd || end < at)) return at;
  const Rights needs = Rights{}.with(device, needed);
  for (std::size_t page = at / kPageBytes; page < (end + kPageBytes - 1) / kPageBytes; ++page) {
    if ((rights_[page] & needs.bits) != needs.bits) return std::max(at, page * kPageBytes);
  }
  return std::nullopt;
}

std::optional<Address> PageTable::first_denied(Address at, Bytes bytes, Access needed) const {
  const auto needs = static_cast<Entry>(needed) << kAccessShift;
  const Address end = at + bytes;
  if (bytes > 0 && (end > kEnd || end < at)) return at;
  std::size_t page = at / kPageBytes;
  const std::size_t last = (end + kPageBytes - 1) / kPageBytes;
  const Entry mask = needs | kHost;
  // Checks several entries at a time: large buffers have hundreds of pages, and nearly always all are accessible.
  constexpr std::size_t kSome = 16;
  for (; page + kSome <= last; page += kSome) {
    Entry wrong = 0;
    for (std::size_t i = 0; i < kSome; ++i) wrong |= (entries_[page + i] & mask) ^ needs;
    if (wrong != 0) break;
  }
  for (; page < last; ++page) {
    if ((entries_[page] & mask) != needs) return std::max(at, page * kPageBytes);
  }
  return std::nullopt;
}

}  // namespace simulator
