// SPDX-License-Identifier: Apache-2.0
// Whether what is made again is what was there, by digests that the device computes (../digest).
//
// A rehearsal: while a kernel is on trial (../kernel_trial.h), its launch runs once before its time, into scratch
// memory, and what both wrote is compared. So nothing hangs on a kernel whose results differ: the program has its own,
// and no host copy has to be kept of a content that is to be made again, nor brought back. The rehearsal comes first
// because all that the launch reads is as it will be then: what the launch updates in place is copied, not restored.
// Scratch memory holds what others left there, so that a kernel that leaves part of its output as it was is found, too.
//
// With `always`, contents are also compared in use: a digest is taken when they are dropped, and one when they have been
// made again. A difference is reported, but no copy is left that could mend it.
//
// Invariants (checked by validate()):
// - A rehearsal in preparation has asked for no more digests of the launch than of the rehearsal itself.
// - A rehearsal that is over has a result for each output, and both digests of each have been asked for.
// - Without `always` nothing is compared in use.
// - A content that was dropped has one digest. One that was made again has the kernels that made it; the second
//   digest may not have been taken.
// - Each digest that is pending is known to the digests as on its way, so that it becomes known or fails.
// - As many rehearsals are under way as were begun and have not ended.
//
// The host never waits for a digest. Each is a use of the memory it was taken of: `submitted` has to be added to its
// uses. Guarded by the engine's lock.
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
  std::uint64_t verified = 0, mismatched = 0;  // launches rehearsed, and contents made again in use
  std::uint64_t promoted = 0, demoted = 0;     // kernels
  std::uint64_t unverified = 0;                // contents made again in use that could not be compared
};

class Verification {
 public:
  using BufferNumber = Versions::BufferNumber;

  Verification(Digests& digests, Versions& versions, Relauncher& told, bool always)
      : digests_(digests), versions_(versions), told_(told), always_(always) {}
  ~Verification();
  Verification(const Verification&) = delete;
  Verification& operator=(const Verification&) = delete;

  // Whether a launch of the kernel is to be rehearsed. True: one of the two follows, rehearsed() or not_rehearsed().
  bool begin_rehearsal(KernelTrial* trial);
  // What the launch writes has been written to `at` by its rehearsal, behind these uses. False: as not_rehearsed().
  bool rehearsed(AddressRange at, const UseSet& behind, UseSet* submitted);
  void not_rehearsed();
  bool has_rehearsed() const { return rehearsal_ != nullptr; }
  // The launch itself has been submitted. As often as rehearsed(), in that order.
  void performed(AddressRange at, const UseSet& behind, UseSet* submitted);

  // It has been dropped, but its contents are still there; `resident`: all of them on the device. False: it must not be
  // dropped, for no digest can be taken of it.
  bool dropping(BufferNumber buffer, AddressRange at, const UseSet& behind, bool resident, UseSet* submitted);
  // It is about to be as it was.
  void made_again(BufferNumber buffer, AddressRange at, const UseSet& behind, UseSet* submitted);
  // The buffer is gone, and with it what was dropped.
  void forget(BufferNumber buffer);

  // What has become known; never blocks.
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
    std::vector<KernelTrial*> trials;  // once it has been made again
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
