// SPDX-License-Identifier: Apache-2.0
#include "trace/scaled.h"

#include <algorithm>
#include <cmath>

#include "driver/check.h"
#include "driver/quantity.h"

namespace thermocline {
namespace {

bool same_order(const Trace& a, const Trace& b) {
  return std::ranges::equal(a.events, b.events,
                            [](const TraceEvent& x, const TraceEvent& y) {
                              return x.kind == y.kind && x.stream == y.stream && x.index == y.index;
                            }) &&
         std::ranges::equal(a.steps, b.steps,
                            [](const StepSpan& x, const StepSpan& y) { return x.begin == y.begin && x.end == y.end; });
}

std::size_t first_other_operator(const Trace& a, const Trace& b) {
  for (std::size_t i = 0; i < a.operators.size(); ++i) {
    const TraceOperator &x = a.operators[i], &y = b.operators[i];
    if (a.names[x.name] != b.names[y.name] || !std::ranges::equal(a.reads(x), b.reads(y)) ||
        !std::ranges::equal(a.writes(x), b.writes(y)) || x.is_measured() != y.is_measured()) {
      return i;
    }
  }
  return a.operators.size();
}

Bytes most_alive(const Trace& trace) {
  Bytes alive = 0, most = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == EventKind::kAllocate) alive += trace.buffers[event.index].bytes;
    if (event.kind == EventKind::kFree) alive -= trace.buffers[event.index].bytes;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

bool scale_trace(const BatchedTrace& a, const BatchedTrace& b, double batch, Trace* out, std::string* reason) {
  THERMOCLINE_CHECK(a.batch != b.batch, "two batch sizes make a line");
  const Trace &x = *a.trace, &y = *b.trace;
  if (x.buffers.size() != y.buffers.size() || x.operators.size() != y.operators.size() || !same_order(x, y)) {
    *reason = "not the same program at two batch sizes: " + x.path + " has " +
              quantity(x.operators.size(), "operator") + " on " + quantity(x.buffers.size(), "buffer") + ", " + y.path +
              " has " + std::to_string(y.operators.size()) + " on " + std::to_string(y.buffers.size()) +
              (x.operators.size() == y.operators.size() ? ", in another order" : "");
    return false;
  }
  if (const std::size_t other = first_other_operator(x, y); other < x.operators.size()) {
    *reason = "not the same program at two batch sizes: operator " + std::to_string(other) + " is '" +
              x.names[x.operators[other].name] + "' in " + x.path + " and '" + y.names[y.operators[other].name] +
              "' in " + y.path + ", or uses other buffers";
    return false;
  }
  const double part = (batch - a.batch) / (b.batch - a.batch);
  const auto between = [part](double from, double to) { return std::max(0.0, from + (to - from) * part); };
  *out = x;
  for (std::size_t i = 0; i < x.buffers.size(); ++i) {
    const double bytes = between(static_cast<double>(x.buffers[i].bytes), static_cast<double>(y.buffers[i].bytes));
    out->buffers[i].bytes = static_cast<Bytes>(std::llround(bytes));
  }
  for (std::size_t i = 0; i < x.operators.size(); ++i) {
    const TraceOperator &from = x.operators[i], &to = y.operators[i];
    TraceOperator& scaled = out->operators[i];
    scaled.flops = between(from.flops, to.flops);
    scaled.bytes = between(from.bytes, to.bytes);
    // Another batch has other slices.
    scaled.mark = TraceOperator::kNoMark;
    if (from.is_measured()) scaled.microseconds = between(from.microseconds, to.microseconds);
  }
  out->marks.clear();
  out->peak_live_bytes = most_alive(*out);
  return true;
}

}  // namespace thermocline
