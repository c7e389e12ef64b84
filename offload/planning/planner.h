// SPDX-License-Identifier: Apache-2.0
// Plans one iteration: which buffers leave in which gaps between two uses, and from where on they come back, so that
// the peak fits.
//
// Every candidate plan is timed by a simulation of the iteration (plan_timing.h) before it is compared; the fastest
// wins. Pure functions of their arguments; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver/units.h"
#include "offload/planning/profile.h"
#include "offload/residency/link_meter.h"
#include "offload/residency/part_size.h"

namespace thermocline {

// A buffer, or some parts of it, is away between two of its uses. All places are within one iteration; arrive <= leave
// means that it arrives in the next one.
struct PlannedGap {
  std::uint32_t buffer = 0;
  std::uint32_t parts = 1;      // how many of its parts (part_size.h)
  std::uint32_t leave = 0;      // place of the use behind which it is copied out
  std::uint32_t arrive = 0;     // place of its next use
  std::uint32_t return_at = 0;  // it may come back behind this operation; leave <= return_at < arrive, going round
  bool returns = true;          // false: it is not used again, and `arrive` is the place behind its death
};

// Bytes that are away in the gap.
inline double nonresident_bytes(const PlannedGap& gap, const Profile& profile) {
  const Bytes bytes = profile.buffers[gap.buffer].bytes;
  return static_cast<double>(bytes) * gap.parts / static_cast<double>(parts_of(bytes));
}

struct Rewriting;

struct Plan {
  std::vector<PlannedGap> gaps;
  double predicted_ns = 0;  // of an iteration in a steady state; infinite when it can not run
  bool fits = false;        // the peak is within the limit at every place

  // By place, what begins behind it: indices into gaps.
  std::vector<std::vector<std::uint32_t>> leaves, returns;
  // Of an iteration in which some contents are recomputed (recompute/rewriting.h); places and buffers above are of its
  // profile then. Null: nothing is.
  std::shared_ptr<const Rewriting> rewriting{};
  void index(std::size_t places);
};

// kQuick: a tenth of the work, for choosing between profiles.
enum class PlanEffort { kQuick, kFull };

// `limit`: bytes for everything that is live, planned or not.
Plan plan_iteration(const Profile& profile, Bytes limit, const Link& link, PlanEffort effort = PlanEffort::kFull);

}  // namespace thermocline
