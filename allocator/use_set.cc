// SPDX-License-Identifier: Apache-2.0
#include "allocator/use_set.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

bool stream_before(const Use& use, StreamIndex stream) { return use.stream < stream; }

}  // namespace

void UseSet::add(Use use) {
  if (use.ordinal == 0) return;
  const auto at = std::lower_bound(uses_.begin(), uses_.end(), use.stream, stream_before);
  if (at != uses_.end() && at->stream == use.stream) {
    at->ordinal = std::max(at->ordinal, use.ordinal);
  } else {
    uses_.insert(at, use);
  }
}

void UseSet::join(const UseSet& other) {
  for (const Use& use : other.uses_) add(use);
}

Ordinal UseSet::newest(StreamIndex stream) const {
  const auto at = std::lower_bound(uses_.begin(), uses_.end(), stream, stream_before);
  return at != uses_.end() && at->stream == stream ? at->ordinal : 0;
}

void UseSet::validate() const {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    THERMOCLINE_CHECK(uses_[i].ordinal != 0, "A use set holds no use before the first operation.");
    THERMOCLINE_CHECK(i == 0 || uses_[i - 1].stream < uses_[i].stream, "A use set is sorted by stream.");
  }
}

}  // namespace thermocline
