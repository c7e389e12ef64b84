// SPDX-License-Identifier: Apache-2.0
#include "offload/policy/reactive.h"

#include <algorithm>

#include "offload/policies.h"
#include "offload/residency/unit_size.h"

namespace thermocline {
namespace {

// Copies in flight per direction: one running, one waiting, so that the link never idles between two host calls, and
// copies are still chosen late, with recent knowledge.
constexpr std::size_t kCopiesInFlight = 2;
// Most bytes that are prefetched and not used yet: enough to keep the link busy. Each use makes room for more; if the
// program does something else, memory stays free for that.
constexpr Bytes kMostUnused = kCopiesInFlight * kUnitBytes;
// Useless prefetches that end prefetching until the next miss.
constexpr std::uint64_t kMostWasted = 3;
// Copies out that have been of no use yet are at most this share of the bytes that had to be evicted: one in eight. A
// program's first copies pay for the host memory that they need. So without this limit the first five steps together of
// the recorded programs, at 90 to 60 % of their memory, take up to 1.08 times as long as on demand, and 0.93 on
// average; with it at most 1.01, and 0.91.
constexpr Bytes kLeastLeftPerUnused = 8;
// A fence every few operations lets a copy out start after its block's last use, not after all that is queued by then.
// A fence after every operation would cost short kernels more than it gains.
constexpr std::uint32_t kOperationsPerFence = 4;

}  // namespace

void ReactivePolicy::missed() {
  returning_ = true;
  wasted_before_ = residency_.statistics().wasted_prefetches;
}

void ReactivePolicy::move_ahead(StreamIndex stream) {
  if (!filling()) return;
  if (++operations_since_fence_ >= kOperationsPerFence) {
    operations_since_fence_ = 0;
    static_cast<void>(clock_.fence(stream));
  }
  write_behind();
  if (returning_) prefetch();
}

bool ReactivePolicy::filling() const {
  return residency_.resident_bytes() > heap_.limit() / 100 * low_water_percent_ || residency_.any_nonresident();
}

void ReactivePolicy::write_behind() {
  const Bytes reserve = heap_.limit() / 100 * clean_reserve_percent_;
  if (residency_.clean_bytes() >= reserve || residency_.resident_bytes() <= heap_.limit() / 100 * low_water_percent_)
    return;
  while (migration_.copies_out() < kCopiesInFlight && residency_.clean_bytes() < reserve && !copies_in_vain()) {
    if (!residency_.write_behind()) return;
    ++write_behinds_;
  }
}

bool ReactivePolicy::copies_in_vain() const {
  const ResidencyStatistics& known = residency_.statistics();
  const Bytes copied = known.by_reason.of(EvictReason::kWriteBehind).copied_bytes;
  const Bytes unused = copied - std::min(copied, known.written_behind_bytes);
  return unused >= known.given_up_bytes / kLeastLeftPerUnused;
}

void ReactivePolicy::prefetch() {
  if (residency_.statistics().wasted_prefetches >= wasted_before_ + kMostWasted) {
    returning_ = false;
    return;
  }
  while (migration_.returning() < kCopiesInFlight) {
    EvictionUnit* unit = residency_.youngest_evicted();
    if (unit == nullptr) {
      returning_ = false;
      return;
    }
    if (residency_.prefetched_bytes() + unit->bytes() > kMostUnused) return;
    const Bytes taken = residency_.resident_bytes() + unit->bytes() + allocations_.largest();
    if (taken > heap_.limit() || !residency_.prefetch(*unit)) return;
  }
}

std::unique_ptr<EvictionPolicy> make_reactive_policy(const PolicyParts& parts) {
  return std::make_unique<ReactivePolicy>(parts);
}

}  // namespace thermocline
