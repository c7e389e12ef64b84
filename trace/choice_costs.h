// SPDX-License-Identifier: Apache-2.0
// What the alternatives of a trace's last step take: time, and memory at every event of the file. Events of all
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

  // The fastest of each; of equally fast ones that with the fewest bytes at its most, and then the first.
  ChoiceSelection fastest() const;

  struct Switch {
    std::uint32_t choice, alternative;
  };
  // Beginning from `selection`, what to change so that live bytes come down to `limit`, if they can: at the place that
  // needs most, first what saves most bytes there for each second that it adds. No alternative is taken twice.
  std::vector<Switch> switches(ChoiceSelection selection, Bytes limit) const;

 private:
  friend class ChoiceCostsReader;
  struct Change {
    std::uint32_t at;
    std::int64_t bytes;
  };
  // Of one alternative, or of what always happens.
  struct Cost {
    double seconds = 0;
    std::vector<Change> changes{};  // of live bytes, by place; what is alive when the step begins is at 0

    std::int64_t live_at(std::uint32_t at) const;
    std::int64_t most() const;
  };

  void add(const Cost& cost, std::int64_t sign, std::vector<std::int64_t>* live) const;

  std::uint32_t places_ = 1;
  Cost common_;
  std::vector<std::vector<Cost>> choices_;  // by choice, by alternative
};

}  // namespace thermocline
