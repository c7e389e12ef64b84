// SPDX-License-Identifier: Apache-2.0
// Evicts everything that may be evicted (offload/sleep.h), in steps, so that the engine's lock is free in between.
// Memory that the program accesses meanwhile stays: a unit is evicted at most once in a sleep, so that it ends.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Copies in flight. Enough that the link never waits for the host, and few enough for a stream's queue, in which a copy
// takes several places (docs/architecture.md, Locks).
constexpr std::size_t kMostCopiesOut = 64;
constexpr std::size_t kMostReturning = 8;
// Units that are fetched before the lock is released: the driver takes 3 ms to create a unit's pages.
constexpr std::size_t kReturningAtOnce = 4;

}  // namespace

void Residency::set_asleep(EvictionUnit& unit, bool asleep) {
  if (unit.asleep == asleep) return;
  unit.asleep = asleep;
  asleep_bytes_ += asleep ? unit.bytes() : -unit.bytes();
}

// Unlike is_evictable, applies to blocks of any size: all memory is wanted.
bool Residency::may_sleep(const EvictionUnit& unit, const SleepScope& scope) const {
  return !has_stopped() && !is_pinned(unit) && unit.whole->operation <= scope.since &&
         (scope.tag == 0 || unit.whole->tag == scope.tag) && !clock_.is_blocked(unit.whole->block->uses) &&
         !clock_.is_blocked(unit.uses);
}

bool Residency::evicts_for_others() {
  return migration_.copies_out() > 0 && std::ranges::any_of(clean_, [this](EvictionUnit& unit) {
           return unit.evict_reason != EvictReason::kSleep && !migration_.has_left(unit);
         });
}

Residency::Step Residency::sleep_more(const SleepScope& scope, bool waits) {
  Step step;
  if (!waits && evicts_for_others()) {
    step.is_busy = true;
    return step;
  }
  ++preparation_;
  makes_room_for_ = EvictReason::kSleep;
  const WaitsForFile waits_for_file(*this);
  drop_for_sleep(scope, &step);
  copy_for_sleep(scope, &step);
  if (!step.goes_on) unmap_partial();
  step.is_busy = step.busy != nullptr;
  step.in_flight = migration_.oldest_copy_out();
  makes_room_for_ = EvictReason::kPressure;
  return step;
}

void Residency::drop_for_sleep(const SleepScope& scope, Step* step) {
  for (auto it = clean_.begin(); it != clean_.end();) {
    EvictionUnit& unit = *it++;
    if (!may_sleep(unit, scope)) continue;
    if (!migration_.has_left(unit)) {
      // An upload brings its copy to the host, in the program's stream.
      if (unit.uploaded) {
        step->busy = &unit;
        continue;
      }
      step->goes_on = true;
      // Copies that were begun later have not completed either.
      if (unit.evict_reason == EvictReason::kSleep) return;
      continue;
    }
    if (!idle(unit)) {
      step->busy = &unit;
      continue;
    }
    const auto before = std::exchange(unit.evict_reason, EvictReason::kSleep);
    if (!evict_unit(unit)) unit.evict_reason = before;
  }
}

