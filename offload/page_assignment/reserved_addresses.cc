// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/reserved_addresses.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

// Reserved addresses are at most one part in this many of the reservation: other buffers need addresses too.
constexpr Bytes kMostOfRange = 4;

}  // namespace

const ReservedAddresses::Reservation* ReservedAddresses::here(std::size_t place, Bytes bytes) const {
  if (place >= places_.size() || number_ > places_[place].size()) return nullptr;
  const Name name = places_[place][number_ - 1];
  return name != kNoIndex && reservations_[name].bytes == bytes ? &reservations_[name] : nullptr;
}

Block* ReservedAddresses::find(std::size_t place, Bytes bytes) {
  ++number_;
  const Reservation* const reserved_block = here(place, bytes);
  return reserved_block != nullptr && reserved_block->vacant ? reserved_block->block : nullptr;
}

std::optional<ReservedAddresses::Name> ReservedAddresses::occupied(std::size_t place, Bytes bytes, const Heap& heap,
                                                                   Block& block) {
  THERMOCLINE_CHECK(number_ > 0, "An allocation is announced first.");
  if (here(place, bytes) == nullptr) {
    if (place >= places_.size()) places_.resize(place + 1);
    std::vector<Name>& names = places_[place];
    names.resize(std::max(names.size(), number_), kNoIndex);
    // The size differs from the last iteration, so the former name can not be used again here.
    if (names[number_ - 1] != kNoIndex) return std::nullopt;
    names[number_ - 1] = static_cast<Name>(reservations_.size());
    reservations_.push_back({bytes, nullptr, false});
  }
  const Name name = places_[place][number_ - 1];
  Reservation& reserved_block = reservations_[name];
  if (reserved_block.block != &block) {
    // The previous buffer of this name has not been freed yet.
    if (reserved_block.block != nullptr) return std::nullopt;
    if (keeps_ && kept_bytes_ + block.bytes() > heap.range_bytes() / kMostOfRange) return std::nullopt;
    reserved_block.block = &block;
    kept_bytes_ += block.bytes();
    names_[&block] = name;
  }
  reserved_block.vacant = false;
  return name;
}

bool ReservedAddresses::vacated(const Block& block) {
  const auto known = names_.find(&block);
  if (known == names_.end()) return false;
  Reservation& reserved_block = reservations_[known->second];
  THERMOCLINE_CHECK(reserved_block.block == &block && !reserved_block.vacant,
                    "A reserved_block is vacated by whoever occupies it.");
  if (keeps_) {
    reserved_block.vacant = true;
    return true;
  }
  reserved_block.block = nullptr;
  kept_bytes_ -= block.bytes();
  names_.erase(known);
  return false;
}

std::optional<ReservedAddresses::Name> ReservedAddresses::name_of(const Block& block) const {
  const auto known = names_.find(&block);
  return known == names_.end() ? std::nullopt : std::optional(known->second);
}

void ReservedAddresses::clear(Heap& heap) {
  for (const Reservation& reserved_block : reservations_) {
    if (reserved_block.vacant) heap.dissolve(*reserved_block.block);
  }
  // The present allocation stays current: the reservation that can not be kept may be the one for it.
  const std::size_t number = number_;
  *this = ReservedAddresses();
  number_ = number;
}

}  // namespace thermocline
