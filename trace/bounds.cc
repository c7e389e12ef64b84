// SPDX-License-Identifier: Apache-2.0
#include "trace/bounds.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace thermocline {
namespace {

// Smaller buffers are taken to stay on the device, as in the yardstick.
constexpr Bytes kSmallest = kMiB;

struct Window {
  std::size_t begin;
  std::size_t step_end;  // of the step that is looked at
  std::size_t end;       // of the whole steps that follow it, too
};

Window steady_window(const Trace& trace) {
  const std::size_t n = trace.steps.size();
  // Two whole steps behind a mark; the marks of a file with three steps or more allow that.
  const std::size_t first = trace.has_marks && n >= 3 ? n - 2 : n - 1;
  return {trace.steps[first].begin, trace.steps[first].end, trace.steps.back().end};
}

// Walks the window and notes what each operator finds. A gap is a buffer's time between two touches, when it may be
// away.
class Survey {
 public:
  Survey(const Trace& trace, const DeviceRates& rates) : trace_(trace), rates_(rates), window_(steady_window(trace)) {}

  SteadyStep run() {
    for (std::size_t i = 0; i < window_.begin; ++i) before(trace_.events[i]);
    const Bytes at_begin = live_;
    for (std::size_t i = window_.begin; i < window_.end; ++i) {
      if (i == window_.step_end) end_step();
      within(trace_.events[i]);
    }
    if (window_.step_end == window_.end) end_step();
    for (const auto& [buffer, last] : last_touch_) close_gap(buffer, last);
    // With fewer than two whole steps the first allocations are part of the window; what is left of them outlives it.
    step_.outliving =
        window_.begin > 0 && window_.end > window_.step_end ? at_begin : std::max(at_begin, live_at_step_end_);
    step_.least_budget = least_budget();
    return std::move(step_);
  }

 private:
  static constexpr std::int64_t kUntouched = -1;

  void before(const TraceEvent& event) {
    if (event.kind == EventKind::kAllocate) begin_life(event.index, 0);
    if (event.kind == EventKind::kFree) end_life(event.index);
  }

  void begin_life(std::uint32_t buffer, std::int64_t touch) {
    last_touch_[buffer] = touch;
    live_ += trace_.buffers[buffer].bytes;
  }

  void end_life(std::uint32_t buffer) {
    last_touch_.erase(buffer);
    live_ -= trace_.buffers[buffer].bytes;
  }

  void within(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kAllocate:
        begin_life(event.index, kUntouched);
        break;
      case EventKind::kFree:
        end_life(event.index);
        break;
      case EventKind::kOperator:
        operate(trace_.operators[event.index], event.stream);
        break;
    }
  }

  void operate(const TraceOperator& op, std::uint32_t stream) {
    for (std::uint32_t i = 0; i < op.reads + op.writes; ++i) {
      const std::uint32_t buffer = trace_.operands[op.first_operand + i];
      close_gap(buffer, last_touch_[buffer]);
      last_touch_[buffer] = now();
    }
    all_live_.push_back(live_);
    if (is_past_step_) return;
    const double seconds = seconds_of(op, rates_);
    step_.seconds.push_back(seconds);
    step_.live.push_back(live_);
    busy_.resize(trace_.streams.size());
    busy_[stream] += seconds;
  }

  std::int64_t now() const { return static_cast<std::int64_t>(all_live_.size()); }

  // Operators strictly between the last touch and this one could do without the buffer.
  void close_gap(std::uint32_t buffer, std::int64_t last) {
    const Bytes bytes = trace_.buffers[buffer].bytes;
    if (last == kUntouched || now() - last <= 1 || bytes < kSmallest) return;
    away_.resize(std::max(away_.size(), static_cast<std::size_t>(now()) + 1));
    away_[static_cast<std::size_t>(last) + 1] += static_cast<std::int64_t>(bytes);
    away_[static_cast<std::size_t>(now())] -= static_cast<std::int64_t>(bytes);
  }

  void end_step() {
    is_past_step_ = true;
    live_at_step_end_ = live_;
    step_.busiest_stream = busy_.empty() ? 0 : *std::ranges::max_element(busy_);
    step_.is_single_stream = std::ranges::count_if(busy_, [](double b) { return b > 0; }) <= 1;
  }

  Bytes least_budget() const {
    Bytes most = 0;
    std::int64_t away = 0;
    for (std::size_t k = 0; k < all_live_.size(); ++k) {
      if (k < away_.size()) away += away_[k];
      most = std::max(most, all_live_[k] - static_cast<Bytes>(away));
    }
    return most;
  }

  const Trace& trace_;
  const DeviceRates& rates_;
  const Window window_;
  SteadyStep step_;
  std::unordered_map<std::uint32_t, std::int64_t> last_touch_;  // of what is alive
  std::vector<Bytes> all_live_;                                 // per operator of the window
  std::vector<std::int64_t> away_;                              // changes, per operator, of the bytes in gaps
  std::vector<double> busy_;                                    // seconds per stream
  Bytes live_ = 0;
  Bytes live_at_step_end_ = 0;
  bool is_past_step_ = false;
};

double pinch_seconds(const SteadyStep& step, Bytes budget, const DeviceRates& rates) {
  double total = 0;
  for (const double seconds : step.seconds) total += seconds;
  double before = 0;
  double bound = 0;
  for (std::size_t k = 0; k < step.seconds.size(); ++k) {
    const Bytes kept = budget + step.outliving;
    const Bytes away = step.live[k] > kept ? step.live[k] - kept : 0;
    const double link = static_cast<double>(away) / rates.link_bytes_per_second;
    bound = std::max(bound, std::max(before, link) + std::max(total - before, link));
    before += step.seconds[k];
  }
  return bound;
}

}  // namespace

SteadyStep steady_step(const Trace& trace, const DeviceRates& rates) { return Survey(trace, rates).run(); }

Bounds swap_bounds(const SteadyStep& step, Bytes budget, const DeviceRates& rates) {
  Bounds bounds;
  bounds.compute_ms = step.busiest_stream * 1e3;
  bounds.is_feasible = step.least_budget <= budget;
  if (step.is_single_stream) bounds.pinch_ms = pinch_seconds(step, budget, rates) * 1e3;
  return bounds;
}

}  // namespace thermocline
