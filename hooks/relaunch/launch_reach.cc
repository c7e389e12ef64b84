// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/launch_reach.h"

#include <algorithm>
#include <utility>

#include "hooks/relaunch/value_ranges.h"

namespace thermocline {

bool LaunchReach::is_never_below(std::size_t word, const LaunchShape& shape, void* const* parameters) const {
  std::vector<unsigned char> values = without_addresses(parameters);
  const MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(latest_, [&](const Launch& one) { return one.shape == shape && one.parameters == values; });
  if (found != latest_.end()) return (found->never_below >> word & 1) != 0;
  Launch next{.shape = shape, .parameters = std::move(values), .never_below = find(shape, parameters)};
  const bool is_never_below = (next.never_below >> word & 1) != 0;
  if (latest_.size() < kMostLaunches) {
    latest_.push_back(std::move(next));
  } else {
    latest_[next_] = std::move(next);
    next_ = (next_ + 1) % kMostLaunches;
  }
  return is_never_below;
}

std::vector<unsigned char> LaunchReach::without_addresses(void* const* parameters) const {
  std::vector<unsigned char> values;
  for (std::size_t i = 0; i < kernel_.parameters.size(); ++i) {
    const auto* const from = static_cast<const unsigned char*>(parameters[i]);
    const std::size_t begin = values.size();
    values.insert(values.end(), from, from + kernel_.parameters[i].bytes);
    for (const ParameterWord& word : accesses_.words) {
      if (word.parameter != i || (!word.reads && !word.writes)) continue;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(begin + word.offset), sizeof(std::uint64_t), 0);
    }
  }
  return values;
}

std::uint64_t LaunchReach::find(const LaunchShape& shape, void* const* parameters) const {
  const ValueRanges ranges(kernel_, accesses_, blocks_, shape, parameters);
  std::uint64_t never_below = 0;
  for (std::size_t word = 0; word < accesses_.words.size(); ++word)
    never_below |= std::uint64_t{ranges.is_never_below(word)} << word;
  return never_below;
}

}  // namespace thermocline
