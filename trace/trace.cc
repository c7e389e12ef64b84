// SPDX-License-Identifier: Apache-2.0
#include "trace/trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "driver/check.h"

namespace thermocline {

void Trace::validate_slices(const TraceOperator& op) const {
  if (op.mark == TraceOperator::kNoMark) return;
  THERMOCLINE_CHECK(op.mark < marks.size(), "an operator's mark is one of the trace's");
  const SliceMark& mark = marks[op.mark];
  THERMOCLINE_CHECK(op.first_slice + op.slices <= mark.slices, "a part computes slices of its operator");
  std::map<std::uint64_t, Bytes> split;  // by buffer of the file: of its pieces
  for (const std::uint32_t b : std::set<std::uint32_t>(operands.begin() + op.first_operand,
                                                       operands.begin() + op.first_operand + op.reads + op.writes)) {
    if (mark.splits(buffers[b].id)) split[buffers[b].id] += buffers[b].bytes;
  }
  const std::uint32_t taken = op.slices == 0 ? mark.slices : op.slices;
  for (const auto& [id, bytes] : split) {
    THERMOCLINE_CHECK(bytes > 0 && bytes % taken == 0, "what is split with an operator has equal slices");
  }
}

void Trace::validate() const {
  enum class Life : std::uint8_t { kUnborn, kAlive, kDead };
  std::vector<Life> lives(buffers.size(), Life::kUnborn);
  std::size_t next_buffer = 0;
  std::size_t next_operator = 0;
  Bytes live = 0;
  Bytes peak = 0;
  for (const TraceEvent& event : events) {
    THERMOCLINE_CHECK(event.stream < streams.size(), "an event's stream is one of the trace's");
    switch (event.kind) {
      case EventKind::kAllocate:
        THERMOCLINE_CHECK(event.index == next_buffer++, "buffers stand in order of allocation");
        lives[event.index] = Life::kAlive;
        live += buffers[event.index].bytes;
        peak = std::max(peak, live);
        break;
      case EventKind::kFree:
        THERMOCLINE_CHECK(lives[event.index] == Life::kAlive, "only what is alive is freed");
        lives[event.index] = Life::kDead;
        live -= buffers[event.index].bytes;
        break;
      case EventKind::kOperator: {
        THERMOCLINE_CHECK(event.index == next_operator++, "operators stand in program order");
        const TraceOperator& op = operators[event.index];
        validate_slices(op);
        THERMOCLINE_CHECK(op.name < names.size(), "an operator's name is one of the trace's");
        for (const std::uint32_t b : reads(op)) THERMOCLINE_CHECK(lives[b] == Life::kAlive, "what is read is alive");
        for (const std::uint32_t b : writes(op))
          THERMOCLINE_CHECK(lives[b] == Life::kAlive, "what is written is alive");
        break;
      }
    }
  }
  THERMOCLINE_CHECK(next_buffer == buffers.size() && next_operator == operators.size(),
                    "every buffer and operator has its event");
  THERMOCLINE_CHECK(peak == peak_live_bytes, "the peak is that of the events");
  std::size_t end = 0;
  for (const StepSpan& step : steps) {
    THERMOCLINE_CHECK(step.begin == end && step.end >= step.begin && step.end <= events.size(),
                      "steps follow one another");
    const auto of_step = std::span(events).subspan(step.begin, step.end - step.begin);
    const auto is_operator = [](const TraceEvent& event) { return event.kind == EventKind::kOperator; };
    THERMOCLINE_CHECK(std::ranges::any_of(of_step, is_operator), "a step has operators");
    end = step.end;
  }
}

}  // namespace thermocline