void Residency::copy_for_sleep(const SleepScope& scope, Step* step) {
  UnitList& dirty = dirty_.in_order();
  for (auto it = dirty.begin(); it != dirty.end();) {
    EvictionUnit& unit = next_cut(dirty, &it);
    if (!may_sleep(unit, scope)) continue;
    if (!idle(unit)) {
      // A copy behind work that does not end would keep all other copies from completing.
      step->busy = &unit;
    } else if (!unit.defined) {
      static_cast<void>(evict_unit(unit));
    } else if (step->no_host || !step->status.ok()) {
      continue;
    } else if (migration_.copies_out() >= kMostCopiesOut) {
      step->goes_on = true;
      return;
    } else {
      const Status status = begin_eviction(unit, EvictReason::kSleep);
      step->no_host = status.is_out_of_memory();
      // Its room is being made: the rest of it waits for that.
      if (step->no_host && migration_.awaits()) {
        step->no_host = false;
        step->goes_on = true;
        return;
      }
      // To pageable memory, behind the copies that are under way.
      if (status == Status::not_ready() && clock_.has_deferred()) {
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

// Removes the pages of blocks that lie partly over mapped space, without contents there (drop_partial).
void Residency::unmap_partial() {
  for (EvictionUnit& unit : evicted_) {
    const Block& block = *unit.whole->block;
    const auto pages = block.page_handles().subspan(unit.range.first, unit.range.count);
    const auto has_no_page = [](PageHandle page) { return page == PageHandle{}; };
    if (std::ranges::all_of(pages, has_no_page) || clock_.is_blocked(block.uses) || !idle(unit)) continue;
    static_cast<void>(heap_.unmap(*unit.whole->block, unit.range));
  }
}

Status Residency::sleep_at_rest() {
  ++preparation_;
  makes_room_for_ = EvictReason::kSleep;
  const InOneGo in_one_go(host_mappings_, clock_);
  Status status = come_to_rest();
  const Bytes limit = heap_.limit();
  if (status.ok()) status = shrink_to(0);
  THERMOCLINE_CHECK(heap_.set_limit(limit).ok(), "a higher limit needs nothing of the driver");
  makes_room_for_ = EvictReason::kPressure;
  if (Status at_rest = come_to_rest(); status.ok()) status = at_rest;
  return status.is_out_of_memory() ? Status() : status;
}

Residency::Staying Residency::staying(const SleepScope& scope, bool no_host) {
  Staying bytes;
  const UnitList& dirty = dirty_.in_any_order();
  for (const UnitList* list : {&dirty, &std::as_const(clean_)}) {
    for (const EvictionUnit& unit : *list) {
      if (is_pinned(unit)) {
        bytes.pinned += unit.bytes();
      } else if (scope.tag != 0 && unit.whole->tag != scope.tag) {
        bytes.untagged += unit.bytes();
      } else if (!may_sleep(unit, scope) || !idle(unit)) {
        bytes.in_use += unit.bytes();
      } else if (no_host && (unit.defined || host_mappings_.full()) && list == &dirty) {
        // With a full fallback undefined contents need host memory too: addresses are mapped to it.
        bytes.no_host += unit.bytes();
      }
    }
  }
  return bytes;
}

Bytes Residency::asleep_bytes_of(std::uint64_t tag) const {
  if (tag == 0) return asleep_bytes_;
  Bytes bytes = 0;
  for (const EvictionUnit& unit : evicted_) bytes += unit.asleep && unit.whole->tag == tag ? unit.bytes() : 0;
  return bytes;
}

// Oldest access first: a program that repeats itself needs those next.
std::vector<EvictionUnit*> Residency::next_to_wake(std::uint64_t tag) {
  std::vector<EvictionUnit*> next;
  for (EvictionUnit& unit : evicted_) {
    // Units that a blocked stream uses would keep all others asleep.
    const bool is_blocked = clock_.is_blocked(unit.whole->block->uses) || clock_.is_blocked(unit.uses);
    if (unit.asleep && !is_blocked && (tag == 0 || unit.whole->tag == tag)) next.push_back(&unit);
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

Residency::Step Residency::wake_more(std::uint64_t tag) {
  Step step;
  fetches_for_ = FetchReason::kWake;
  const WaitsForFile waits_for_file(*this);
  for (EvictionUnit* const unit : next_to_wake(tag)) {
    step.goes_on = true;
    if (migration_.returning() >= kMostReturning) break;
    // It was fetched to make room on the host for one of the others.
    if (unit->mapped()) continue;
    if (Status status = read_to_host(*unit); !status.ok()) {
      step.goes_on = migration_.awaits() || clock_.has_deferred();
      step.no_room = !migration_.awaits();
      break;
    }
    bool came = false;
    if (!host_mappings_.full()) {
      came = fetch(*unit);
      // The fetch was not a guess about its use: it only returns to where it was.
      set_prefetched(*unit, false);
    } else if (heap_.available_bytes(Wait::kBehind) >= unit->bytes()) {
      came = make_whole_resident(*unit->whole, FetchReason::kWake).ok();
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
