// SPDX-License-Identifier: Apache-2.0
#include "trace/split.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace thermocline {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
// The most rounds of counting parts again because pieces have become smaller. Once a piece is one page, smaller ones do
// not help.
constexpr int kMostRounds = 32;

// Each buffer of the operator once, in the order in which it names them.
std::vector<std::uint32_t> named_by(const Trace& trace, const TraceOperator& op) {
  std::vector<std::uint32_t> named;
  for (const auto operands : {trace.reads(op), trace.writes(op)}) {
    for (const std::uint32_t b : operands) {
      if (std::ranges::find(named, b) == named.end()) named.push_back(b);
    }
  }
  return named;
}

bool contains(std::span<const std::uint32_t> buffers, std::uint32_t b) {
  return std::ranges::find(buffers, b) != buffers.end();
}

// The range of events in which a buffer is alive.
struct Life {
  std::size_t begin = 0, end = 0;       // events
  std::uint32_t next_operator = kNone;  // behind the allocation
  std::uint32_t last_operator = kNone;  // before the free
  bool within_step = false;
};

std::vector<Life> lives_of(const Trace& trace) {
  std::vector<Life> lives(trace.buffers.size());
  std::vector<std::size_t> step_of(trace.events.size(), trace.steps.size());
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    for (std::size_t e = trace.steps[s].begin; e < trace.steps[s].end; ++e) step_of[e] = s;
  }
  std::uint32_t operators = 0;
  for (std::size_t e = 0; e < trace.events.size(); ++e) {
    const TraceEvent& event = trace.events[e];
    if (event.kind == EventKind::kOperator) ++operators;
    if (event.kind == EventKind::kAllocate) lives[event.index] = {.begin = e, .next_operator = operators};
    if (event.kind != EventKind::kFree) continue;
    Life& life = lives[event.index];
    life.end = e;
    life.last_operator = operators == 0 ? kNone : operators - 1;
    life.within_step = step_of[life.begin] == step_of[e] && step_of[e] < trace.steps.size();
  }
  return lives;
}

// Slices [begin, end) of an operator.
struct PartSlices {
  std::uint32_t begin, end;
  std::uint32_t count() const { return end - begin; }
};

PartSlices slices_of(std::uint32_t slices, std::uint32_t parts, std::uint32_t part) {
  const auto at = [=](std::uint32_t p) { return static_cast<std::uint32_t>(std::uint64_t{slices} * p / parts); };
  return {at(part), at(part + 1)};
}

class Splitting {
 public:
  Splitting(const Trace& from, const SplitTerms& terms, SplitTrace* out)
      : from_(from),
        terms_(terms),
        out_(*out),
        to_(out->trace),
        lives_(lives_of(from)),
        parts_(from.operators.size(), 1),
        cuts_(from.buffers.size()),
        pieces_(from.buffers.size()) {}

  void run() {
    for (std::uint32_t i = 0; i < from_.operators.size(); ++i) consider(i);
    for (int round = 0; round < kMostRounds && divide_further(); ++round) {
    }
    if (!out_.any_split()) {
      to_ = from_;
      return;
    }
    begin_trace();
    std::size_t step = 0;
    for (std::size_t e = 0; e < from_.events.size(); ++e) {
      for (; step < from_.steps.size() && from_.steps[step].begin == e; ++step) mark_step();
      pass_on(from_.events[e]);
    }
    end_steps();
    out_peak();
  }

 private:
  Bytes in_pages(Bytes bytes) const { return (bytes + terms_.page_bytes - 1) / terms_.page_bytes * terms_.page_bytes; }

  // The bytes of the largest part if there are this many.
  Bytes part_bytes(const TraceOperator& op, const SliceMark& mark, std::uint32_t parts) const {
    const std::uint32_t most = (mark.slices + parts - 1) / parts;
    Bytes sum = 0;
    for (const std::uint32_t b : named_by(from_, op)) {
      const TraceBuffer& buffer = from_.buffers[b];
      sum += in_pages(mark.splits(buffer.id) ? buffer.bytes / mark.slices * most : buffer.bytes);
    }
    return sum;
  }

  std::string why_not(const TraceOperator& op, const SliceMark& mark) const {
    for (const std::uint32_t b : named_by(from_, op)) {
      if (mark.splits(from_.buffers[b].id) && !lives_[b].within_step)
        return "buffer " + std::to_string(from_.buffers[b].id) + ", which is split with it, is not freed in its step";
    }
    return "";
  }

