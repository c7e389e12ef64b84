// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/duration_meter.h"

#include <algorithm>

namespace thermocline {

DurationMeter::~DurationMeter() {
  abandon();
  for (const Sample& sample : pending_) give_events(sample);
  for (const EventHandle event : spare_) static_cast<void>(driver_.destroy_event(event));
}

bool DurationMeter::take_event(EventHandle* out) {
  if (spare_.empty()) return driver_.create_event(true, out).ok();
  *out = spare_.back();
  spare_.pop_back();
  return true;
}

void DurationMeter::give_events(const Sample& sample) {
  if (sample.before != EventHandle{}) spare_.push_back(sample.before);
  if (sample.after != EventHandle{}) spare_.push_back(sample.after);
}

void DurationMeter::begin(std::uint64_t token, StreamHandle stream) {
  abandon();
  if (pending_.size() >= kMostPending) collect();
  if (pending_.size() >= kMostPending) return;
  if (measured_.size() >= kMostKinds && !measured_.contains(token)) return;
  Measured& measured = measured_[token];
  if (measured.samples >= kSamples) return;
  Sample sample{token, {}, {}};
  if (take_event(&sample.before) && take_event(&sample.after) && driver_.record(sample.before, stream).ok()) {
    ++measured.samples;
    open_ = sample;
  } else {
    give_events(sample);
  }
}

void DurationMeter::end(StreamHandle stream) {
  if (!has_begun()) return;
  if (driver_.record(open_.after, stream).ok()) {
    pending_.push_back(open_);
  } else {
    give_events(open_);
  }
  open_ = {};
}

void DurationMeter::abandon() {
  if (!has_begun()) return;
  give_events(open_);
  open_ = {};
}

void DurationMeter::collect() {
  std::erase_if(pending_, [this](const Sample& sample) {
    if (driver_.query(sample.after) == Status::not_ready()) return false;
    float ms = 0;
    if (driver_.elapsed_ms(sample.before, sample.after, &ms).ok() && ms > 0) {
      float& shortest = measured_[sample.token].shortest_ms;
      shortest = shortest > 0 ? std::min(shortest, ms) : ms;
    }
    give_events(sample);
    return true;
  });
}

std::uint64_t DurationMeter::nanoseconds(std::uint64_t token) const {
  const auto measured = measured_.find(token);
  return measured == measured_.end() ? 0 : nanoseconds_of(measured->second);
}

}  // namespace thermocline
