// SPDX-License-Identifier: Apache-2.0
#include "trace/step_clock.h"

namespace thermocline {

Status StepClock::mark() {
  std::vector<EventOwner> events;
  for (const StreamHandle stream : streams_) {
    EventHandle handle{};
    if (const Status status = driver_.create_event(true, &handle); !status.ok()) return status;
    events.emplace_back(driver_, handle);
    if (const Status status = driver_.record(handle, stream); !status.ok()) return status;
  }
  marks_.push_back(std::move(events));
  return Status();
}

Status StepClock::read(std::vector<double>* steps) const {
  steps->clear();
  // Adding up differences between adjacent marks keeps the precision of the driver's float.
  EventHandle begin = marks_.front().front().get();
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    EventHandle end = begin;
    float longest = 0;
    for (const EventOwner& event : marks_[i]) {
      float ms = 0;
      if (const Status status = driver_.elapsed_ms(begin, event.get(), &ms); !status.ok()) return status;
      if (ms >= longest) {
        longest = ms;
        end = event.get();
      }
    }
    begin = end;
    if (i > 0) steps->push_back(longest);
  }
  return Status();
}

}  // namespace thermocline
