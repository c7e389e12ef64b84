// SPDX-License-Identifier: Apache-2.0
#include "offload/policy/static_assignment.h"

#include <algorithm>
#include <utility>

namespace thermocline {
namespace {

// The steps under a plan, by iteration (round).
constexpr unsigned kPrepared = 3;
constexpr unsigned kWatched = 4;
constexpr unsigned kAssigned = 5;
constexpr unsigned kInForce = 7;

// Kinds of iterations that are measured; the iteration in which buffers move to their addresses is none of these. In
// kGiving, the watched one, pages are given up at once, without an assignment.
constexpr unsigned kBefore = 0, kNeither = 1, kAfter = 2, kGiving = 3;
// This many iterations are measured, and the shortest counts.
constexpr unsigned kMeasured = 3;
constexpr double kSlower = 1.005, kMuchFaster = 0.99;

}  // namespace

void StaticAssignment::begins(std::size_t iteration, std::uint64_t submitted_ns, const Link& link) {
  if (!residency_.is_trusting()) return;
  const std::uint64_t nanoseconds = submitted_ns - std::exchange(began_ns_, submitted_ns);
  const std::uint64_t calls = heap_.mapping_calls();
  const bool made_calls = calls != std::exchange(mapping_calls_, calls);
  const bool was_this_one = std::exchange(begun_, iteration) == iteration;
  known_[iteration].mapped = made_calls && was_this_one;
  read_meter(known_[iteration]);
  advance(iteration, nanoseconds, link);
  measure(iteration);
  if (!known_[iteration].reserved.keeps()) heap_.assigned_pages().rest();
}

void StaticAssignment::advance(std::size_t iteration, std::uint64_t nanoseconds, const Link& link) {
  AssignedIteration& known = known_[iteration];
  if (known.rounds <= kInForce + 1) ++known.rounds;
  if (known.reserved.keeps()) {
    residency_.give_up_at_once(true);
    if (heap_.assigned_pages().rests() || known.rounds == kInForce + 1) rebind();
    heap_.assigned_pages().resume();
    return revise(iteration, nanoseconds, link);
  }
  const bool another =
      std::any_of(known_.begin(), known_.end(), [](const AssignedIteration& one) { return one.reserved.keeps(); });
  if (another || known.rounds < kPrepared || known.rounds > kInForce) return residency_.give_up_at_once(known.gives_up);
  if (known.rounds == kPrepared) {
    residency_.give_up_at_once(true);
  } else if (known.rounds == kWatched) {
    watch(known);
  } else if (known.rounds == kAssigned) {
    // Interrupted: begins again.
    if (!watching_) {
      known.rounds = kPrepared - 1;
      return;
    }
    assigned_ = iteration;
    assign(link);
  } else if (known.rounds == kInForce) {
    // Another iteration ran in between.
    if (!assigning_.begun() || assigned_ != iteration) {
      known.rounds = kPrepared - 1;
      return;
    }
    const Assigned assigned = assigning_.take();
    if (assigned.pages.is_worth_it(1e6 * without_ms(known))) return apply(known, assigned, nanoseconds);
    known.gives_up = is_faster_giving_up(known);
    residency_.give_up_at_once(known.gives_up);
  }
}

// The place of a slab, and therefore the time when it is freed, depends on the addresses that were free for it. So with
// reserved addresses slabs may own their pages at other times than in the logged iteration.
void StaticAssignment::revise(std::size_t iteration, std::uint64_t nanoseconds, const Link& link) {
  AssignedIteration& known = known_[iteration];
  switch (known.revision) {
    case Revision::kNone:
      // The first iteration in force may have begun with pages to be moved (rebind).
      if (known.measured < 2 || known.fits()) return;
      watch(known);
      known.revision = Revision::kWatched;
      break;
    case Revision::kWatched:
      // Interrupted: begins again.
      known.revision = watching_ ? Revision::kAssigned : Revision::kNone;
      if (!watching_) return;
      assigned_ = iteration;
      assign(link);
      residency_.give_up_at_once(true);
      break;
    case Revision::kAssigned:
      known.revision = Revision::kReady;
      break;
    case Revision::kReady:
      known.revision = Revision::kDone;
      if (!assigning_.begun() || assigned_ != iteration) return;
      if (const Assigned assigned = assigning_.take(); assigned.pages.is_worth_it(1e6 * known.after_ms)) {
        apply(known, assigned, nanoseconds);
        known.rounds = kInForce;
        known.measured = 0;
        known.after_ms = 0;
      }
      break;
    case Revision::kDone:
      break;
  }
}

double StaticAssignment::unassigned_ms(std::size_t iteration) const {
  const AssignedIteration& known = known_[iteration];
  return known.rounds <= kInForce || known.reserved.keeps() ? 0 : without_ms(known);
}

double StaticAssignment::without_ms(const AssignedIteration& known) {
  return is_faster_giving_up(known) ? known.giving_ms : known.before_ms;
}

bool StaticAssignment::is_faster_giving_up(const AssignedIteration& known) {
  return known.giving_ms > 0 && known.giving_ms < kMuchFaster * known.before_ms;
}

void StaticAssignment::read_meter(AssignedIteration& known) {
  while (const auto one = meter_.next()) {
    if (one->kind == kNeither) continue;
    double& shortest = one->kind == kBefore ? known.before_ms : one->kind == kGiving ? known.giving_ms : known.after_ms;
    shortest = shortest > 0 ? std::min(shortest, one->ms) : one->ms;
    known.measured += one->kind == kAfter ? 1 : 0;
  }
}

void StaticAssignment::measure(std::size_t iteration) {
  AssignedIteration& known = known_[iteration];
  const bool revises = known.revision != Revision::kNone && known.revision != Revision::kDone;
  if (known.measured >= kMeasured && !revises) {
    if (known.before_ms > 0 && known.after_ms > kSlower * without_ms(known)) {
      const bool gives_up = is_faster_giving_up(known);
      const double before_ms = without_ms(known);
      forget(iteration);
      known.gives_up = gives_up;
      known.before_ms = before_ms;
    }
    known.rounds = kInForce + 2;
    return;
  }
  if (known.rounds < 2 || (known.rounds > kInForce && !known.reserved.keeps())) return;
  if (revises) return meter_.begins(kNeither);
  const bool as_before = known.rounds < kPrepared || (known.rounds > kAssigned && known.rounds < kInForce);
  meter_.begins(as_before ? kBefore : known.rounds == kWatched ? kGiving : known.rounds > kInForce ? kAfter : kNeither);
}

void StaticAssignment::arriving(std::size_t iteration, std::uint64_t submitted_ns) {
  if (!residency_.is_trusting()) return;
  known_[iteration].reserved.next();
  ran_again(submitted_ns);
}

void StaticAssignment::ran_again(std::uint64_t submitted_ns) {
  log_.at(submitted_ns - began_ns_);
  heap_.assigned_pages().now(submitted_ns - began_ns_);
}

void StaticAssignment::watch(AssignedIteration& known) {
  watching_ = true;
  log_.begin(known.reserved);
  log_.at(0);
  residency_.watch(&log_);
}

void StaticAssignment::assign(const Link& link) {
  residency_.watch(nullptr);
  residency_.give_up_at_once(false);
  watching_ = false;
  const auto page_bytes = static_cast<double>(heap_.page_bytes());
  const PageCosts costs{page_bytes / link.out_bytes_per_ns, page_bytes / link.in_bytes_per_ns};
  const auto loose = static_cast<std::uint32_t>(heap_.free_bytes() / heap_.page_bytes());
  assigning_.start([history = log_.take(), loose, costs]() mutable {
    PageAssignment pages = assign_pages(history, loose, costs);
    return Assigned{std::move(history), std::move(pages)};
  });
}

// Null: the buffer has been freed, or has other addresses each time.
const Block* StaticAssignment::block_of(const AssignedIteration& known, const PageOwner& page_owner) const {
  if (page_owner.named) return known.reserved.block_of(static_cast<ReservedAddresses::Name>(page_owner.id));
  const Block* const block = heap_.block_of(page_owner.block);
  return block != nullptr && block->serial() == page_owner.id ? block : nullptr;
}

// The physical pages of the assignment: owners that have pages now keep them, the others share the free ones.
std::vector<PageHandle> StaticAssignment::bind(const AssignedIteration& known, const Assigned& assigned) {
  std::vector<PageHandle> pages(assigned.pages.pages);
  for (const AssignedPage& one : assigned.pages.assigned) {
    const PageOwner& page_owner = assigned.history.page_owners[one.page_owner];
    const Block* const block = block_of(known, page_owner);
    if (page_owner.stays[one.stay].from != 0 || block == nullptr) continue;
    pages[one.physical] = block->page_handles()[page_owner.range.first + one.page];
  }
  heap_.defer_unmaps_of_free_space();
  auto next = pages.begin();
  heap_.for_each_loose_page([&](PageHandle page) {
    next = std::find(next, pages.end(), PageHandle{});
    if (next != pages.end()) *next = page;
  });
  return pages;
}

void StaticAssignment::apply(AssignedIteration& known, const Assigned& assigned, std::uint64_t nanoseconds) {
  ++changes_;
  residency_.give_up_at_once(true);
  known.predicted_ms = assigned.pages.assigned_ns / 1e6;
  known.is_complete = assigned.pages.unassigned == 0;
  known.timed_pages.clear();
  heap_.assigned_pages().clear();
  heap_.assigned_pages().resume();
  heap_.assigned_pages().set_period(nanoseconds);
  const std::vector<PageHandle> pages = bind(known, assigned);
  for (const AssignedPage& one : assigned.pages.assigned) {
    if (pages[one.physical] == PageHandle{}) continue;
    const PageOwner& page_owner = assigned.history.page_owners[one.page_owner];
    const auto time_of = [&](std::uint32_t change) {
      if (change == 0) return std::uint64_t{0};
      return change == assigned.history.end() ? nanoseconds : assigned.history.changes[change - 1].nanoseconds;
    };
    const PageOwner::Stay stay = page_owner.stays[one.stay];
    const TimedPage page{page_owner.range.first + one.page, time_of(stay.from), time_of(stay.to), pages[one.physical]};
    if (const Block* const block = block_of(known, page_owner); block != nullptr) {
      put(*block, page);
    } else if (page_owner.named) {
      known.timed_pages[static_cast<ReservedAddresses::Name>(page_owner.id)].push_back(page);
    }
  }
  // Blocks that are never evicted in the iteration may be evicted by something that runs in between.
  heap_.for_each_block([&](const Block& block) {
    for (std::uint64_t page = 0; page < block.pages(); ++page) {
      const PageHandle physical = block.page_handles()[page];
      const std::uint64_t at = heap_.page_of(block.begin()) + page;
      if (physical != PageHandle{} && !heap_.assigned_pages().is_assigned(at))
        heap_.assigned_pages().add(at, 0, nanoseconds, physical);
    }
  });
  known.reserved.keep();
}

// Blocks that ran in between, or existed before the assignment, may be on pages that are assigned to others.
void StaticAssignment::rebind() {
  heap_.defer_unmaps_of_free_space();
  std::vector<AssignedPages::Held> held;
  heap_.for_each_block([&](const Block& block) {
    const std::uint64_t first = heap_.page_of(block.begin());
    for (std::uint64_t page = 0; page < block.pages(); ++page) {
      if (block.page_handles()[page] != PageHandle{}) held.push_back({first + page, block.page_handles()[page]});
    }
  });
  std::vector<PageHandle> loose;
  heap_.for_each_loose_page([&loose](PageHandle page) { loose.push_back(page); });
  heap_.assigned_pages().rebind(held, loose);
}

void StaticAssignment::put(const Block& block, const TimedPage& page) {
  heap_.assigned_pages().add(heap_.page_of(block.begin()) + page.page, page.from_ns, page.until_ns, page.physical);
}

void StaticAssignment::occupied(std::size_t iteration, std::size_t operation, Bytes bytes, Block& block) {
  if (!residency_.is_trusting()) return;
  AssignedIteration& known = known_[iteration];
  any_names_ = true;
  const auto name = known.reserved.occupied(operation, bytes, heap_, block);
  if (!name.has_value() || known.timed_pages.empty()) return;
  const auto pages = known.timed_pages.find(*name);
  if (pages == known.timed_pages.end()) return;
  for (const TimedPage& one : pages->second) put(block, one);
  known.timed_pages.erase(pages);
}

bool StaticAssignment::vacated_by_name(const Block& block) {
  for (AssignedIteration& known : known_) {
    if (known.reserved.vacated(block)) return true;
  }
  return false;
}

void StaticAssignment::diverged() {
  heap_.assigned_pages().rest();
  meter_.clear();
  residency_.give_up_at_once(false);
  if (!watching_) return;
  residency_.watch(nullptr);
  watching_ = false;
  static_cast<void>(log_.take());
}

void StaticAssignment::forget(std::size_t iteration) {
  diverged();
  AssignedIteration& known = known_[iteration];
  if (known.reserved.keeps()) {
    ++changes_;
    heap_.assigned_pages().clear();
  }
  known.reserved.clear(heap_);
  known.timed_pages.clear();
  known.rounds = known.measured = 0;
  known.before_ms = known.after_ms = known.giving_ms = known.predicted_ms = 0;
  known.revision = Revision::kNone;
  known.gives_up = false;
}

void StaticAssignment::give_up() {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    forget(i);
    known_[i].rounds = kInForce + 2;
  }
}

}  // namespace thermocline
