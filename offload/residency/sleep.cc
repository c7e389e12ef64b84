// SPDX-License-Identifier: Apache-2.0
// Everything that may leave leaves (offload/sleep.h), step by step, so that the engine's lock is open in between. What
// the program accesses meanwhile stays: a unit leaves at most once in a sleep, so that every sleep ends.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Copies in flight. Enough that the link never waits for the host, and few enough for a stream's queue, in which a copy
// takes several places (docs/architecture.md, Locks).
constexpr std::size_t kMostLeaving = 64;
constexpr std::size_t kMostReturning = 8;
// Units that come back before the lock is opened: a unit's pages take the driver 3 ms to make.
constexpr std::size_t kReturningAtOnce = 4;

}  // namespace

void Residency::set_asleep(EvictionUnit& part, bool asleep) {
  if (part.asleep == asleep) return;
  part.asleep = asleep;
  asleep_bytes_ += asleep ? part.bytes() : -part.bytes();
}

// Unlike may_leave, of a block of any size: all of the memory is asked for.
bool Residency::may_sleep(const EvictionUnit& part, std::uint64_t since) const {
  return !has_stopped() && !is_pinned(part) && part.whole->operation <= since &&
         !clock_.is_blocked(part.whole->block->uses) && !clock_.is_blocked(part.uses);
}

bool Residency::leaves_for_others() {
  return migration_.leaving() > 0 && std::ranges::any_of(clean_, [this](EvictionUnit& part) {
           return part.leaves_for != EvictReason::kSleep && !migration_.has_left(part);
         });
}

Residency::Step Residency::sleep_more(std::uint64_t since, bool waits) {
  Step step;
  if (!waits && leaves_for_others()) {
    step.is_busy = true;
    return step;
  }
  ++preparation_;
  makes_room_for_ = EvictReason::kSleep;
  const WaitsForFile waits_for_file(*this);
  drop_for_sleep(since, &step);
  copy_for_sleep(since, &step);
  if (!step.goes_on) unmap_partial();
  step.is_busy = step.busy != nullptr;
  step.in_flight = migration_.oldest_leaving();
  makes_room_for_ = EvictReason::kPressure;
  return step;
}

void Residency::drop_for_sleep(std::uint64_t since, Step* step) {
  for (auto it = clean_.begin(); it != clean_.end();) {
    EvictionUnit& part = *it++;
    if (!may_sleep(part, since)) continue;
    if (!migration_.has_left(part)) {
      step->goes_on = true;
      // What was begun later has not left either.
      if (part.leaves_for == EvictReason::kSleep) return;
      continue;
    }
    if (!idle(part)) {
      step->busy = &part;
      continue;
    }
    const auto before = std::exchange(part.leaves_for, EvictReason::kSleep);
    if (!drop(part)) part.leaves_for = before;
  }
}

void Residency::copy_for_sleep(std::uint64_t since, Step* step) {
  for (auto it = dirty_.begin(); it != dirty_.end();) {
    EvictionUnit& part = *it++;
    if (!may_sleep(part, since)) continue;
    if (!idle(part)) {
      // A copy behind work that does not end would keep all other copies from leaving.
      step->busy = &part;
    } else if (!part.defined) {
      static_cast<void>(drop(part));
    } else if (step->no_host || !step->status.ok()) {
      continue;
    } else if (migration_.leaving() >= kMostLeaving) {
      step->goes_on = true;
      return;
    } else {
      const Status status = begin_to_leave(part, EvictReason::kSleep);
      step->no_host = status.is_out_of_memory();
      // Its room is being made: the rest of it waits for that.
      if (step->no_host && migration_.awaits()) {
        step->no_host = false;
        step->goes_on = true;
        return;
      }
      if (status.ok()) {
        step->goes_on = true;
      } else if (!step->no_host) {
        step->status = status;
      }
    }
  }
}

