// SPDX-License-Identifier: Apache-2.0
#include "allocator/timetable.h"

#include <algorithm>

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

// Nobody comes at quite the same time in every iteration: the nearest visit is meant.
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
