// SPDX-License-Identifier: Apache-2.0
#include "offload/sharing/stall_meter.h"

#include <algorithm>
#include <utility>

namespace thermocline {
namespace {

// Operations of other streams may begin earlier than they were submitted.
std::uint64_t nanoseconds(float ms) { return ms <= 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(ms) * 1e6); }

std::uint64_t at_rate(Bytes bytes, double bytes_per_ns) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) / bytes_per_ns);
}

}  // namespace

StallMeter::~StallMeter() {
  abandon();
  for (const Sample& sample : pending_) give_events(sample);
  give_event(last_begins_);
  for (const EventHandle event : spare_) static_cast<void>(driver_.destroy_event(event));
}

bool StallMeter::take_event(EventHandle* out) {
  if (spare_.empty()) return driver_.create_event(true, out).ok();
  *out = spare_.back();
  spare_.pop_back();
  return true;
}

void StallMeter::give_event(EventHandle event) {
  if (event != EventHandle{}) spare_.push_back(event);
}

void StallMeter::give_events(const Sample& sample) {
  give_event(sample.begins);
  give_event(sample.runs);
  give_event(sample.ends);
}

bool StallMeter::begin(StreamHandle stream, bool computes) {
  if (open_.begins != EventHandle{}) return false;
  if (pending_.size() >= kMostPending) collect();
  if (pending_.size() >= kMostPending) {
    pause();
    return false;
  }
  Sample sample{.follows = follows_, .computes = computes};
  if (take_event(&sample.begins) && take_event(&sample.runs) && take_event(&sample.ends) &&
      driver_.record(sample.begins, stream).ok()) {
    open_ = sample;
    return true;
  }
  give_events(sample);
  pause();
  return false;
}

void StallMeter::may_run(StreamHandle stream) {
  open_.may_run = driver_.record(open_.runs, stream).ok();
  if (!open_.may_run) abandon();
}

void StallMeter::submitted(StreamHandle stream) {
  if (!open_.may_run) return;
  if (!driver_.record(open_.ends, stream).ok()) return abandon();
  pending_.push_back(open_);
  open_ = {};
  follows_ = true;
}

void StallMeter::abandon() {
  if (open_.begins == EventHandle{}) return;
  give_events(open_);
  open_ = {};
  pause();
}

void StallMeter::collect() {
  std::size_t passed = 0;
  for (; passed < pending_.size(); ++passed) {
    const Sample& sample = pending_[passed];
    if (driver_.query(sample.ends) == Status::not_ready()) break;
    float since_ms = 0, stall_ms = 0, run_ms = 0;
    if (sample.follows && last_begins_ != EventHandle{} &&
        driver_.elapsed_ms(last_begins_, sample.begins, &since_ms).ok()) {
      const std::uint64_t since_ns = nanoseconds(since_ms);
      times_.measured_ns += since_ns;
      times_.stalled_ns += std::min(last_stall_ns_, since_ns);
      times_.computed_ns += last_run_ns_;
    }
    const bool is_known = driver_.elapsed_ms(sample.begins, sample.runs, &stall_ms).ok() &&
                          driver_.elapsed_ms(sample.runs, sample.ends, &run_ms).ok();
    give_event(last_begins_);
    give_event(sample.runs);
    give_event(sample.ends);
    last_begins_ = sample.begins;
    last_stall_ns_ = is_known ? nanoseconds(stall_ms) : 0;
    last_run_ns_ = is_known && sample.computes ? nanoseconds(run_ms) : 0;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(passed));
}

const StallTimes& StallMeter::times(Bytes out_bytes, Bytes in_bytes, const Link& link) {
  collect();
  times_.copied_out_ns += at_rate(out_bytes - std::exchange(out_bytes_, out_bytes), link.out_bytes_per_ns);
  times_.copied_in_ns += at_rate(in_bytes - std::exchange(in_bytes_, in_bytes), link.in_bytes_per_ns);
  return times_;
}

}  // namespace thermocline