  void consider(std::uint32_t index) {
    const TraceOperator& op = from_.operators[index];
    SplitOperator found{.op = index, .parts = 1, .bytes = operand_bytes(from_, op, terms_.page_bytes)};
    if (found.bytes <= terms_.limit) return;
    found.part_bytes = found.bytes;
    if (op.mark != TraceOperator::kNoMark) {
      const SliceMark& mark = from_.marks[op.mark];
      found.why_not = why_not(op, mark);
      if (found.why_not.empty()) divide(op, mark, &found);
    }
    parts_[index] = found.parts;
    if (found.parts > 1) cut(op, from_.marks[op.mark], found.parts);
    out_.operators.push_back(std::move(found));
  }

  // Each piece takes whole pages, so an operator may need more of a buffer that others cut than of the whole one, and a
  // part more than its slices. Divides operators that exceed the limit by that; false: none does, or none can be.
  bool divide_further() {
    bool any = false;
    for (std::uint32_t i = 0; i < from_.operators.size(); ++i) {
      const TraceOperator& op = from_.operators[i];
      const Bytes bytes = bytes_in_pieces(i);
      if (bytes == 0) continue;
      SplitOperator* known = entry_of(i);
      if (bytes <= terms_.limit) {
        if (known != nullptr) known->part_bytes = bytes;
        continue;
      }
      if (known == nullptr) {
        const SplitOperator found{.op = i, .parts = 1, .bytes = operand_bytes(from_, op, terms_.page_bytes)};
        const auto place = std::ranges::lower_bound(out_.operators, i, {}, &SplitOperator::op);
        known = &*out_.operators.insert(place, found);
      }
      // Smaller pieces of the same pages do not help.
      const bool has_helped = !tried_.contains(i) || bytes < known->part_bytes;
      known->part_bytes = bytes;
      if (op.mark == TraceOperator::kNoMark || !known->why_not.empty()) continue;
      const SliceMark& mark = from_.marks[op.mark];
      known->why_not = why_not(op, mark);
      if (!known->why_not.empty() || known->parts == mark.slices || !has_helped) continue;
      tried_.insert(i);
      parts_[i] = ++known->parts;
      cut(op, mark, known->parts);
      any = true;
    }
    return any;
  }

  SplitOperator* entry_of(std::uint32_t index) {
    const auto at = std::ranges::lower_bound(out_.operators, index, {}, &SplitOperator::op);
    return at != out_.operators.end() && at->op == index ? &*at : nullptr;
  }

  // The bytes that the largest part of the operator needs, or the whole operator if it is not split, with buffers cut
  // as they are now. 0: none of its buffers is cut.
  Bytes bytes_in_pieces(std::uint32_t index) const {
    const TraceOperator& op = from_.operators[index];
    const std::vector<std::uint32_t> named = named_by(from_, op);
    if (std::ranges::all_of(named, [this](std::uint32_t b) { return cuts_[b].empty(); })) return 0;
    const std::uint32_t parts = parts_[index];
    Bytes most = 0;
    for (std::uint32_t p = 0; p < parts; ++p) {
      Bytes sum = 0;
      for (const std::uint32_t b : named) {
        const Bytes all = from_.buffers[b].bytes;
        const bool is_split = parts > 1 && from_.marks[op.mark].splits(from_.buffers[b].id);
        if (!is_split) {
          sum += pages_of_pieces(b, 0, all);
          continue;
        }
        const std::uint32_t slices = from_.marks[op.mark].slices;
        const PartSlices part = slices_of(slices, parts, p);
        sum += pages_of_pieces(b, all / slices * part.begin, all / slices * part.end);
      }
      most = std::max(most, sum);
    }
    return most;
  }

  // The page bytes of the pieces of a buffer in [from, to); both are ends of pieces.
  Bytes pages_of_pieces(std::uint32_t b, Bytes from, Bytes to) const {
    Bytes sum = 0, begin = from;
    for (auto cut = cuts_[b].upper_bound(from); cut != cuts_[b].end() && *cut < to; ++cut) {
      sum += in_pages(*cut - begin);
      begin = *cut;
    }
    return sum + in_pages(to - begin);
  }

  void divide(const TraceOperator& op, const SliceMark& mark, SplitOperator* found) const {
    for (std::uint32_t parts = 2; parts <= mark.slices; ++parts) {
      const Bytes bytes = part_bytes(op, mark, parts);
      if (bytes > terms_.limit) continue;
      found->parts = parts;
      found->part_bytes = bytes;
      return;
    }
    found->why_not = "one of " + std::to_string(mark.slices) + " slices needs " +
                     std::to_string(part_bytes(op, mark, mark.slices)) + " bytes";
  }

  void cut(const TraceOperator& op, const SliceMark& mark, std::uint32_t parts) {
    for (const std::uint32_t b : named_by(from_, op)) {
      if (!mark.splits(from_.buffers[b].id)) continue;
      const Bytes slice = from_.buffers[b].bytes / mark.slices;
      for (std::uint32_t p = 1; p < parts; ++p) cuts_[b].insert(slice * slices_of(mark.slices, parts, p).begin);
    }
  }

