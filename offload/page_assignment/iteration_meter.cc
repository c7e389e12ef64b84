// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/iteration_meter.h"

namespace thermocline {

IterationMeter::~IterationMeter() {
  clear();
  for (const EventHandle event : spare_) static_cast<void>(driver_.destroy_event(event));
}

void IterationMeter::submitting(StreamHandle stream) {
  if (!beginning_.has_value()) return;
  const unsigned kind = *beginning_;
  beginning_.reset();
  EventHandle event{};
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (!driver_.create_event(true, &event).ok()) {
    return clear();
  }
  if (driver_.record(event, stream).ok()) {
    begins_.push_back({kind, event});
  } else {
    spare_.push_back(event);
    clear();
  }
}

void IterationMeter::clear() {
  beginning_.reset();
  for (const Begin& begin : begins_) spare_.push_back(begin.event);
  begins_.clear();
}

std::optional<IterationMeter::Iteration> IterationMeter::next() {
  while (begins_.size() >= 2 && driver_.query(begins_[1].event) != Status::not_ready()) {
    const Begin begin = begins_.front();
    begins_.pop_front();
    spare_.push_back(begin.event);
    float ms = 0;
    if (driver_.elapsed_ms(begin.event, begins_.front().event, &ms).ok() && ms > 0) return Iteration{begin.kind, ms};
  }
  return std::nullopt;
}

}  // namespace thermocline
