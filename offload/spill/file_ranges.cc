// SPDX-License-Identifier: Apache-2.0
#include "offload/spill/file_ranges.h"

#include <iterator>

#include "driver/check.h"
#include "offload/spill/spill_file.h"

namespace thermocline {

FileRanges::FileRanges(Bytes limit) : limit_(limit / kSpillAlignment * kSpillAlignment) {
  if (limit_ > 0) add_free(0, limit_);
}

std::optional<Bytes> FileRanges::take(Bytes bytes) {
  THERMOCLINE_CHECK(bytes > 0 && bytes % kSpillAlignment == 0, "ranges are whole blocks of the file");
  const auto fit = by_bytes_.lower_bound({bytes, 0});
  if (fit == by_bytes_.end()) return std::nullopt;
  const auto [found, offset] = *fit;
  remove_free(free_.find(offset));
  if (found > bytes) add_free(offset + bytes, found - bytes);
  taken_.emplace(offset, bytes);
  taken_bytes_ += bytes;
  return offset;
}

void FileRanges::give(Bytes offset) {
  const auto range = taken_.find(offset);
  THERMOCLINE_CHECK(range != taken_.end(), "only what is taken is given back, and once");
  Bytes bytes = range->second;
  taken_bytes_ -= bytes;
  taken_.erase(range);
  const auto right = free_.find(offset + bytes);
  if (right != free_.end()) {
    bytes += right->second;
    remove_free(right);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto left = std::prev(after);
    if (left->first + left->second == offset) {
      offset = left->first;
      bytes += left->second;
      remove_free(left);
    }
  }
  add_free(offset, bytes);
}

Bytes FileRanges::bytes_at(Bytes offset) const {
  const auto range = taken_.find(offset);
  return range == taken_.end() ? 0 : range->second;
}

void FileRanges::add_free(Bytes offset, Bytes bytes) {
  free_.emplace(offset, bytes);
  by_bytes_.emplace(bytes, offset);
}

void FileRanges::remove_free(std::map<Bytes, Bytes>::iterator range) {
  by_bytes_.erase({range->second, range->first});
  free_.erase(range);
}

void FileRanges::validate() const {
  std::map<Bytes, Bytes> all = taken_;
  all.insert(free_.begin(), free_.end());
  THERMOCLINE_CHECK(all.size() == taken_.size() + free_.size(), "no range is taken and free");
  Bytes end = 0, taken = 0;
  bool left_is_free = false;
  for (const auto& [offset, bytes] : all) {
    THERMOCLINE_CHECK(offset == end && bytes > 0, "ranges follow one another without a gap");
    const bool is_free = free_.contains(offset);
    THERMOCLINE_CHECK(!is_free || !left_is_free, "free ranges beside each other are one");
    left_is_free = is_free;
    if (!is_free) taken += bytes;
    end += bytes;
  }
  THERMOCLINE_CHECK(end == limit_ && taken == taken_bytes_, "ranges cover the file, and what is taken is counted");
  THERMOCLINE_CHECK(by_bytes_.size() == free_.size(), "free ranges are found by their size");
}

}  // namespace thermocline
