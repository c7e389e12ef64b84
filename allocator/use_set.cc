// SPDX-License-Identifier: Apache-2.0
#include "allocator/use_set.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "driver/check.h"

namespace thermocline {
namespace {

bool stream_before(const Use& use, StreamIndex stream) { return use.stream < stream; }

}  // namespace

void UseSet::insert(Use use) {
  if (use.ordinal == 0) return;
  Use* at = std::lower_bound(data(), data() + size_, use.stream, stream_before);
  if (at != end() && at->stream == use.stream) {
    at->ordinal = std::max(at->ordinal, use.ordinal);
    return;
  }
  const std::ptrdiff_t place = at - data();
  if (size_ == capacity_) grow(2 * capacity_);
  at = data() + place;
  std::copy_backward(at, data() + size_, data() + size_ + 1);
  *at = use;
  ++size_;
}

void UseSet::assign(const UseSet& other) {
  if (other.size_ > capacity_) grow(other.size_);
  std::copy(other.begin(), other.end(), data());
  size_ = other.size_;
}

void UseSet::grow(std::uint32_t capacity) {
  Use* const larger = new Use[capacity];
  std::copy(data(), data() + size_, larger);
  if (is_far()) delete[] far_;
  far_ = larger;
  capacity_ = capacity;
}

void UseSet::swap(UseSet& other) noexcept {
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  // Whichever of the two each has.
  static_assert(std::is_trivially_copyable_v<Use> && sizeof(near_) >= sizeof(far_));
  unsigned char mine[sizeof(near_)], theirs[sizeof(near_)];
  std::memcpy(mine, static_cast<const void*>(&near_), sizeof(mine));
  std::memcpy(theirs, static_cast<const void*>(&other.near_), sizeof(theirs));
  std::memcpy(static_cast<void*>(&near_), theirs, sizeof(theirs));
  std::memcpy(static_cast<void*>(&other.near_), mine, sizeof(mine));
}

bool operator==(const UseSet& a, const UseSet& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

Ordinal UseSet::newest(StreamIndex stream) const {
  const auto at = std::lower_bound(begin(), end(), stream, stream_before);
  return at != end() && at->stream == stream ? at->ordinal : 0;
}

void UseSet::validate() const {
  THERMOCLINE_CHECK(size_ <= capacity_ && capacity_ >= kNear, "A use set has room for its uses.");
  const Use* const uses = data();
  for (std::size_t i = 0; i < size_; ++i) {
    THERMOCLINE_CHECK(uses[i].ordinal != 0, "A use set holds no use before the first operation.");
    THERMOCLINE_CHECK(i == 0 || uses[i - 1].stream < uses[i].stream, "A use set is sorted by stream.");
  }
}

}  // namespace thermocline
