// SPDX-License-Identifier: Apache-2.0
// From pages of this process's address space to what stands behind them: a flat table of 4 bytes a page, so that
// looking up, mapping and checking a range costs an array access a page. The table is virtual memory that only becomes
// real where it is written.
#pragma once

#include <sys/mman.h>

#include <optional>

#include "simulator/core/check.h"
#include "simulator/core/types.h"

namespace simulator {

enum class Access : std::uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

class PageTable {
 public:
  using Entry = std::uint32_t;  // 0: nothing. Else page number + 1 in the low bits, then access, then "host page".

  PageTable();
  ~PageTable() { munmap(entries_, kPages * sizeof(Entry)); }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  Entry entry(Address at) const { return at < kEnd ? entries_[at / kPageBytes] : 0; }

  static std::uint32_t page(Entry entry) { return (entry & kPageMask) - 1; }
  static Access access(Entry entry) { return static_cast<Access>((entry >> kAccessShift) & 3); }
  static bool is_host(Entry entry) { return (entry & kHost) != 0; }
  static bool is_device(Entry entry) { return entry != 0 && !is_host(entry); }

  void set_device(Address at, std::uint32_t page, Access access) {
    check(at, page);
    entries_[at / kPageBytes] = (page + 1) | (static_cast<Entry>(access) << kAccessShift);
  }
  // Contents of host memory are followed in tagged mode only.
  void set_host(Address at, std::uint32_t page) {
    check(at, page);
    entries_[at / kPageBytes] = (page + 1) | kHost;
  }
  void clear(Address at) { entries_[at / kPageBytes] = 0; }

  // The first address of [at, at + bytes) that does not grant `needed` to the device; nothing when all of it does.
  std::optional<Address> first_denied(Address at, Bytes bytes, Access needed) const;

 private:
  static constexpr Address kEnd = Address{1}
                                  << 47;  // user space of x86-64 and of arm64 with the usual 48 bits of kernel and user
  static constexpr std::size_t kPages = kEnd / kPageBytes;
  static constexpr unsigned kAccessShift = 28;
  static constexpr Entry kPageMask = (Entry{1} << kAccessShift) - 1;
  static constexpr Entry kHost = Entry{1} << 30;

  static void check(Address at, std::uint32_t page) {
    SIMULATOR_CHECK(at < kEnd && page < kPageMask, "addresses and page numbers fit the page table");
  }

  Entry* entries_;
};

}  // namespace simulator
