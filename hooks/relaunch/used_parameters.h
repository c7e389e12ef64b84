// SPDX-License-Identifier: Apache-2.0
// The bytes of a launch's parameters on which a finding about it depends: a launch that has the same bytes there, and the
// same shape, has the same finding. Other parameters, such as the seed of a step, may have any value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace thermocline {

struct ParameterRange {
  std::uint32_t parameter = 0, offset = 0, bytes = 0;

  bool operator==(const ParameterRange&) const = default;
};

class UsedParameters {
 public:
  void add(const ParameterRange& range) {
    if (!has(range)) all_.push_back(range);
  }
  void join(const UsedParameters& other) {
    for (const ParameterRange& range : other.all_) add(range);
  }
  bool has(const ParameterRange& range) const { return std::ranges::find(all_, range) != all_.end(); }
  bool has_all(const UsedParameters& others) const {
    return std::ranges::all_of(others.all_, [this](const ParameterRange& range) { return has(range); });
  }
  // In the order in which they were used first.
  const std::vector<ParameterRange>& all() const { return all_; }

 private:
  std::vector<ParameterRange> all_;
};

}  // namespace thermocline
