// SPDX-License-Identifier: Apache-2.0
// Plans one iteration: which buffers are evicted in which gaps between two uses, and when they are fetched again, so
// that the peak fits.
//
// Every candidate plan is timed by a simulation of the iteration (plan_timing.h), and the fastest is chosen. Pure
// functions of their arguments; thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "driver/units.h"
#include "offload/planning/profile.h"
#include "offload/residency/link_meter.h"
#include "offload/residency/unit_size.h"

namespace thermocline {

// A buffer, or some of its eviction units, is evicted between two of its uses. All places are within one iteration;
// next_use <= last_use means that the next use is in the next iteration.
struct PlannedGap {
  std::uint32_t buffer = 0;
  std::uint32_t units = 1;     // how many of its eviction units (unit_size.h)
  std::uint32_t last_use = 0;  // place of the use after which it is copied out
  std::uint32_t next_use = 0;  // place of its next use
  std::uint32_t fetch_after =
      0;  // the fetch may begin after this operation; last_use <= fetch_after < next_use, cyclically
  // The number of these that have a current host copy by then, because nothing wrote to them since their last fetch.
  std::uint32_t clean_units = 0;
  bool is_fetched = true;  // false: it is not used again, and `next_use` is the place after its death
};

// Bytes that are evicted in the gap.
inline double nonresident_bytes(const PlannedGap& gap, const Profile& profile) {
  const Bytes bytes = profile.buffers[gap.buffer].bytes;
  return static_cast<double>(bytes) * gap.units / static_cast<double>(units_of(bytes));
}

// Numbers of gaps by place, in two arrays, because a plan is copied for every candidate.
class ByPlace {
 public:
  bool empty() const { return first_.size() < 2; }
  std::size_t size() const { return empty() ? 0 : first_.size() - 1; }  // places
  std::span<const std::uint32_t> operator[](std::size_t place) const {
    return std::span(gaps_).subspan(first_[place], first_[place + 1] - first_[place]);
  }
  std::span<std::uint32_t> operator[](std::size_t place) {
    return std::span(gaps_).subspan(first_[place], first_[place + 1] - first_[place]);
  }
  // `place_of(gap)` for each of `gaps` gaps; kNone: at none. At a place they are in the order of their numbers.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  template <class PlaceOf>
  void assign(std::size_t places, std::size_t gaps, PlaceOf place_of);

 private:
  std::vector<std::uint32_t> first_, gaps_;  // at place q: gaps_[first_[q] .. first_[q + 1])
};

struct Rewriting;

// Why a plan drops nothing although drops were considered. kSlower: copies alone are faster, or droppable contents make
// no room. kInputsGone: the inputs of the contents are overwritten or freed before these are needed again.
// kNotRepeatable: the operations that make the contents may not run again.
enum class NoDrops : std::uint8_t { kSlower, kInputsGone, kNotRepeatable };

struct Plan {
  std::vector<PlannedGap> gaps;
  double predicted_ns = 0;  // duration of an iteration in a steady state; infinite if it can not run
  bool fits = false;        // the peak is within the limit at every place

  // By place: indices into gaps of the evictions, and the fetches, that begin after it.
  ByPlace evictions, fetches;
  // If some contents are recomputed: the rewritten iteration (recompute/rewriting.h), to whose profile the places and
  // buffers above refer. Null: nothing is recomputed.
  std::shared_ptr<const Rewriting> rewriting{};
  NoDrops no_drops = NoDrops::kSlower;
  // The same: contents that may be dropped, plans that drop some of them, and how long the fastest of these takes; infinite:
  // none fits.
  std::uint32_t droppable = 0, tried_drops = 0;
  double fastest_drops_ns = std::numeric_limits<double>::infinity();
  void index(std::size_t places);
};

template <class PlaceOf>
void ByPlace::assign(std::size_t places, std::size_t gaps, PlaceOf place_of) {
  first_.assign(places + 1, 0);
  for (std::uint32_t gap = 0; gap < gaps; ++gap) {
    if (const std::uint32_t place = place_of(gap); place != kNone) ++first_[place + 1];
  }
  for (std::size_t place = 0; place < places; ++place) first_[place + 1] += first_[place];
  gaps_.resize(first_[places]);
  // first_[q] counts up to where the next place begins, and is set back behind it.
  for (std::uint32_t gap = 0; gap < gaps; ++gap) {
    if (const std::uint32_t place = place_of(gap); place != kNone) gaps_[first_[place]++] = gap;
  }
  for (std::size_t place = places; place > 0; --place) first_[place] = first_[place - 1];
  first_[0] = 0;
}

// The first two are for choosing between profiles, of which the fastest are then planned with full effort. kQuick: the
// choice of gaps that is usually the best, a tenth of kMedium. kMedium: the best of all choices, not improved, a fifth of
// kFull or less.
enum class PlanEffort : std::uint8_t { kQuick, kMedium, kFull };

// `limit`: bytes for everything that is live, whether planned or not. `useful_ns`: a plan that takes longer is of no use, so
// what is far from it is not improved.
Plan plan_iteration(const Profile& profile, Bytes limit, const Link& link, PlanEffort effort = PlanEffort::kFull,
                    double useful_ns = std::numeric_limits<double>::infinity());

}  // namespace thermocline
