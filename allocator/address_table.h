// SPDX-License-Identifier: Apache-2.0
// A table from an address of the reservation to the object that begins there. Objects begin at multiples of a granule,
// in pages that the table has. Such a page has a slot for every granule, so that a look-up reads two words and
// needs no hash, and a bit for each, so that the last object before an address is found a word at a time: a 63rd of the
// page's size in host memory, which is used again for other pages.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "driver/check.h"
#include "driver/units.h"

namespace thermocline {

// Invariants: a granule's bit is set exactly when its slot is not null; size is the number of objects. Spare slots and
// bits are all 0.
template <class T>
class AddressTable {
  struct Page {
    T** slots = nullptr;
    std::uint64_t* bits = nullptr;
  };

 public:
  static constexpr int kGranuleShift = 9;

  // Pages have a power of two of bytes.
  AddressTable(DeviceAddress begin, Bytes bytes, Bytes page_bytes)
      : begin_(begin.value),
        bytes_(bytes),
        page_shift_(std::countr_zero(page_bytes)),
        granules_(page_bytes >> kGranuleShift),
        last_slot_(granules_ - 1),
        memory_(zeroes(bytes / page_bytes + 1, sizeof(Page))),
        pages_(static_cast<Page*>(memory_.get())) {
    THERMOCLINE_CHECK(std::has_single_bit(page_bytes) && granules_ > 0, "A page has a power of two of granules.");
  }

  // Where an object stands; valid as long as it does.
  struct Entry {
    Page page;
    std::uint64_t slot = 0;
  };
  T* find(DeviceAddress address) const {
    Entry ignored;
    return find(address, &ignored);
  }
  T* find(DeviceAddress address, Entry* entry) const {
    const std::uint64_t offset = address.value - begin_;
    if (offset >= bytes_ || offset % (1u << kGranuleShift) != 0) return nullptr;
    *entry = entry_of(offset);
    return entry->page.slots != nullptr ? entry->page.slots[entry->slot] : nullptr;
  }
  // Whole pages; when they are removed, no object may be there. Without memory std::bad_alloc, and none is added.
  void add_pages(DeviceAddress begin, Bytes bytes) {
    while (spare_.size() < bytes >> page_shift_) make();
    for_each_page(begin, bytes, [this](Page& page) {
      page = spare_.back();
      spare_.pop_back();
    });
  }
  void remove_pages(DeviceAddress begin, Bytes bytes) {
    for_each_page(begin, bytes, [this](Page& page) {
      spare_.push_back(page);
      page = {};
    });
  }
  // There must be none at the address, and its page must be here.
  void put(DeviceAddress address, T* value) {
    const Entry entry = entry_of(address.value - begin_);
    entry.page.slots[entry.slot] = value;
    entry.page.bits[entry.slot / 64] |= std::uint64_t{1} << entry.slot % 64;
    ++size_;
  }
  // There must be one.
  void remove(const Entry& entry) {
    entry.page.slots[entry.slot] = nullptr;
    entry.page.bits[entry.slot / 64] &= ~(std::uint64_t{1} << entry.slot % 64);
    --size_;
  }
  void remove(DeviceAddress address) { remove(entry_of(address.value - begin_)); }
  // The last object that begins at `address` or before it, and not before `from`; null: none. All pages between these
  // must be here.
  T* last_in(DeviceAddress from, DeviceAddress address) const {
    const std::uint64_t first = (from.value - begin_) >> kGranuleShift;
    for (std::uint64_t granule = (address.value - begin_) >> kGranuleShift;;) {
      const auto [page, slot] = entry_of(granule << kGranuleShift);
      // From the granule down to the begin of its word.
      const std::uint64_t bits = page.bits[slot / 64] << (63 - slot % 64);
      if (bits != 0) {
        const auto down = static_cast<std::uint64_t>(std::countl_zero(bits));
        return granule - down >= first ? page.slots[slot - down] : nullptr;
      }
      if (granule - first <= slot % 64) return nullptr;
      granule -= slot % 64 + 1;
    }
  }
  std::size_t size() const { return size_; }

  void validate() const {
    std::size_t objects = 0, spare = 0;
    for (const auto& made : made_) objects += count(page_in(made.get()));
    for (const Page& page : spare_) spare += count(page);
    THERMOCLINE_CHECK(objects == size_ && spare == 0, "A table counts its objects, and none is in a spare page.");
  }

 private:
  struct Freed {
    void operator()(void* memory) const { std::free(memory); }
  };

  Entry entry_of(std::uint64_t offset) const {
    return {pages_[offset >> page_shift_], (offset >> kGranuleShift) & last_slot_};
  }
  template <class Visit>
  void for_each_page(DeviceAddress begin, Bytes bytes, Visit visit) {
    const std::uint64_t first = (begin.value - begin_) >> page_shift_;
    for (std::uint64_t page = first; page < first + (bytes >> page_shift_); ++page) visit(pages_[page]);
  }
  // The memory of a page: its slots, and then its bits.
  Page page_in(void* memory) const {
    static_assert(sizeof(T*) == sizeof(std::uint64_t));
    T** const slots = static_cast<T**>(memory);
    return {slots, reinterpret_cast<std::uint64_t*>(slots + granules_)};
  }
  using Memory = std::unique_ptr<void, Freed>;
  static Memory zeroes(std::size_t count, std::size_t bytes) {
    Memory memory(std::calloc(count, bytes));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  // One more spare page. There is room in spare_ for all, so that removing pages takes no memory.
  void make() {
    if (spare_.capacity() <= made_.size()) spare_.reserve(2 * made_.size() + 8);
    made_.push_back(zeroes(granules_ + (granules_ + 63) / 64, sizeof(std::uint64_t)));
    spare_.push_back(page_in(made_.back().get()));
  }
  std::size_t count(const Page& page) const {
    std::size_t objects = 0;
    for (std::uint64_t slot = 0; slot < granules_; ++slot) {
      const bool is_marked = (page.bits[slot / 64] >> slot % 64 & 1) != 0;
      THERMOCLINE_CHECK(is_marked == (page.slots[slot] != nullptr), "A granule's bit says whether its slot is used.");
      objects += is_marked ? 1 : 0;
    }
    return objects;
  }

  std::uint64_t begin_;
  Bytes bytes_;
  int page_shift_;
  std::uint64_t granules_;  // of a page
  std::uint64_t last_slot_;
  Memory memory_;  // written only where there have been pages
  Page* pages_;    // null: the page is not here
  std::size_t size_ = 0;
  std::vector<Memory> made_;
  std::vector<Page> spare_;
};

}  // namespace thermocline
