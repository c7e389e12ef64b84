// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/engines.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {

EngineSet EngineSet::with(const ActiveEngine& more) const {
  THERMOCLINE_CHECK(size_ < kMost && on(more.device) == nullptr, "A device has one engine.");
  EngineSet made = *this;
  const auto end = made.engines_.begin() + static_cast<std::ptrdiff_t>(size_);
  const auto behind =
      std::find_if(made.engines_.begin(), end, [&](const ActiveEngine* one) { return one->device > more.device; });
  std::move_backward(behind, end, end + 1);
  *behind = &more;
  ++made.size_;
  made.find_hull();
  return made;
}

EngineSet EngineSet::without(const ActiveEngine& one) const {
  EngineSet made;
  for (const ActiveEngine* each : *this) {
    if (each != &one) made.engines_[made.size_++] = each;
  }
  made.find_hull();
  return made;
}

void EngineSet::find_hull() {
  hull_ = {};
  if (size_ == 0) return;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;
  for (const ActiveEngine* one : *this) {
    first = std::min(first, one->range.begin);
    last = std::max(last, one->range.begin + one->range.bytes);
  }
  hull_ = {first, last - first};
}

}  // namespace thermocline
