// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/live_range_log.h"

#include <utility>

namespace thermocline {

LiveRangeLog::KnownUnit& LiveRangeLog::known(const Block& block, PageRange range) {
  const auto name = reservations_->name_of(block);
  const Key key{name.has_value(), name.has_value() ? *name : block.serial(), range.first, range.count};
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new) {
    found->second.page_owner = static_cast<std::uint32_t>(history_.page_owners.size());
    history_.page_owners.push_back({key.named, key.id, block.index(), range, {}});
  }
  return found->second;
}

void LiveRangeLog::begins_with(const Block& block, PageRange range) {
  KnownUnit& page_owner = known(block, range);
  page_owner.stays = true;
  history_.page_owners[page_owner.page_owner].stays.push_back({0, 0});
}

void LiveRangeLog::changed(Kind kind, const Block& block, PageRange range) {
  const auto now = static_cast<std::uint32_t>(history_.changes.size()) + 1;
  KnownUnit& page_owner = known(block, range);
  const bool comes = kind == Kind::kTakes || kind == Kind::kReturns;
  if (comes == page_owner.stays) return;
  std::vector<PageOwner::Stay>& stays = history_.page_owners[page_owner.page_owner].stays;
  if (comes) stays.push_back({now, 0});
  if (kind == Kind::kFrees || kind == Kind::kLeaves) stays.back().to = now;
  page_owner.stays = kind != Kind::kFrees && kind != Kind::kLeaves;
  history_.changes.push_back({kind, page_owner.page_owner, now_});
}

LiveRangeHistory LiveRangeLog::take() {
  const std::uint32_t end = history_.end();
  for (const auto& [key, page_owner] : known_) {
    if (page_owner.stays) history_.page_owners[page_owner.page_owner].stays.back().to = end;
  }
  known_.clear();
  now_ = 0;
  return std::exchange(history_, {});
}

}  // namespace thermocline
