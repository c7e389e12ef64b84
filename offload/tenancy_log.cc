// SPDX-License-Identifier: Apache-2.0
#include "offload/tenancy_log.h"

#include <utility>

namespace thermocline {

TenancyLog::Known& TenancyLog::known(const Block& block, PageRange range) {
  const auto name = berths_->name_of(block);
  const Key key{name.has_value(), name.has_value() ? *name : block.serial(), range.first, range.count};
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new) {
    found->second.tenant = static_cast<std::uint32_t>(history_.tenants.size());
    history_.tenants.push_back({key.named, key.id, block.index(), range, {}});
  }
  return found->second;
}

void TenancyLog::begins_with(const Block& block, PageRange range) {
  Known& tenant = known(block, range);
  tenant.stays = true;
  history_.tenants[tenant.tenant].stays.push_back({0, 0});
}

void TenancyLog::changed(Kind kind, const Block& block, PageRange range) {
  const auto now = static_cast<std::uint32_t>(history_.changes.size()) + 1;
  Known& tenant = known(block, range);
  const bool comes = kind == Kind::kTakes || kind == Kind::kReturns;
  if (comes == tenant.stays) return;
  std::vector<Tenant::Stay>& stays = history_.tenants[tenant.tenant].stays;
  if (comes) stays.push_back({now, 0});
  if (kind == Kind::kFrees || kind == Kind::kLeaves) stays.back().to = now;
  tenant.stays = kind != Kind::kFrees && kind != Kind::kLeaves;
  history_.changes.push_back({kind, tenant.tenant, now_});
}

TenancyHistory TenancyLog::take() {
  const std::uint32_t end = history_.end();
  for (const auto& [key, tenant] : known_) {
    if (tenant.stays) history_.tenants[tenant.tenant].stays.back().to = end;
  }
  known_.clear();
  now_ = 0;
  return std::exchange(history_, {});
}

}  // namespace thermocline
