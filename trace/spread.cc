// SPDX-License-Identifier: Apache-2.0
#include "trace/spread.h"

#include <numeric>
#include <random>

#include "driver/check.h"

namespace thermocline {
namespace {

// Assigns operators to streams, step by step; the work of earlier steps has ended when a step begins.
class StreamAssigner {
 public:
  StreamAssigner(const Trace& trace, std::uint32_t streams, const DeviceRates& rates, std::optional<std::uint64_t> seed)
      : trace_(trace), rates_(rates), seed_(seed), free_at_(streams), uses_(trace.buffers.size()) {}

  void begin_step() {
    std::ranges::fill(free_at_, 0);
    ++step_;
    random_.seed(seed_.value_or(0));
  }

  std::uint32_t assign(const TraceOperator& op) {
    const Moment ready = ready_at(op);
    const std::uint32_t stream = seed_ ? by_chance() : earliest(ready);
    const double end = std::max(free_at_[stream], ready.time) + seconds_of(op, rates_);
    free_at_[stream] = end;
    for (const std::uint32_t buffer : trace_.reads(op)) latest(&use_of(buffer).read, {end, stream});
    for (const std::uint32_t buffer : trace_.writes(op))
      use_of(buffer) = {.step = step_, .write = {end, stream}, .read = {}};
    return stream;
  }

 private:
  struct Moment {
    double time = 0;
    std::uint32_t stream = 0;
  };
  // Times at which the last write, and the last read after it, have ended.
  struct Use {
    std::uint64_t step = 0;
    Moment write, read;
  };

  static void latest(Moment* moment, const Moment& other) {
    if (other.time > moment->time) *moment = other;
  }

  Use& use_of(std::uint32_t buffer) {
    Use& use = uses_[buffer];
    if (use.step != step_) use = {.step = step_, .write = {}, .read = {}};
    return use;
  }

  Moment ready_at(const TraceOperator& op) {
    Moment ready;
    for (const std::uint32_t buffer : trace_.reads(op)) latest(&ready, use_of(buffer).write);
    for (const std::uint32_t buffer : trace_.writes(op)) {
      latest(&ready, use_of(buffer).write);
      latest(&ready, use_of(buffer).read);
    }
    return ready;
  }

  std::uint32_t earliest(const Moment& ready) const {
    std::uint32_t best = ready.stream;
    for (std::uint32_t s = 0; s < free_at_.size(); ++s) {
      if (std::max(free_at_[s], ready.time) < std::max(free_at_[best], ready.time)) best = s;
    }
    return best;
  }

  // Unlike std::uniform_int_distribution, this gives the same numbers with every library.
  std::uint32_t by_chance() { return static_cast<std::uint32_t>((random_() >> 32) % free_at_.size()); }

  const Trace& trace_;
  const DeviceRates& rates_;
  std::optional<std::uint64_t> seed_;
  std::vector<double> free_at_;
  std::vector<Use> uses_;
  std::uint64_t step_ = 0;
  std::mt19937_64 random_;
};

// Sets the streams of allocations and frees according to the uses.
void move_allocations(Trace* trace) {
  std::vector<std::uint32_t> user(trace->buffers.size(), 0);
  const auto use = [&](const TraceEvent& event) {
    const TraceOperator& op = trace->operators[event.index];
    for (const std::uint32_t buffer : trace->reads(op)) user[buffer] = event.stream;
    for (const std::uint32_t buffer : trace->writes(op)) user[buffer] = event.stream;
  };
  for (auto event = trace->events.rbegin(); event != trace->events.rend(); ++event) {
    if (event->kind == EventKind::kOperator) use(*event);
    if (event->kind == EventKind::kAllocate) event->stream = user[event->index];
  }
  for (TraceEvent& event : trace->events) {
    if (event.kind == EventKind::kOperator) use(event);
    if (event.kind == EventKind::kFree) event.stream = user[event.index];
  }
}

}  // namespace

void spread_over_streams(std::uint32_t streams, const DeviceRates& rates, std::optional<std::uint64_t> seed,
                         Trace* trace) {
  THERMOCLINE_CHECK(streams > 0 && streams <= kMostStreams, "a trace is spread over one stream or some");
  trace->streams.resize(streams);
  std::iota(trace->streams.begin(), trace->streams.end(), 0);
  StreamAssigner assigner(*trace, streams, rates, seed);
  auto step = trace->steps.begin();
  assigner.begin_step();
  for (std::size_t e = 0; e < trace->events.size(); ++e) {
    for (; step != trace->steps.end() && step->begin <= e; ++step) assigner.begin_step();
    TraceEvent& event = trace->events[e];
    if (event.kind == EventKind::kOperator) event.stream = assigner.assign(trace->operators[event.index]);
  }
  move_allocations(trace);
  trace->validate();
}

}  // namespace thermocline
