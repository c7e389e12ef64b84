// SPDX-License-Identifier: Apache-2.0
// The costs of the alternatives of a trace's last step: time, and memory at every event of the file. The events of all
// alternatives are places on one common axis, so that alternatives can be compared where memory is short.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/read.h"
#include "trace/trace.h"

namespace thermocline {

class ChoiceCosts {
 public:
  ChoiceCosts(const TraceFamily& family, const DeviceRates& rates);

  // The fastest alternative of each choice; of equally fast ones, the one with the lowest peak, then the first.
  ChoiceSelection fastest() const;

  struct Switch {
    std::uint32_t choice, alternative;
  };
  // Starting from `selection`, the changes that reduce live bytes to `limit`, if possible: at the place that needs
  // most, first the one that saves most bytes there per second that it adds. No alternative is taken twice.
  std::vector<Switch> switches(ChoiceSelection selection, Bytes limit) const;

 private:
  friend class ChoiceCostsReader;
  struct Change {
    std::uint32_t at;
    std::int64_t bytes;
  };
  // The cost of one alternative, or of the events that always happen.
  struct Cost {
    double seconds = 0;
    std::vector<Change> changes{};  // of live bytes, by place; bytes alive when the step begins are at 0

    std::int64_t live_at(std::uint32_t at) const;
    std::int64_t most() const;
  };

  void add(const Cost& cost, std::int64_t sign, std::vector<std::int64_t>* live) const;

  std::uint32_t places_ = 1;
  Cost common_;
  std::vector<std::vector<Cost>> choices_;  // by choice, by alternative
};

}  // namespace thermocline
