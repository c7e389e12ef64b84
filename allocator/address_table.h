// SPDX-License-Identifier: Apache-2.0
// A hash table from an address to the object that begins there: open addressing with linear probing, so that a look-up
// reads one cache line. At most a quarter full, so that collisions are rare. Removal moves later entries up, so there
// are no tombstones (Knuth, vol. 3, 6.4, algorithm R).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/check.h"
#include "driver/hash.h"
#include "driver/units.h"

namespace thermocline {

// Invariants: every entry can be reached from its home slot without passing an empty slot; size is the number of
// entries.
template <class T>
class AddressTable {
 public:
  // The slot of an entry; valid until the table changes.
  using SlotIndex = std::size_t;
  static constexpr SlotIndex kNoSlot = ~std::size_t{0};

  T* find(DeviceAddress address) const {
    const SlotIndex slot = slot_of(address);
    return slot == kNoSlot ? nullptr : at(slot);
  }
  // kNoSlot: nothing begins there, as at address 0.
  SlotIndex slot_of(DeviceAddress address) const {
    const Slot* const slots = slots_.data();
    for (std::size_t at = home(address.value);; at = (at + 1) & mask_) {
      const std::uint64_t found = slots[at].address;
      if (found == 0) return kNoSlot;
      if (found == address.value) return at;
    }
  }
  T* at(SlotIndex slot) const { return slots_.data()[slot].value; }
  // The address must not be in the table, and must not be 0.
  void put(DeviceAddress address, T* value) {
    if (size_ == most_) [[unlikely]]
      grow();
    insert({address.value, value});
    ++size_;
  }
  void remove(DeviceAddress address) {
    const SlotIndex slot = slot_of(address);
    THERMOCLINE_CHECK(slot != kNoSlot, "What is removed is there.");
    remove_at(slot);
  }
  void remove_at(SlotIndex hole) {
    Slot* const slots = slots_.data();
    for (std::size_t at = (hole + 1) & mask_; slots[at].address != 0; at = (at + 1) & mask_) {
      // An entry may move to the hole unless its home slot lies behind the hole.
      if (((at - home(slots[at].address)) & mask_) < ((at - hole) & mask_)) continue;
      slots[hole] = slots[at];
      hole = at;
    }
    slots[hole] = Slot{};
    --size_;
  }
  std::size_t size() const { return size_; }

  void validate() const {
    std::size_t entries = 0;
    for (const Slot& slot : slots_) {
      if (slot.address == 0) continue;
      ++entries;
      THERMOCLINE_CHECK(find(DeviceAddress{slot.address}) == slot.value, "An entry is found.");
    }
    THERMOCLINE_CHECK(entries == size_ && size_ <= most_ && 4 * most_ == slots_.size(),
                      "A table counts its entries, and has room.");
  }

 private:
  struct Slot {
    std::uint64_t address = 0;
    T* value = nullptr;
  };
  static constexpr std::size_t kLeast = 64;

  // Fibonacci hashing: the upper bits of a product with 2^64 / phi.
  std::size_t home(std::uint64_t address) const { return (address * kHashFactor) >> shift_; }
  void insert(Slot slot) {
    Slot* const slots = slots_.data();
    std::size_t at = home(slot.address);
    while (slots[at].address != 0) at = (at + 1) & mask_;
    slots[at] = slot;
  }
  [[gnu::noinline]] void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    most_ = slots_.size() / 4;
    --shift_;
    for (const Slot& slot : old) {
      if (slot.address != 0) insert(slot);
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kLeast);
  std::size_t mask_ = kLeast - 1;
  unsigned shift_ = 58;
  std::size_t size_ = 0;
  std::size_t most_ = kLeast / 4;  // entries, before it grows
};

}  // namespace thermocline