// What lies partly over mapped space, without contents there (drop_partial).
void Residency::unmap_partial() {
  for (EvictionUnit& part : evicted_) {
    const Block& block = *part.whole->block;
    const auto pages = block.page_handles().subspan(part.range.first, part.range.count);
    const auto is_bare = [](PageHandle page) { return page == PageHandle{}; };
    if (std::ranges::all_of(pages, is_bare) || clock_.is_blocked(block.uses) || !idle(part)) continue;
    static_cast<void>(heap_.unmap(*part.whole->block, part.range));
  }
}

Status Residency::sleep_at_rest() {
  ++preparation_;
  makes_room_for_ = EvictReason::kSleep;
  const InOneGo in_one_go(net_, clock_);
  Status status = come_to_rest();
  const Bytes limit = heap_.limit();
  if (status.ok()) status = shrink_to(0);
  THERMOCLINE_CHECK(heap_.set_limit(limit).ok(), "a higher limit needs nothing of the driver");
  makes_room_for_ = EvictReason::kPressure;
  if (Status at_rest = come_to_rest(); status.ok()) status = at_rest;
  return status.is_out_of_memory() ? Status() : status;
}

Residency::Staying Residency::staying(std::uint64_t since, bool no_host) {
  Staying bytes;
  for (const PartList* list : {&dirty_, &clean_}) {
    for (const EvictionUnit& part : *list) {
      if (is_pinned(part)) {
        bytes.pinned += part.bytes();
      } else if (!may_sleep(part, since) || !idle(part)) {
        bytes.in_use += part.bytes();
      } else if (no_host && (part.defined || net_.full()) && list == &dirty_) {
        // With a full fallback undefined contents need host memory too: addresses lead there.
        bytes.no_host += part.bytes();
      }
    }
  }
  return bytes;
}

// Oldest access first: whoever repeats what it did needs those next.
std::vector<EvictionUnit*> Residency::next_to_wake() {
  std::vector<EvictionUnit*> next;
  for (EvictionUnit& part : evicted_) {
    // What a blocked stream uses would keep all others asleep.
    const bool is_blocked = clock_.is_blocked(part.whole->block->uses) || clock_.is_blocked(part.uses);
    if (part.asleep && !is_blocked) next.push_back(&part);
  }
  const auto is_before = [](const EvictionUnit* a, const EvictionUnit* b) {
    if (a->whole->operation != b->whole->operation) return a->whole->operation < b->whole->operation;
    return a->begin() < b->begin();
  };
  const std::size_t wanted = std::min(next.size(), kReturningAtOnce);
  std::partial_sort(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(wanted), next.end(), is_before);
  next.resize(wanted);
  return next;
}

Residency::Step Residency::wake_more() {
  Step step;
  fetches_for_ = FetchReason::kWake;
  const WaitsForFile waits_for_file(*this);
  for (EvictionUnit* const part : next_to_wake()) {
    step.goes_on = true;
    if (migration_.returning() >= kMostReturning) break;
    // Brought back to make room on the host for one of the others.
    if (part->mapped()) continue;
    if (Status status = bring_to_host(*part); !status.ok()) {
      step.goes_on = migration_.awaits() || clock_.has_deferred();
      step.no_room = !migration_.awaits();
      break;
    }
    bool came = false;
    if (!net_.full()) {
      came = fetch(*part);
      // Nobody has guessed that it will be used: it is where it was.
      set_prefetched(*part, false);
    } else if (heap_.available_bytes(Wait::kBehind) >= part->bytes()) {
      came = make_whole_resident(*part->whole, FetchReason::kWake).ok();
    }
    if (came) continue;
    step.goes_on = false;
    step.no_room = true;
    break;
  }
  // Until enough is on its way, the host makes pages for more.
  if (!step.goes_on || migration_.returning() >= kMostReturning) step.in_flight = migration_.oldest_returning();
  step.newest = migration_.newest_returning();
  return step;
}

}  // namespace thermocline
