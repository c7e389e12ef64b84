// SPDX-License-Identifier: Apache-2.0
#include "allocator/assigned_pages.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace thermocline {

void AssignedPages::clear() {
  assigned_.clear();
  wanted_.clear();
}

void AssignedPages::add(std::uint64_t page, std::uint64_t from, std::uint64_t to, PageHandle physical) {
  assigned_[page].push_back({from, to, physical});
  std::vector<std::uint64_t>& times = wanted_[physical];
  times.insert(std::upper_bound(times.begin(), times.end(), from), from);
}

void AssignedPages::rebind(std::span<const Held> held, std::span<const PageHandle> loose) {
  now_ = 0;
  std::unordered_map<PageHandle, PageHandle> moved;  // from an assigned page to the page that replaces it
  std::unordered_set<PageHandle> taken;
  for (const Held& one : held) {
    taken.insert(one.physical);
    // An address that gets its page early, or keeps it too long, still counts as having its assigned page.
    const PageHandle physical = is_assigned_to(one.page, one.physical) ? one.physical : assigned_now(one.page);
    if (physical != PageHandle{}) moved.emplace(physical, one.physical);
  }
  for (const auto& [physical, times] : wanted_) {
    if (!taken.contains(physical) && moved.emplace(physical, physical).second) taken.insert(physical);
  }
  std::vector<PageHandle> left(loose.begin(), loose.end());
  std::sort(left.begin(), left.end());
  std::erase_if(left, [&taken](PageHandle page) { return taken.contains(page); });
  std::vector<PageHandle> lost;
  for (const auto& [physical, times] : wanted_) {
    if (!moved.contains(physical)) lost.push_back(physical);
  }
  std::sort(lost.begin(), lost.end());
  for (std::size_t i = 0; i < std::min(lost.size(), left.size()); ++i) moved[lost[i]] = left[i];
  rename(moved);
}

void AssignedPages::rename(const std::unordered_map<PageHandle, PageHandle>& moved) {
  auto all = std::exchange(assigned_, {});
  wanted_.clear();
  for (const auto& [page, visits] : all) {
    for (const Visit& visit : visits) {
      const auto to = moved.find(visit.physical);
      if (to != moved.end()) add(page, visit.from, visit.to, to->second);
    }
  }
}

bool AssignedPages::is_assigned_to(std::uint64_t page, PageHandle physical) const {
  const auto found = assigned_.find(page);
  return found != assigned_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                 [physical](const Visit& visit) { return visit.physical == physical; });
}

PageHandle AssignedPages::assigned_now(std::uint64_t page) const {
  const auto found = assigned_.find(page);
  if (found == assigned_.end()) return {};
  for (const Visit& visit : found->second) {
    if (between(visit.from, now_) < between(visit.from, visit.to)) return visit.physical;
  }
  return {};
}

// Times vary between iterations, so the visit that is nearest in time is used.
PageHandle AssignedPages::physical_of(std::uint64_t page) const {
  if (rests_) return {};
  const auto found = assigned_.find(page);
  if (found == assigned_.end()) return {};
  const auto distance = [this](const Visit& visit) {
    return std::min(between(visit.from, now_), between(now_, visit.from));
  };
  return std::min_element(found->second.begin(), found->second.end(),
                          [&](const Visit& a, const Visit& b) { return distance(a) < distance(b); })
      ->physical;
}

bool AssignedPages::is_next(std::uint64_t page) const {
  const auto found = rests_ ? assigned_.end() : assigned_.find(page);
  if (found == assigned_.end()) return true;
  const Visit* next = nullptr;
  for (const Visit& visit : found->second) {
    if (between(visit.from, now_) <= between(visit.from, visit.to)) return true;
    if (next == nullptr || between(now_, visit.from) < between(now_, next->from)) next = &visit;
  }
  return between(now_, next->from) <= idle_for(next->physical);
}

std::uint64_t AssignedPages::idle_for(PageHandle physical) const {
  const auto found = wanted_.find(physical);
  if (found == wanted_.end()) return period_;
  const std::vector<std::uint64_t>& times = found->second;
  const auto next = std::upper_bound(times.begin(), times.end(), now_);
  return between(now_, next != times.end() ? *next : times.front());
}

}  // namespace thermocline
