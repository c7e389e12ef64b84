// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/sequence.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <random>
#include <string_view>

#include "trace/read.h"
#include "trace/repeat.h"

namespace thermocline::bench {
namespace {

constexpr Bytes kLeast = 512;
constexpr std::uint32_t kHandedOver = 256;

void hit(std::size_t rounds, Sequence* out) {
  out->slots = 1;
  // The second pair comes from whatever the first one left.
  out->warm_up = 4;
  for (std::size_t i = 0; i < rounds + 2; ++i) {
    out->events.push_back({0, kKiB});
    out->events.push_back({0, 0});
  }
}

void hand_over(std::size_t rounds, Sequence* out) {
  out->slots = kHandedOver;
  out->warm_up = std::size_t{4} * kHandedOver;
  out->hands_over = true;
  for (std::size_t i = 0; i < rounds / kHandedOver + 3; ++i) {
    for (std::uint32_t slot = 0; slot < kHandedOver; ++slot) out->events.push_back({slot, kKiB});
    for (std::uint32_t slot = 0; slot < kHandedOver; ++slot) out->events.push_back({slot, 0});
  }
}

// A random doubling, and a random place in it.
Bytes churned_size(std::mt19937_64& random, unsigned doublings) {
  const Bytes base = kLeast << random() % doublings;
  return base + random() % base;
}

void churn(std::size_t live, Bytes largest, std::size_t rounds, Sequence* out) {
  std::mt19937_64 random(1);
  const auto doublings = static_cast<unsigned>(std::bit_width(largest / kLeast)) - 1;
  out->slots = live;
  const auto replace = [&](std::size_t slot) {
    out->events.push_back({static_cast<std::uint32_t>(slot), 0});
    out->events.push_back({static_cast<std::uint32_t>(slot), churned_size(random, doublings)});
  };
  for (std::size_t slot = 0; slot < live; ++slot)
    out->events.push_back({static_cast<std::uint32_t>(slot), churned_size(random, doublings)});
  // Until the memory that it needs has been created.
  for (std::size_t i = 0; i < 2 * live; ++i) replace(random() % live);
  out->warm_up = out->events.size();
  for (std::size_t i = 0; i < rounds; ++i) replace(random() % live);
}

bool recorded(const std::string& path, std::size_t rounds, Sequence* out, std::string* error) {
  Trace trace;
  TraceError unreadable;
  if (!read_trace(path, &trace, &unreadable)) {
    *error = unreadable.text();
    return false;
  }
  // One repetition is warm-up, too.
  const std::size_t steps = trace.steps.size() + 1 + rounds;
  StepProgram program;
  if (!plan_steps(trace, steps, &program, error)) return false;
  out->slots = trace.buffers.size();
  out->per_unit = 1;
  std::vector<std::uint32_t> slot_of(trace.buffers.size());
  std::iota(slot_of.begin(), slot_of.end(), 0);
  for (std::size_t step = 0; step < steps; ++step) {
    if (step == steps - rounds) out->warm_up = out->events.size();
    if (program.is_repetition(trace, step)) {
      const std::vector<std::uint32_t> before = slot_of;
      for (const auto& [first, second] : program.renames) slot_of[first] = before[second];
      // The buffer that was `first` is gone, so its slot is free for the next `second`.
      for (const auto& [first, second] : program.renames) slot_of[second] = before[first];
    }
    for (std::size_t i = program.span(trace, step).begin; i < program.span(trace, step).end; ++i) {
      const TraceEvent& event = trace.events[i];
      if (event.kind == EventKind::kOperator) continue;
      const Bytes bytes = std::max(trace.buffers[event.index].bytes, Bytes{1});
      out->events.push_back({slot_of[event.index], event.kind == EventKind::kAllocate ? bytes : 0});
    }
  }
  return true;
}

// Every slot holds at most one buffer, and what is freed is there.
bool complete(Sequence* out) {
  std::vector<Bytes> live(out->slots);
  Bytes now = 0;
  for (const SequenceEvent& event : out->events) {
    Bytes& slot = live[event.slot];
    if ((slot == 0) != (event.bytes != 0)) return false;
    now += event.bytes - slot;
    slot = event.bytes;
    out->peak_live_bytes = std::max(out->peak_live_bytes, now);
  }
  return true;
}

}  // namespace

bool make_sequence(const std::string& name, std::size_t rounds, Sequence* out, std::string* error) {
  constexpr std::string_view kTwoThreads = "two-threads-";
  if (name.starts_with(kTwoThreads) && name != "two-threads-handed-over") {
    out->threads = 2;
    return make_sequence(name.substr(kTwoThreads.size()), rounds, out, error);
  }
  unsigned long live = 0, largest_kib = 0;
  if (name == "hit") {
    hit(rounds, out);
  } else if (name == "handed-over") {
    hand_over(rounds, out);
  } else if (std::sscanf(name.c_str(), "churn-%lu-%luk", &live, &largest_kib) == 2 && live > 0 && largest_kib > 0) {
    churn(live, largest_kib * kKiB, rounds, out);
  } else if (name.find('.') == std::string::npos) {
    *error =
        "no such sequence: hit, handed-over, churn-LIVE-KIBk (churn-20000-1024k), two-threads-hit, "
        "two-threads-churn-LIVE-KIBk, or the path of a trace";
    return false;
  } else if (!recorded(name, rounds, out, error)) {
    return false;
  }
  if (complete(out)) return true;
  *error = "a buffer is allocated twice, or freed before it is allocated";
  return false;
}

}  // namespace thermocline::bench
