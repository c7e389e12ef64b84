// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/link_meter.h"

#include <algorithm>

namespace thermocline {

LinkMeter::~LinkMeter() {
  for (const Sample& sample : pending_) discard(sample);
}

void LinkMeter::discard(const Sample& sample) {
  if (sample.before != EventHandle{}) static_cast<void>(driver_.destroy_event(sample.before));
  if (sample.after != EventHandle{}) static_cast<void>(driver_.destroy_event(sample.after));
}

LinkMeter::Sample LinkMeter::begin(Direction direction, Bytes bytes, StreamHandle stream) {
  Sample sample{direction, bytes, {}, {}};
  if (taken_[direction] >= kSamples || bytes < kSmallestBytes) return sample;
  const bool ready = driver_.create_event(true, &sample.before).ok() &&
                     driver_.create_event(true, &sample.after).ok() && driver_.record(sample.before, stream).ok();
  if (ready) {
    ++taken_[direction];
    return sample;
  }
  discard(sample);
  return {direction, bytes, {}, {}};
}

void LinkMeter::end(const Sample& sample, StreamHandle stream) {
  if (sample.before == EventHandle{}) return;
  if (driver_.record(sample.after, stream).ok()) {
    pending_.push_back(sample);
  } else {
    discard(sample);
  }
}

void LinkMeter::collect() {
  std::erase_if(pending_, [this](const Sample& sample) {
    if (driver_.query(sample.after) == Status::not_ready()) return false;
    float ms = 0;
    if (driver_.elapsed_ms(sample.before, sample.after, &ms).ok() && ms > 0) {
      double& best = best_[sample.direction];
      best = std::max(best, static_cast<double>(sample.bytes) / (static_cast<double>(ms) * 1e6));
    }
    discard(sample);
    return true;
  });
}

Link LinkMeter::link() {
  collect();
  // If only one direction was measured, it serves for both.
  const double out = best_[kOut] > 0 ? best_[kOut] : best_[kIn] > 0 ? best_[kIn] : kAssumedBytesPerNs;
  const double in = best_[kIn] > 0 ? best_[kIn] : out;
  return {out, in};
}

}  // namespace thermocline
