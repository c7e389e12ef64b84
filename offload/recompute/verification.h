// SPDX-License-Identifier: Apache-2.0
// Verifies by digests, which the device computes (../digest), that recomputed contents equal the original ones.
//
// A rehearsal: while a kernel is on trial (../kernel_trial.h), its launch runs once in advance, into scratch memory,
// and the two outputs are compared. So a kernel whose results differ does no harm: the program has its own results, and
// no host copy has to be kept or fetched for contents that may be recomputed. The rehearsal comes first because all
// inputs are then as they will be for the launch: data that the launch updates in place is copied, not restored.
// Scratch memory holds leftovers of other uses, so a kernel that leaves part of its output unwritten is found, too.
//
// With `always`, contents are also compared in use: one digest is taken when they are dropped, and one when they have
// been recomputed. A difference is reported; there is no copy left to repair it.
//
// Invariants (checked by validate()):
// - A rehearsal in preparation has asked for no more digests of the launch than of the rehearsal itself.
// - A rehearsal in flight has a result for each output, and both digests of each result have been requested.
// - Without `always` nothing is compared in use.
// - A dropped content has one digest. A recomputed one has the kernels that made it; its second digest may be
//   missing.
// - Each pending digest is known to Digests as in flight, so it becomes known or fails.
// - The number of rehearsals in progress equals the number begun minus the number ended.
//
// The host never waits for a digest. Each digest uses the memory that it is taken of: the caller has to add `submitted`
// to the uses of that memory. Guarded by the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/use_set.h"
#include "offload/access.h"
#include "offload/digest/digests.h"
#include "offload/kernel_trial.h"
#include "offload/recompute/versions.h"
#include "offload/relauncher.h"

namespace thermocline {

struct VerificationStatistics {
  std::uint64_t rehearsals = 0;                // begun
  std::uint64_t verified = 0, mismatched = 0;  // launches rehearsed, and contents recomputed in use
  std::uint64_t promoted = 0, demoted = 0;     // kernels
  std::uint64_t unverified = 0;                // contents recomputed in use that could not be compared
};

class Verification {
 public:
  using BufferNumber = Versions::BufferNumber;

  Verification(Digests& digests, Versions& versions, Relauncher& told, bool always)
      : digests_(digests), versions_(versions), told_(told), always_(always) {}
  ~Verification();
  Verification(const Verification&) = delete;
  Verification& operator=(const Verification&) = delete;

  // Whether a launch of the kernel is to be rehearsed. True: rehearsed() or not_rehearsed() has to follow.
  bool begin_rehearsal(KernelTrial* trial);
  // The rehearsal has written an output of the launch to `at`, after these uses. False: same as not_rehearsed().
  bool rehearsed(AddressRange at, const UseSet& behind, UseSet* submitted);
  void not_rehearsed();
  bool has_rehearsed() const { return rehearsal_ != nullptr; }
  // The launch itself has been submitted. Call it as often as rehearsed(), in the same order.
  void performed(AddressRange at, const UseSet& behind, UseSet* submitted);

  // The buffer has been dropped, but its contents still exist; `resident`: all of them on the device. False: it must
  // not be dropped, because no digest can be taken.
  bool dropping(BufferNumber buffer, AddressRange at, const UseSet& behind, bool resident, UseSet* submitted);
  // The dropped contents have been recomputed, after these uses, and are about to be used again.
  void made_again(BufferNumber buffer, AddressRange at, const UseSet& behind, UseSet* submitted);
  // The buffer has been freed or overwritten: its dropped contents are not needed any more.
  void forget(BufferNumber buffer);

  // No rehearsal and no comparison is under way.
  bool is_idle() const { return rehearsal_ == nullptr && rehearsals_.empty() && made_again_.empty(); }
  // False: begin_rehearsal() would do nothing.
  static bool may_rehearse(const KernelTrial* trial) {
    return trial != nullptr && trial->state() == KernelTrial::State::kOnTrial;
  }
  // Evaluates the digests that have become known; never blocks.
  void poll();
  const VerificationStatistics& statistics() const { return statistics_; }
  void validate() const;

 private:
  struct Pair {
    TakenDigest one, other;
  };
  struct Rehearsal {
    KernelTrial* trial;
    std::size_t performed = 0;
    std::deque<Pair> results;  // digests stay where they are
  };
  struct InUse {
    Bytes bytes;
    Pair digests;
    std::vector<KernelTrial*> trials;  // set when it has been recomputed
  };

  using Outcome = KernelTrial::Outcome;
  static bool is_pending(const Pair& pair);
  static Outcome outcome_of(const Pair& pair);
  void release(Pair* pair);
  void end(Rehearsal& rehearsal, Outcome outcome);
  void compare(const InUse& content);
  bool is_followed(const TakenDigest& digest) const;

  Digests& digests_;
  Versions& versions_;
  Relauncher& told_;
  const bool always_;
  std::unique_ptr<Rehearsal> rehearsal_;  // of the operation in preparation
  std::deque<std::unique_ptr<Rehearsal>> rehearsals_;
  std::unordered_map<BufferNumber, std::unique_ptr<InUse>> dropped_;
  std::deque<std::unique_ptr<InUse>> made_again_;
  VerificationStatistics statistics_;
  std::uint64_t ended_ = 0;  // rehearsals
};

}  // namespace thermocline
