// SPDX-License-Identifier: Apache-2.0
#include "offload/sharing/slice_policy.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kMeasurementCountsNs = 2'000'000'000;
// Slices are not tried if the device computes for more of the time: they reach about 900.
constexpr std::uint32_t kMostComputedPermille = 600;
constexpr std::uint32_t kLeastCopiedPermille = 500;

bool looks(const SliceSharer& sharer, std::uint64_t now_ns) {
  const std::uint64_t looked_ns = sharer.record.looked_ns;
  return sharer.is_active && looked_ns != 0 && (looked_ns >= now_ns || now_ns - looked_ns < kStoppedNs);
}

bool copies_mostly(const SliceSharer& sharer, std::uint64_t now_ns) {
  const SliceRecord& record = sharer.record;
  return looks(sharer, now_ns) && record.measured_ns != 0 && record.measured_ns + kMeasurementCountsNs > now_ns &&
         record.copied_permille > record.computed_permille;
}

}  // namespace

bool takes_part(const SliceSharer& sharer, std::uint64_t now_ns) {
  return sharer.record.marked_until_ns > now_ns && looks(sharer, now_ns);
}

bool any_slices(std::span<const SliceSharer> all, std::uint64_t now_ns) {
  std::size_t count = 0;
  for (const SliceSharer& one : all) count += takes_part(one, now_ns) ? 1 : 0;
  return count >= 2;
}

std::optional<std::size_t> slice_holder(std::span<const SliceSharer> all, std::uint64_t now_ns) {
  if (!any_slices(all, now_ns)) return std::nullopt;
  std::optional<std::size_t> holder, latest;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const SliceRecord& record = all[i].record;
    if (!takes_part(all[i], now_ns) || record.until_ns == 0) continue;
    if (record.until_ns > now_ns && (!holder || record.begun_ns < all[*holder].record.begun_ns)) holder = i;
    if (!latest || record.until_ns > all[*latest].record.until_ns) latest = i;
  }
  return holder.has_value() ? holder : latest;
}

void rest_out_of_turn(std::span<const SliceSharer> all, std::uint64_t now_ns, std::span<Sharer> sharers) {
  const std::optional<std::size_t> holder = slice_holder(all, now_ns);
  if (!holder.has_value()) return;
  for (std::size_t i = 0; i < all.size(); ++i) sharers[i].is_active &= i == *holder || !takes_part(all[i], now_ns);
}

bool may_begin_slice(std::span<const SliceSharer> all, std::uint64_t now_ns, std::size_t self) {
  if (!any_slices(all, now_ns) || !takes_part(all[self], now_ns)) return false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!takes_part(all[i], now_ns)) continue;
    const SliceRecord &other = all[i].record, &own = all[self].record;
    if (other.until_ns > now_ns) return false;
    if (other.until_ns < own.until_ns || (other.until_ns == own.until_ns && i < self)) return false;
  }
  return true;
}

bool thrashes_with_others(std::span<const SliceSharer> all, std::uint64_t now_ns, std::size_t self,
                          std::uint32_t* computed_permille) {
  *computed_permille = 0;
  if (!copies_mostly(all[self], now_ns)) return false;
  std::size_t count = 0;
  std::uint32_t copied_permille = 0;
  for (const SliceSharer& one : all) {
    if (!copies_mostly(one, now_ns)) continue;
    ++count;
    *computed_permille += one.record.computed_permille;
    copied_permille += one.record.copied_permille;
  }
  // It joins others that take turns: these have not measured anything lately.
  if (any_slices(all, now_ns)) return true;
  return count >= 2 && *computed_permille <= kMostComputedPermille && copied_permille >= kLeastCopiedPermille;
}

}  // namespace thermocline
