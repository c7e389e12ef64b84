// SPDX-License-Identifier: Apache-2.0
#include "trace/repeat.h"

#include <algorithm>
#include <map>

#include "driver/quantity.h"

namespace thermocline {
namespace {

enum class Life : std::uint8_t { kNone, kBefore, kWithin };  // when it was allocated; kNone: not alive

// Buffers that the last step found alive and freed, and those that it allocated and left alive; both in order of (size,
// allocation).
struct Ends {
  std::vector<std::uint32_t> carried;
  std::vector<std::uint32_t> left;
};

Ends ends_of_last_step(const Trace& trace) {
  const StepSpan last = trace.steps.back();
  std::vector<Life> lives(trace.buffers.size(), Life::kNone);
  Ends ends;
  for (std::size_t i = 0; i < last.end; ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == EventKind::kAllocate) lives[event.index] = i < last.begin ? Life::kBefore : Life::kWithin;
    if (event.kind != EventKind::kFree) continue;
    if (i >= last.begin && lives[event.index] == Life::kBefore) ends.carried.push_back(event.index);
    lives[event.index] = Life::kNone;
  }
  for (std::uint32_t b = 0; b < lives.size(); ++b) {
    if (lives[b] == Life::kWithin) ends.left.push_back(b);
  }
  // Indices are in order of allocation.
  const auto by_size = [&trace](std::uint32_t a, std::uint32_t b) {
    const Bytes x = trace.buffers[a].bytes;
    const Bytes y = trace.buffers[b].bytes;
    return x != y ? x < y : a < b;
  };
  std::ranges::sort(ends.carried, by_size);
  std::ranges::sort(ends.left, by_size);
  return ends;
}

std::string mismatch(const Trace& trace, const Ends& ends) {
  std::map<Bytes, long> balance;
  for (const std::uint32_t b : ends.left) ++balance[trace.buffers[b].bytes];
  for (const std::uint32_t b : ends.carried) --balance[trace.buffers[b].bytes];
  for (const auto& [bytes, count] : balance) {
    if (count == 0) continue;
    const std::string size = " of " + std::to_string(bytes) + " bytes";
    return count > 0 ? "it leaves " + quantity(static_cast<std::uint64_t>(count), "more buffer") + size +
                           " alive than it freed of those it began with"
                     : "it frees " + quantity(static_cast<std::uint64_t>(-count), "more buffer") + size +
                           " that it began with than it leaves alive";
  }
  return "";
}

}  // namespace

bool plan_steps(const Trace& trace, std::size_t steps, StepProgram* out, std::string* reason) {
  *out = {.steps = steps == 0 ? trace.steps.size() : steps, .renames = {}};
  if (out->steps <= trace.steps.size()) return true;
  const Ends ends = ends_of_last_step(trace);
  if (const std::string why = mismatch(trace, ends); !why.empty()) {
    const std::size_t count = trace.steps.size();
    *reason =
        (count == 1 ? "the step" : "the last of the " + std::to_string(count) + " steps") + " can not repeat: " + why;
    return false;
  }
  for (std::size_t i = 0; i < ends.carried.size(); ++i) out->renames.emplace_back(ends.carried[i], ends.left[i]);
  return true;
}

bool choose_steps(const Trace& trace, std::optional<std::size_t> asked, std::size_t usual, bool steps_repeat,
                  StepProgram* out, std::string* reason) {
  if (asked) return plan_steps(trace, *asked, out, reason);
  // To repeat the last one of several different steps would give it more weight than the others.
  std::string ignored;
  if (steps_repeat && plan_steps(trace, std::max(usual, trace.steps.size()), out, &ignored)) return true;
  return plan_steps(trace, 0, out, reason);
}

}  // namespace thermocline