  void begin_trace() {
    to_.path = from_.path;
    to_.header = from_.header;
    to_.names = from_.names;
    to_.tags = from_.tags;
    to_.streams = from_.streams;
    to_.marks = from_.marks;
    to_.choices = from_.choices;
    to_.has_marks = from_.has_marks;
    to_.is_single_device = from_.is_single_device;
  }

  void mark_step() { begins_.push_back(to_.events.size()); }
  void end_steps() {
    for (std::size_t s = 0; s < from_.steps.size(); ++s) {
      const bool is_last = s + 1 == from_.steps.size();
      to_.steps.push_back({begins_[s], is_last ? end_of_last_step_ : begins_[s + 1]});
    }
  }

  void pass_on(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kAllocate:
        if (!with_parts(event.index, lives_[event.index].next_operator)) allocate_all(event);
        break;
      case EventKind::kFree:
        if (!with_parts(event.index, lives_[event.index].last_operator)) free_all(event);
        break;
      case EventKind::kOperator:
        operate(event);
        break;
    }
    const auto at = static_cast<std::size_t>(&event - from_.events.data());
    if (!from_.steps.empty() && at + 1 == from_.steps.back().end) end_of_last_step_ = to_.events.size();
  }

  // Whether pieces of the buffer are allocated, or freed, between the parts of this operator.
  bool with_parts(std::uint32_t b, std::uint32_t op) const {
    if (cuts_[b].empty() || op == kNone || op >= parts_.size() || parts_[op] == 1) return false;
    const TraceOperator& o = from_.operators[op];
    return from_.marks[o.mark].splits(from_.buffers[b].id) && contains(named_by(from_, o), b);
  }

  // The ends of a buffer's pieces, the last one included.
  std::vector<Bytes> ends_of(std::uint32_t b) const {
    std::vector<Bytes> ends(cuts_[b].begin(), cuts_[b].end());
    ends.push_back(from_.buffers[b].bytes);
    return ends;
  }

  void allocate_all(const TraceEvent& event) { allocate(event, 0, from_.buffers[event.index].bytes); }

  // The pieces that end in (from, to].
  void allocate(const TraceEvent& event, Bytes from, Bytes to) {
    const std::uint32_t b = event.index;
    Bytes begin = 0;
    for (const Bytes end : ends_of(b)) {
      if (from < end && end <= to) {
        pieces_[b].push_back({end, static_cast<std::uint32_t>(to_.buffers.size())});
        to_.events.push_back({EventKind::kAllocate, event.stream, static_cast<std::uint32_t>(to_.buffers.size())});
        TraceBuffer piece = from_.buffers[b];
        piece.bytes = end - begin;
        piece.continues = begin > 0;
        to_.buffers.push_back(piece);
      }
      begin = end;
    }
    if (from_.buffers[b].bytes == 0) {
      pieces_[b].push_back({0, static_cast<std::uint32_t>(to_.buffers.size())});
      to_.events.push_back({EventKind::kAllocate, event.stream, static_cast<std::uint32_t>(to_.buffers.size())});
      to_.buffers.push_back(from_.buffers[b]);
    }
  }

  void free_all(const TraceEvent& event) {
    for (const Piece& piece : pieces_[event.index])
      to_.events.push_back({EventKind::kFree, event.stream, piece.buffer});
  }

  void operate(const TraceEvent& event) {
    const TraceOperator& op = from_.operators[event.index];
    if (parts_[event.index] == 1) {
      emit(event.stream, op, nullptr, {0, 0}, 0);
      return;
    }
    const SliceMark& mark = from_.marks[op.mark];
    for (std::uint32_t p = 0; p < parts_[event.index]; ++p) {
      const PartSlices part = slices_of(mark.slices, parts_[event.index], p);
      for (const std::uint32_t b : named_by(from_, op)) {
        if (mark.splits(from_.buffers[b].id) && lives_[b].next_operator == event.index) allocate_part(b, mark, part);
      }
      emit(event.stream, op, &mark, part, p);
      for (const std::uint32_t b : named_by(from_, op)) {
        if (mark.splits(from_.buffers[b].id) && lives_[b].last_operator == event.index) free_part(b, mark, part);
      }
    }
  }

  void allocate_part(std::uint32_t b, const SliceMark& mark, PartSlices part) {
    const Bytes slice = from_.buffers[b].bytes / mark.slices;
    allocate(from_.events[lives_[b].begin], slice * part.begin, slice * part.end);
  }

  void free_part(std::uint32_t b, const SliceMark& mark, PartSlices part) {
    for (const std::uint32_t piece : pieces_in(b, mark, part))
      to_.events.push_back({EventKind::kFree, from_.events[lives_[b].end].stream, piece});
  }

  std::vector<std::uint32_t> pieces_in(std::uint32_t b, const SliceMark& mark, PartSlices part) const {
    const Bytes slice = from_.buffers[b].bytes / mark.slices;
    std::vector<std::uint32_t> in;
    for (const Piece& piece : pieces_[b]) {
      if (slice * part.begin < piece.end && piece.end <= slice * part.end) in.push_back(piece.buffer);
    }
    return in;
  }

  // `mark`: null where the operator is not split.
  void emit(std::uint32_t stream, const TraceOperator& op, const SliceMark* mark, PartSlices part,
            std::uint32_t number) {
    TraceOperator made = op;
    made.part = number;
    made.parts = mark == nullptr ? 0 : parts_[static_cast<std::size_t>(&op - from_.operators.data())];
    made.first_operand = static_cast<std::uint32_t>(to_.operands.size());
    const auto append = [&](std::uint32_t b) {
      if (mark != nullptr && mark->splits(from_.buffers[b].id)) {
        for (const std::uint32_t piece : pieces_in(b, *mark, part)) to_.operands.push_back(piece);
      } else {
        for (const Piece& piece : pieces_[b]) to_.operands.push_back(piece.buffer);
      }
    };
    for (const std::uint32_t b : from_.reads(op)) append(b);
    // An accumulating part continues from the results of the part before.
    for (const std::uint32_t b : from_.writes(op)) {
      const bool goes_on = mark != nullptr && part.begin > 0 && !mark->splits(from_.buffers[b].id);
      if (goes_on && !contains(from_.reads(op), b)) append(b);
    }
    made.reads = static_cast<std::uint32_t>(to_.operands.size()) - made.first_operand;
    for (const std::uint32_t b : from_.writes(op)) append(b);
    made.writes = static_cast<std::uint32_t>(to_.operands.size()) - made.first_operand - made.reads;
    if (mark != nullptr) take_share(op, *mark, part, &made);
    to_.events.push_back({EventKind::kOperator, stream, static_cast<std::uint32_t>(to_.operators.size())});
    to_.operators.push_back(made);
  }

  void take_share(const TraceOperator& op, const SliceMark& mark, PartSlices part, TraceOperator* out) const {
    const double share = static_cast<double>(part.count()) / mark.slices;
    double whole = 0;  // read by every part
    for (const std::uint32_t b : named_by(from_, op)) {
      const auto bytes = static_cast<double>(from_.buffers[b].bytes);
      if (!mark.splits(from_.buffers[b].id)) whole += contains(from_.writes(op), b) ? 2 * bytes : bytes;
    }
    // If the operator does not read a buffer completely (an embedding's table), its parts do not either.
    whole = std::min(whole, op.bytes);
    out->first_slice = part.begin;
    out->slices = part.count();
    out->flops = op.flops * share;
    out->bytes = op.bytes * share + whole * (1 - share);
    if (op.is_measured()) {
      const double launch = std::min(terms_.launch_seconds * 1e6, op.microseconds);
      out->microseconds = (op.microseconds - launch) * share + launch;
    }
  }

  void out_peak() {
    Bytes live = 0;
    for (const TraceEvent& event : to_.events) {
      if (event.kind == EventKind::kAllocate) live += to_.buffers[event.index].bytes;
      if (event.kind == EventKind::kFree) live -= to_.buffers[event.index].bytes;
      to_.peak_live_bytes = std::max(to_.peak_live_bytes, live);
    }
  }

  struct Piece {
    Bytes end;             // in its buffer
    std::uint32_t buffer;  // of the new trace
  };

  const Trace& from_;
  const SplitTerms& terms_;
  SplitTrace& out_;
  Trace& to_;
  const std::vector<Life> lives_;
  std::vector<std::uint32_t> parts_;        // by operator
  std::set<std::uint32_t> tried_;           // operators that were divided further
  std::vector<std::set<Bytes>> cuts_;       // by buffer: where a piece ends and the next begins
  std::vector<std::vector<Piece>> pieces_;  // by buffer, in order
  std::vector<std::size_t> begins_;         // of steps
  std::size_t end_of_last_step_ = 0;
};

}  // namespace

bool SplitTrace::any_split() const {
  return std::ranges::any_of(operators, [](const SplitOperator& o) { return o.parts > 1; });
}

Bytes operand_bytes(const Trace& trace, const TraceOperator& op, Bytes page_bytes) {
  Bytes sum = 0;
  for (const std::uint32_t b : named_by(trace, op))
    sum += (trace.buffers[b].bytes + page_bytes - 1) / page_bytes * page_bytes;
  return sum;
}

SplitTrace split_operators(const Trace& trace, const SplitTerms& terms) {
  SplitTrace out;
  Splitting(trace, terms, &out).run();
  return out;
}

}  // namespace thermocline
