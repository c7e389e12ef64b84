// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/berths.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

// Reserved addresses are at most one part in this many of the reservation: other buffers need addresses too.
constexpr Bytes kMostOfRange = 4;

}  // namespace

const Berths::Berth* Berths::here(std::size_t place, Bytes bytes) const {
  if (place >= places_.size() || number_ > places_[place].size()) return nullptr;
  const Name name = places_[place][number_ - 1];
  return name != kNobody && berths_[name].bytes == bytes ? &berths_[name] : nullptr;
}

Block* Berths::find(std::size_t place, Bytes bytes) {
  ++number_;
  const Berth* const berth = here(place, bytes);
  return berth != nullptr && berth->vacant ? berth->block : nullptr;
}

std::optional<Berths::Name> Berths::occupied(std::size_t place, Bytes bytes, const Heap& heap, Block& block) {
  THERMOCLINE_CHECK(number_ > 0, "An allocation is announced first.");
  if (here(place, bytes) == nullptr) {
    if (place >= places_.size()) places_.resize(place + 1);
    std::vector<Name>& names = places_[place];
    names.resize(std::max(names.size(), number_), kNobody);
    // The size differs from the last iteration, so the former name can not be used again here.
    if (names[number_ - 1] != kNobody) return std::nullopt;
    names[number_ - 1] = static_cast<Name>(berths_.size());
    berths_.push_back({bytes, nullptr, false});
  }
  const Name name = places_[place][number_ - 1];
  Berth& berth = berths_[name];
  if (berth.block != &block) {
    // The previous buffer of this name has not been freed yet.
    if (berth.block != nullptr) return std::nullopt;
    if (keeps_ && kept_bytes_ + block.bytes() > heap.range_bytes() / kMostOfRange) return std::nullopt;
    berth.block = &block;
    kept_bytes_ += block.bytes();
    names_[&block] = name;
  }
  berth.vacant = false;
  return name;
}

bool Berths::vacated(const Block& block) {
  const auto known = names_.find(&block);
  if (known == names_.end()) return false;
  Berth& berth = berths_[known->second];
  THERMOCLINE_CHECK(berth.block == &block && !berth.vacant, "A berth is vacated by whoever occupies it.");
  if (keeps_) {
    berth.vacant = true;
    return true;
  }
  berth.block = nullptr;
  kept_bytes_ -= block.bytes();
  names_.erase(known);
  return false;
}

std::optional<Berths::Name> Berths::name_of(const Block& block) const {
  const auto known = names_.find(&block);
  return known == names_.end() ? std::nullopt : std::optional(known->second);
}

void Berths::clear(Heap& heap) {
  for (const Berth& berth : berths_) {
    if (berth.vacant) heap.dissolve(*berth.block);
  }
  // The present allocation stays current: the reservation that can not be kept may be the one for it.
  const std::size_t number = number_;
  *this = Berths();
  number_ = number;
}

}  // namespace thermocline
