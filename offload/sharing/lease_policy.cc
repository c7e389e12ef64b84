// SPDX-License-Identifier: Apache-2.0
#include "offload/sharing/lease_policy.h"

#include <algorithm>
#include <cstdint>

namespace thermocline {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr Bytes kReservedPart = 64;
constexpr Bytes kMostReserved = 512 * kMiB;
// Margins above its demand: its next allocations then need no request.
constexpr Bytes kMarginOfDemand = 16, kMarginOfCapacity = 64;

Bytes less(Bytes from, Bytes what) { return from - std::min(from, what); }

Bytes margin(Bytes capacity, const Sharer& sharer) {
  return sharer.demand / kMarginOfDemand + capacity / kMarginOfCapacity;
}

Bytes use_for(Bytes capacity, const Sharer& sharer) {
  const Bytes demand = std::min(sharer.demand, capacity);
  return std::max(sharer.minimum, std::min(capacity, demand + margin(capacity, {.demand = demand})));
}

// The bytes that others cannot have because of it.
Bytes taken_by(const Sharer& sharer) { return std::max(sharer.lease, sharer.minimum); }

// Divides `left` by weights; nobody gets more than `most`.
void fill(Bytes left, std::span<const Sharer> sharers, std::span<const Bytes> most, std::vector<std::size_t> open,
          std::vector<Bytes>* targets) {
  while (!open.empty() && left > 0) {
    std::uint64_t weights = 0;
    for (const std::size_t i : open) weights += std::max(1U, sharers[i].weight);
    const auto share = [&](std::size_t i) {
      return static_cast<Bytes>(static_cast<Wide>(left) * std::max(1U, sharers[i].weight) / weights);
    };
    std::vector<std::size_t> unsated;
    Bytes given = 0;
    for (const std::size_t i : open) {
      const Bytes lacks = less(most[i], (*targets)[i]);
      if (lacks > share(i)) {
        unsated.push_back(i);
      } else {
        (*targets)[i] += lacks;
        given += lacks;
      }
    }
    if (unsated.size() == open.size()) {
      for (const std::size_t i : open) (*targets)[i] += share(i);
      return;
    }
    left -= given;
    open = std::move(unsated);
  }
}

// The part of what active others lack that free memory does not cover; of a minimum, all that is lacking. Idle ones
// wait until something is free.
Bytes owed(Bytes capacity, std::span<const Sharer> sharers, std::span<const Bytes> targets, std::size_t self) {
  Bytes lacking = 0, lacking_minimums = 0, taken = 0;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    taken += sharers[i].lease;
    if (i == self) continue;
    lacking += less(sharers[i].is_active ? targets[i] : sharers[i].minimum, sharers[i].lease);
    lacking_minimums += less(sharers[i].minimum, sharers[i].lease);
  }
  const Bytes free = less(capacity, taken);
  const Bytes excess = less(taken, capacity);
  const Bytes needed = less(lacking, free) + excess;
  return needed > capacity / kLeastMovedDivisor || excess > 0 || lacking_minimums > free ? needed : 0;
}

}  // namespace

Bytes reserve_of_process(Bytes device_bytes) { return std::min(device_bytes / kReservedPart, kMostReserved); }

Bytes admitted_minimum(Bytes capacity, std::span<const Sharer> others, Bytes wished) {
  for (const Sharer& other : others) capacity = less(capacity, other.minimum);
  return std::min(capacity, wished);
}

std::vector<Bytes> lease_targets(Bytes capacity, std::span<const Sharer> sharers) {
  std::vector<Bytes> targets, most;
  std::vector<std::size_t> active, idle;
  Bytes left = capacity;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    targets.push_back(sharers[i].minimum);
    most.push_back(use_for(capacity, sharers[i]));
    left = less(left, sharers[i].minimum);
    (sharers[i].is_active ? active : idle).push_back(i);
  }
  fill(left, sharers, most, active, &targets);
  left = capacity;
  for (const Bytes target : targets) left = less(left, target);
  fill(left, sharers, most, idle, &targets);
  return targets;
}

Bytes next_lease(Bytes capacity, std::span<const Sharer> sharers, std::size_t self) {
  const std::vector<Bytes> targets = lease_targets(capacity, sharers);
  const Sharer& own = sharers[self];
  const Bytes target = targets[self];
  if (target > own.lease) {
    Bytes others = 0;
    for (std::size_t i = 0; i < sharers.size(); ++i) others += i == self ? 0 : taken_by(sharers[i]);
    return std::max(own.lease, std::min(target, less(capacity, others)));
  }
  const Bytes surplus = own.lease - target;
  const Bytes needed = owed(capacity, sharers, targets, self);
  Bytes surpluses = 0;
  for (std::size_t i = 0; i < sharers.size(); ++i) surpluses += less(sharers[i].lease, targets[i]);
  // Each gives its part of the need, including the last bytes that rounding leaves.
  const Bytes part =
      surpluses == 0 ? 0 : static_cast<Bytes>((static_cast<Wide>(needed) * surplus + surpluses - 1) / surpluses);
  const Bytes kept = own.lease - std::min(surplus, part);
  // Unused bytes are given back even if nobody asks: later the process might be stopped.
  const Bytes use = use_for(capacity, own);
  return kept > use + 2 * margin(capacity, own) ? std::max(use, target) : kept;
}

Bytes fair_share(Bytes capacity, std::span<const Sharer> sharers, std::size_t self) {
  std::vector<Sharer> all(sharers.begin(), sharers.end());
  for (Sharer& one : all) {
    one.demand = capacity;
    one.is_active = true;
  }
  return lease_targets(capacity, all)[self];
}

Bytes largest_lease(Bytes capacity, std::span<const Sharer> sharers, std::size_t self) {
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    if (i != self) capacity = less(capacity, sharers[i].minimum);
  }
  return capacity;
}

}  // namespace thermocline
