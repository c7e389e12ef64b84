// SPDX-License-Identifier: Apache-2.0
// Static page assignment: makes a repeated iteration need no mapping calls. Its buffers get the same addresses each
// time (reserved_addresses.h). Every page of addresses is assigned a physical page (page_assignment.h), and stays
// mapped to it whichever buffer owns that physical page now. A steady step then needs only copies and waits on the
// device.
//
// While contents are evicted, their addresses are mapped to pages of other buffers. So this is only for programs all of
// whose accesses are known (trusting); otherwise nothing here has any effect.
//
// Under a plan it takes several iterations (rounds, see static_assignment.cc). The first two show which buffers there
// are, and how long an iteration takes. In the third, eviction units give up their pages as they will under the
// assignment. The fourth is logged: who owns which pages, and when. The assignment is computed on a thread of its own
// and taken two iterations later, whether or not it was ready before. In the iteration after that buffers move to their
// addresses, which costs one mapping call for each, once. If too many pages get no assignment, or the iteration is
// expected to become slower, there is none. If it did become slower, the assignment is given up; units go on giving up
// their pages then, if that alone made the logged iteration faster. Where the assignment does not fit (mapping calls go
// on), an iteration with it is logged, once, and the assignment is made again. Only the first iteration that gets
// this far has an assignment. Guarded by the engine's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "allocator/heap.h"
#include "offload/page_assignment/iteration_meter.h"
#include "offload/page_assignment/live_range_log.h"
#include "offload/page_assignment/page_assignment.h"
#include "offload/page_assignment/reserved_addresses.h"
#include "offload/planning/background.h"
#include "offload/planning/period_detector.h"
#include "offload/residency/link_meter.h"
#include "offload/residency/residency.h"

namespace thermocline {

class StaticAssignment {
 public:
  StaticAssignment(const Driver& driver, Heap& heap, Residency& residency)
      : heap_(heap), residency_(residency), meter_(driver) {}
  ~StaticAssignment() { diverged(); }
  StaticAssignment(const StaticAssignment&) = delete;
  StaticAssignment& operator=(const StaticAssignment&) = delete;

  // An iteration, by the period detector's number, begins under a plan.
  void begins(std::size_t iteration, std::uint64_t submitted_ns, const Link& link);
  // An operation of it arrives. `submitted_ns`: device time of all that was submitted before.
  void arriving(std::size_t iteration, std::uint64_t submitted_ns);
  // An operation has run again for the arrived one.
  void ran_again(std::uint64_t submitted_ns);
  // The operation is about to be submitted.
  void submitting(StreamHandle stream) { meter_.submitting(stream); }
  // The operation has been submitted.
  void submitted(std::uint64_t submitted_ns) { log_.at(submitted_ns - began_ns_); }
  void diverged();
  // Discards everything that is known about the iteration.
  void forget(std::size_t iteration);
  // Addresses run short: none are reserved from now on.
  void give_up();

  // See ReservedAddresses; `iteration` is followed.
  Block* reserved_block(std::size_t iteration, std::size_t operation, Bytes bytes) {
    return residency_.is_trusting() ? known_[iteration].reserved.find(operation, bytes) : nullptr;
  }
  void occupied(std::size_t iteration, std::size_t operation, Bytes bytes, Block& block);
  bool vacated(const Block& block) { return any_names_ && vacated_by_name(block); }

  // How often an assignment has been taken, or given up.
  std::uint64_t changes() const { return changes_; }
  // There is an assignment, so stale mappings are kept.
  bool is_in_force(std::size_t iteration) const { return known_[iteration].reserved.keeps(); }
  // The shortest of the iterations under the plan, once it is known that there will be no assignment; 0: it is not.
  double unassigned_ms(std::size_t iteration) const;

 private:
  struct TimedPage {
    std::uint64_t page;               // of the block
    std::uint64_t from_ns, until_ns;  // of the iteration
    PageHandle physical;
  };
  // The progress of revising an assignment in force that does not fit; at most one revision for each iteration.
  enum class Revision : std::uint8_t { kNone, kWatched, kAssigned, kReady, kDone };
  struct AssignedIteration {
    ReservedAddresses reserved;
    unsigned rounds = 0;  // iterations that began since the plan was made
    // The shortest iterations under the plan: without an assignment, with one, and without one when evicted units give
    // up their pages at once; 0: none yet.
    double before_ms = 0, after_ms = 0, giving_ms = 0;
    double predicted_ms = 0;  // of the iteration with the assignment
    Revision revision = Revision::kNone;
    bool is_complete = false;  // every page of it is assigned
    bool mapped = false;       // the previous iteration, which was this one too, made mapping calls
    bool gives_up = false;     // units give up their pages at once, and there is no assignment
    unsigned measured = 0;     // iterations with an assignment
    // By name of the buffer: its pages, until it has addresses.
    std::unordered_map<ReservedAddresses::Name, std::vector<TimedPage>> timed_pages;

    // If every page is assigned, no mapping call may be needed. Otherwise pages change owners, and the time decides.
    bool fits() const { return !mapped || (!is_complete && after_ms <= 1.03 * predicted_ms); }
  };
  struct Assigned {
    LiveRangeHistory history;
    PageAssignment pages;
  };
  bool vacated_by_name(const Block& block);
  void advance(std::size_t iteration, std::uint64_t nanoseconds, const Link& link);
  void revise(std::size_t iteration, std::uint64_t nanoseconds, const Link& link);
  void measure(std::size_t iteration);
  void read_meter(AssignedIteration& known);
  // The shortest iteration without an assignment.
  static double without_ms(const AssignedIteration& known);
  static bool is_faster_giving_up(const AssignedIteration& known);
  void watch(AssignedIteration& known);
  void assign(const Link& link);
  void apply(AssignedIteration& known, const Assigned& assigned, std::uint64_t nanoseconds);
  void rebind();
  std::vector<PageHandle> bind(const AssignedIteration& known, const Assigned& assigned);
  const Block* block_of(const AssignedIteration& known, const PageOwner& page_owner) const;
  void put(const Block& block, const TimedPage& page);

  Heap& heap_;
  Residency& residency_;
  std::array<AssignedIteration, PeriodDetector::kIterations> known_;  // by the period detector's number
  IterationMeter meter_;
  LiveRangeLog log_;
  bool watching_ = false;
  bool any_names_ = false;
  Background<Assigned> assigning_;
  std::size_t assigned_ = 0;  // for which iteration
  std::size_t begun_ = 0;     // the iteration that began last
  std::uint64_t began_ns_ = 0, mapping_calls_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace thermocline
