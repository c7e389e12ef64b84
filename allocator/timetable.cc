// SPDX-License-Identifier: Apache-2.0
#include "allocator/timetable.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace thermocline {

void Timetable::clear() {
  homes_.clear();
  wanted_.clear();
}

void Timetable::add(std::uint64_t page, std::uint64_t from, std::uint64_t to, PageHandle home) {
  homes_[page].push_back({from, to, home});
  std::vector<std::uint64_t>& times = wanted_[home];
  times.insert(std::upper_bound(times.begin(), times.end(), from), from);
}

void Timetable::rebind(std::span<const Held> held, std::span<const PageHandle> loose) {
  now_ = 0;
  std::unordered_map<PageHandle, PageHandle> moved;  // from an assigned page to the page that replaces it
  std::unordered_set<PageHandle> taken;
  for (const Held& one : held) {
    taken.insert(one.home);
    // An address that gets its page early, or keeps it too long, still counts as having its assigned page.
    const PageHandle home = is_home(one.page, one.home) ? one.home : is_there(one.page);
    if (home != PageHandle{}) moved.emplace(home, one.home);
  }
  for (const auto& [home, times] : wanted_) {
    if (!taken.contains(home) && moved.emplace(home, home).second) taken.insert(home);
  }
  std::vector<PageHandle> left(loose.begin(), loose.end());
  std::sort(left.begin(), left.end());
  std::erase_if(left, [&taken](PageHandle page) { return taken.contains(page); });
  std::vector<PageHandle> lost;
  for (const auto& [home, times] : wanted_) {
    if (!moved.contains(home)) lost.push_back(home);
  }
  std::sort(lost.begin(), lost.end());
  for (std::size_t i = 0; i < std::min(lost.size(), left.size()); ++i) moved[lost[i]] = left[i];
  rename(moved);
}

void Timetable::rename(const std::unordered_map<PageHandle, PageHandle>& moved) {
  auto all = std::exchange(homes_, {});
  wanted_.clear();
  for (const auto& [page, visits] : all) {
    for (const Visit& visit : visits) {
      const auto to = moved.find(visit.home);
      if (to != moved.end()) add(page, visit.from, visit.to, to->second);
    }
  }
}

bool Timetable::is_home(std::uint64_t page, PageHandle home) const {
  const auto found = homes_.find(page);
  return found != homes_.end() && std::any_of(found->second.begin(), found->second.end(),
                                              [home](const Visit& visit) { return visit.home == home; });
}

PageHandle Timetable::is_there(std::uint64_t page) const {
  const auto found = homes_.find(page);
  if (found == homes_.end()) return {};
  for (const Visit& visit : found->second) {
    if (between(visit.from, now_) < between(visit.from, visit.to)) return visit.home;
  }
  return {};
}

// Times vary between iterations, so the visit that is nearest in time is used.
PageHandle Timetable::home_of(std::uint64_t page) const {
  if (rests_) return {};
  const auto found = homes_.find(page);
  if (found == homes_.end()) return {};
  const auto distance = [this](const Visit& visit) {
    return std::min(between(visit.from, now_), between(now_, visit.from));
  };
  return std::min_element(found->second.begin(), found->second.end(),
                          [&](const Visit& a, const Visit& b) { return distance(a) < distance(b); })
      ->home;
}

bool Timetable::is_next(std::uint64_t page) const {
  const auto found = rests_ ? homes_.end() : homes_.find(page);
  if (found == homes_.end()) return true;
  const Visit* next = nullptr;
  for (const Visit& visit : found->second) {
    if (between(visit.from, now_) <= between(visit.from, visit.to)) return true;
    if (next == nullptr || between(now_, visit.from) < between(now_, next->from)) next = &visit;
  }
  return between(now_, next->from) <= idle_for(next->home);
}

std::uint64_t Timetable::idle_for(PageHandle home) const {
  const auto found = wanted_.find(home);
  if (found == wanted_.end()) return period_;
  const std::vector<std::uint64_t>& times = found->second;
  const auto next = std::upper_bound(times.begin(), times.end(), now_);
  return between(now_, next != times.end() ? *next : times.front());
}

}  // namespace thermocline
