// SPDX-License-Identifier: Apache-2.0
// Describes the mappings of this process's address space, page by page: a flat table of 4 bytes per page, so that
// looking up, mapping and checking a range cost one array access per page. The table is virtual memory that takes real
// memory only where it is written. With several devices a second table has the rights of each; the first then has the
// rights that any of them has.
#pragma once

#include <sys/mman.h>

#include <optional>

#include "simulator/core/check.h"
#include "simulator/core/types.h"

namespace simulator {

enum class Access : std::uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

// The rights of each device: two bits of Access for each, the first device's lowest.
struct Rights {
  std::uint16_t bits = 0;

  static constexpr Rights of_all(Access access) {
    return {static_cast<std::uint16_t>(0x5555u * static_cast<unsigned>(access))};
  }
  Access of(DeviceId device) const { return static_cast<Access>((bits >> (2 * device)) & 3); }
  Rights with(DeviceId device, Access access) const {
    const unsigned cleared = bits & ~(3u << (2 * device));
    return {static_cast<std::uint16_t>(cleared | (static_cast<unsigned>(access) << (2 * device)))};
  }
  // The union of all devices' rights.
  Access of_any() const {
    return (bits & 0xaaaa) != 0 ? Access::kReadWrite : bits != 0 ? Access::kRead : Access::kNone;
  }
  bool operator==(const Rights&) const = default;
};

class PageTable {
 public:
  using Entry = std::uint32_t;  // 0: nothing. Else page number + 1 in the low bits, then access, then "host page".

  explicit PageTable(DeviceId devices = 1);
  ~PageTable();
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // One entry for each page of the address space, for code that reads the table directly.
  const Entry* entries() const { return entries_; }
  Entry entry(Address at) const { return at < kEnd ? entries_[at / kPageBytes] : 0; }

  static std::uint32_t page(Entry entry) { return (entry & kPageMask) - 1; }
  // The access of any device; and of one device.
  static Access access(Entry entry) { return static_cast<Access>((entry >> kAccessShift) & 3); }
  static bool is_host(Entry entry) { return (entry & kHost) != 0; }
  static bool is_device(Entry entry) { return entry != 0 && !is_host(entry); }

  Access access(Address at, DeviceId device) const {
    if (!is_device(entry(at))) return Access::kNone;
    return rights_ == nullptr ? access(entry(at)) : Rights{rights_[at / kPageBytes]}.of(device);
  }

  void set_device(Address at, std::uint32_t page, Rights rights) {
    check(at, page);
    entries_[at / kPageBytes] = (page + 1) | (static_cast<Entry>(rights.of_any()) << kAccessShift);
    if (rights_ != nullptr) rights_[at / kPageBytes] = rights.bits;
  }
  // Contents of host memory are tracked in tagged mode only.
  void set_host(Address at, std::uint32_t page) {
    check(at, page);
    entries_[at / kPageBytes] = (page + 1) | kHost;
  }
  void clear(Address at) {
    entries_[at / kPageBytes] = 0;
    if (rights_ != nullptr) rights_[at / kPageBytes] = 0;
  }

  // The first address of [at, at + bytes) that does not grant `needed` to any device, or to the given one; nothing if
  // all do.
  std::optional<Address> first_denied(Address at, Bytes bytes, Access needed) const;
  std::optional<Address> first_denied(Address at, Bytes bytes, Access needed, DeviceId device) const;

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
  std::uint16_t* rights_ = nullptr;  // with several devices: Rights, 0 if no device page is mapped
};

}  // namespace simulator
