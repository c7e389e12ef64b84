// SPDX-License-Identifier: Apache-2.0
#include "trace/steady_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thermocline {
namespace {

struct Window {
  std::size_t begin;
  std::size_t step_end;  // of the step that is described
  std::size_t end;       // of the whole steps after it, too
  std::size_t steps;
};

Window steady_window(const Trace& trace) {
  const std::size_t n = trace.steps.size();
  const std::size_t first = trace.has_marks && n >= 3 ? n - 2 : n - 1;
  return {trace.steps[first].begin, trace.steps[first].end, trace.steps.back().end, n - first};
}

class Survey {
 public:
  Survey(const Trace& trace, const DeviceRates& rates, Bytes page_bytes)
      : trace_(trace),
        rates_(rates),
        page_bytes_(page_bytes),
        window_(steady_window(trace)),
        buffer_of_(trace.buffers.size(), kNone) {}

  SteadyStep run() {
    std::vector<bool> is_alive(trace_.buffers.size());
    for (std::size_t i = 0; i < window_.begin; ++i) {
      const TraceEvent& event = trace_.events[i];
      if (event.kind != EventKind::kOperator) is_alive[event.index] = event.kind == EventKind::kAllocate;
    }
    for (std::uint32_t b = 0; b < is_alive.size(); ++b) {
      if (is_alive[b]) enter(b, true);
    }
    for (std::size_t i = window_.begin; i < window_.end; ++i) {
      if (i == window_.step_end) end_step();
      within(trace_.events[i]);
    }
    if (window_.step_end == window_.end) end_step();
    for (const std::uint32_t b : buffer_of_) {
      if (b != kNone) step_.buffers[b].end = step_.window_operators;
    }
    step_.window_steps = window_.steps;
    step_.repeats = step_.window_operators == window_.steps * step_.operators();
    return std::move(step_);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void enter(std::uint32_t index, bool is_from_before) {
    buffer_of_[index] = static_cast<std::uint32_t>(step_.buffers.size());
    const Bytes contents = trace_.buffers[index].bytes;
    step_.buffers.push_back({.bytes = contents < page_bytes_ ? contents : round_up(contents, page_bytes_),
                             .contents = contents,
                             .begin = step_.window_operators,
                             .end = 0,
                             .is_from_before = is_from_before,
                             .outlives_step = false,
                             .uses = {}});
  }

  void within(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kAllocate:
        enter(event.index, false);
        break;
      case EventKind::kFree:
        step_.buffers[buffer_of_[event.index]].end = step_.window_operators;
        buffer_of_[event.index] = kNone;
        break;
      case EventKind::kOperator:
        operate(trace_.operators[event.index], event.stream);
        break;
    }
  }

  void operate(const TraceOperator& op, std::uint32_t stream) {
    for (const std::uint32_t b : trace_.reads(op)) use(b).reads = true;
    for (const std::uint32_t b : trace_.writes(op)) use(b).writes = true;
    ++step_.window_operators;
    if (is_past_step_) return;
    // Devices count whole nanoseconds; a lower bound must not round up.
    step_.seconds.push_back(std::floor(seconds_of(op, rates_) * 1e9 + 1e-3) * 1e-9);
    busy_.resize(trace_.streams.size());
    busy_[stream] += step_.seconds.back();
  }

  StepUse& use(std::uint32_t index) {
    std::vector<StepUse>& uses = step_.buffers[buffer_of_[index]].uses;
    if (uses.empty() || uses.back().op != step_.window_operators)
      uses.push_back({step_.window_operators, false, false});
    return uses.back();
  }

  void end_step() {
    is_past_step_ = true;
    for (const std::uint32_t b : buffer_of_) {
      if (b != kNone) step_.buffers[b].outlives_step = true;
    }
    step_.busiest_stream = busy_.empty() ? 0 : *std::ranges::max_element(busy_);
    step_.is_single_stream = std::ranges::count_if(busy_, [](double b) { return b > 0; }) <= 1;
  }

  const Trace& trace_;
  const DeviceRates& rates_;
  const Bytes page_bytes_;
  const Window window_;
  SteadyStep step_;
  std::vector<std::uint32_t> buffer_of_;  // per live buffer of the trace: index into step_.buffers
  std::vector<double> busy_;              // seconds per stream
  bool is_past_step_ = false;
};

// Buffers that never leave the device count after their last use, too.
void add_always_wanted(const SteadyStep& step, Bytes smallest, ByteProfile* profile) {
  for (const StepBuffer& buffer : step.buffers) {
    if (buffer.is_persistent() && buffer.bytes < smallest)
      profile->add(buffer.uses.empty() ? 0 : buffer.uses.back().op + 1, buffer.end, buffer.bytes);
  }
}

}  // namespace

std::uint32_t StepBuffer::wanted_from(std::size_t i) const {
  if (!uses[i].reads || (i == 0 && !is_from_before)) return uses[i].op;
  return i == 0 ? 0 : uses[i - 1].op + 1;
}

double SteadyStep::compute_seconds() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

SteadyStep steady_step(const Trace& trace, const DeviceRates& rates, Bytes page_bytes) {
  return Survey(trace, rates, page_bytes).run();
}

SteadyStep with_ends(const SteadyStep& step) {
  SteadyStep all = step;
  all.window_operators *= 2;
  all.seconds.clear();
  for (const double seconds : step.seconds) all.seconds.insert(all.seconds.end(), {seconds, 0});
  for (StepBuffer& buffer : all.buffers) {
    buffer.begin *= 2;
    buffer.end *= 2;
    std::vector<StepUse> uses;
    for (const StepUse& use : buffer.uses) {
      uses.push_back({.op = 2 * use.op, .reads = use.reads, .writes = false});
      uses.push_back({.op = 2 * use.op + 1, .reads = true, .writes = use.writes});
    }
    buffer.uses = std::move(uses);
  }
  return all;
}

void ByteProfile::add(std::size_t first, std::size_t end, Bytes bytes) {
  if (first >= end) return;
  changes_[first] += static_cast<std::int64_t>(bytes);
  changes_[end] -= static_cast<std::int64_t>(bytes);
}

std::vector<Bytes> ByteProfile::per_operator() const {
  std::vector<Bytes> all(changes_.size() - 1);
  std::int64_t now = 0;
  for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<Bytes>(now += changes_[k]);
  return all;
}

std::vector<Bytes> wanted_bytes(const SteadyStep& step, Bytes smallest) {
  ByteProfile profile(step.window_operators);
  for (const StepBuffer& buffer : step.buffers) {
    for (std::size_t i = 0; i < buffer.uses.size(); ++i)
      profile.add(buffer.wanted_from(i), buffer.uses[i].op + std::size_t{1}, buffer.bytes);
  }
  add_always_wanted(step, smallest, &profile);
  return profile.per_operator();
}

std::vector<Bytes> bound_bytes(const SteadyStep& step, Bytes smallest) {
  ByteProfile profile(step.window_operators);
  for (const StepBuffer& buffer : step.buffers) {
    for (std::size_t i = 0; i < buffer.uses.size(); ++i) {
      const std::uint32_t op = buffer.uses[i].op;
      profile.add(buffer.bytes < smallest ? buffer.wanted_from(i) : op, op + std::size_t{1}, buffer.bytes);
    }
  }
  add_always_wanted(step, smallest, &profile);
  return profile.per_operator();
}

}  // namespace thermocline
