// SPDX-License-Identifier: Apache-2.0
#include "trace/step_profile.h"

#include <algorithm>
#include <cmath>

namespace thermocline {
namespace {

class Builder {
 public:
  Builder(const Trace& trace, const DeviceRates& rates, const StepTerms& terms, StepProfile* out)
      : trace_(trace), rates_(rates), terms_(terms), out_(*out), lives_(trace.buffers.size()) {}

  void run() {
    const StepSpan step = trace_.steps.back();
    for (std::size_t i = 0; i < step.begin; ++i) note_lifetime(trace_.events[i], true);
    for (std::size_t i = step.begin; i < step.end; ++i) note_lifetime(trace_.events[i], false);
    name_buffers();
    for (const std::uint32_t index : out_.operators) add_operator(trace_.operators[index]);
    out_.profile.first_operand.push_back(static_cast<std::uint32_t>(out_.profile.operand_buffers.size()));
    sum_unplanned();
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Life {
    bool in_step = false;              // alive at some place of the step
    bool from_before = false;          // alive when it begins
    std::uint32_t birth = 0;           // the first place at which it is alive
    std::uint32_t death = kNone;       // the last one; kNone: it outlives the step
    std::uint32_t in_lineage = kNone;  // its buffer there
  };

  void note_lifetime(const TraceEvent& event, bool is_before) {
    const auto place = static_cast<std::uint32_t>(out_.operators.size());
    if (event.kind == EventKind::kOperator) {
      if (!is_before) out_.operators.push_back(event.index);
      return;
    }
    Life& life = lives_[event.index];
    if (event.kind == EventKind::kAllocate) {
      life = {.in_step = true, .from_before = is_before, .birth = place};
    } else if (is_before || place == life.birth) {
      life.in_step = false;
    } else {
      life.death = place - 1;
    }
  }

  void name_buffers() {
    for (std::uint32_t b = 0; b < lives_.size(); ++b) {
      Life& life = lives_[b];
      if (!life.in_step) continue;
      if (life.birth >= out_.operators.size()) {
        life.in_step = false;
        continue;
      }
      life.in_lineage = static_cast<std::uint32_t>(out_.lineage.buffers.size());
      LineageBuffer buffer{.bytes = trace_.buffers[b].bytes};
      if (life.death != kNone) buffer.death = life.death;
      const bool is_within = !life.from_before && life.death != kNone;
      const bool may_move = terms_.moves[b] && (!life.from_before || life.death == kNone);
      buffer.may_be_dropped = !terms_.moves[b];
      if ((is_within || may_move) && buffer.bytes > 0) buffer.name = plan(b, life);
      out_.lineage.buffers.push_back(buffer);
    }
  }

  std::uint32_t plan(std::uint32_t b, const Life& life) {
    ProfiledBuffer buffer;
    buffer.bytes = buffer.contents = trace_.buffers[b].bytes;
    buffer.birth = life.birth;
    buffer.death = life.death != kNone ? life.death : static_cast<std::uint32_t>(out_.operators.size() - 1);
    buffer.always = life.from_before;
    buffer.is_result = terms_.is_result[b];
    buffer.held_until = terms_.held_until[b];
    out_.profile.buffers.push_back(buffer);
    out_.buffers.push_back(b);
    return static_cast<std::uint32_t>(out_.buffers.size() - 1);
  }

  void add_operator(const TraceOperator& op) {
    const auto place = static_cast<std::uint32_t>(out_.profile.places());
    out_.profile.first_operand.push_back(static_cast<std::uint32_t>(out_.profile.operand_buffers.size()));
    out_.profile.nanoseconds.push_back(static_cast<std::uint64_t>(std::llround(seconds_of(op, rates_) * 1e9)));
    std::vector<Lineage::Access> accesses;
    const auto access = [&](std::uint32_t b, bool writes) {
      const std::uint32_t buffer = lives_[b].in_lineage;
      if (buffer == kNone) return;
      use(out_.lineage.buffers[buffer].name, place, terms_.moves[b] && !writes);
      if (terms_.is_aside[b]) return;
      const auto known = std::ranges::find(accesses, buffer, &Lineage::Access::buffer);
      Lineage::Access& one =
          known != accesses.end() ? *known : accesses.emplace_back(Lineage::Access{.buffer = buffer});
      (writes ? one.writes : one.reads) = true;
    };
    for (const std::uint32_t b : trace_.reads(op)) access(b, false);
    for (const std::uint32_t b : trace_.writes(op)) access(b, true);
    out_.lineage.add(!terms_.runs_once[place], accesses);
  }

  void use(std::uint32_t name, std::uint32_t place, bool only_reads) {
    out_.profile.operand_buffers.push_back(name);
    if (name != kNoBuffer) out_.profile.buffers[name].add_use(place, only_reads);
  }

  void sum_unplanned() {
    const std::size_t places = out_.operators.size();
    std::vector<std::int64_t> change(places + 1);
    out_.profile.unplanned_results.assign(places, 0);
    for (std::uint32_t b = 0; b < lives_.size(); ++b) {
      const Life& life = lives_[b];
      if (!life.in_step || out_.lineage.buffers[life.in_lineage].name != kNoBuffer) continue;
      change[life.birth] += static_cast<std::int64_t>(trace_.buffers[b].bytes);
      if (terms_.is_result[b] && !life.from_before)
        out_.profile.unplanned_results[life.birth] += trace_.buffers[b].bytes;
      if (life.death != kNone)
        change[life.death + std::size_t{1}] -= static_cast<std::int64_t>(trace_.buffers[b].bytes);
    }
    std::int64_t now = 0;
    for (std::size_t q = 0; q < places; ++q) {
      out_.profile.unplanned_bytes.push_back(static_cast<Bytes>(now += change[q]));
    }
  }

  const Trace& trace_;
  const DeviceRates& rates_;
  const StepTerms& terms_;
  StepProfile& out_;
  std::vector<Life> lives_;  // by buffer of the trace
};

}  // namespace

StepProfile::StepProfile(const Trace& trace, const DeviceRates& rates, const StepTerms& terms) {
  Builder(trace, rates, terms, this).run();
}

std::vector<Bytes> StepProfile::live_bytes() const {
  std::vector<std::int64_t> change(profile.places() + 1);
  for (const ProfiledBuffer& buffer : profile.buffers) {
    change[buffer.birth] += static_cast<std::int64_t>(buffer.bytes);
    change[buffer.death + std::size_t{1}] -= static_cast<std::int64_t>(buffer.bytes);
  }
  std::vector<Bytes> live = profile.unplanned_bytes;
  std::int64_t now = 0;
  for (std::size_t q = 0; q < live.size(); ++q) live[q] += static_cast<Bytes>(now += change[q]);
  return live;
}

}  // namespace thermocline
