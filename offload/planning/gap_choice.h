// SPDX-License-Identifier: Apache-2.0
// Chooses which buffers are evicted in which gaps between two uses, and how much of each, so that resident memory fits
// at every place (a place is an operation's index in the iteration). This is a covering problem: at every place, the
// gaps chosen across it must cover what exceeds the limit.
//
// A sweep over the places takes, wherever more is needed, the gap that its preference ranks first, and as many eviction
// units of it as are needed. Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "offload/planning/profile.h"

namespace thermocline {

// A gap that could be used, in places: the buffer may be evicted strictly between last_use and next_use (last_use <
// next_use). If the next use is in the next iteration, next_use is beyond the end of this one. A buffer may be evicted
// after its last use for the rest of its life: it is not fetched again, and next_use is the place after its death.
struct Gap {
  std::uint32_t buffer;
  std::uint32_t last_use, next_use;
  double idle_ns;
  bool is_fetched;
};

// How candidates are ranked.
//   - kReach: the gap that ends last (Belady's rule on intervals; in a backward sweep, the one that began first).
//   - kHidden: first what slow operators produce or consume, because its transfer is hidden behind them; among these
//     the longest gap. Which operators are slow has been measured, or is guessed from their class (learned.cc).
//   - kSparse: as kReach, but what frees more memory than a copy of it moves gets an advantage, weighted by
//     `Choice::sparsity`.
//   - kIdleTime: the longest time.
//   - kSize: the largest buffer.
//   - kEven: evictions and fetches are spread over the whole iteration, and over units of many buffers: if memory is
//     full all the time, as in a loop over equal layers, copies must not all come at once.
enum class Preference { kHidden, kReach, kSparse, kIdleTime, kSize, kEven };

struct Choice {
  Preference preference;
  bool backward = false;
  // Bytes that are left free, so that one buffer can be fetched while another one is evicted.
  double reserve = 0;
  // For kSparse: the advantage of an empty buffer over one that fills its pages, in lengths of the iteration.
  double sparsity = 0;
  // Gaps after a last use come before all others: nothing is fetched after them, and nothing is copied out in them if
  // the buffer was evicted before that use, which read it.
  bool unreturned_first = false;
  // Removes choices that turned out redundant after the sweep. Otherwise they remain as room for what is fetched.
  bool trims = false;
};

// By gap: how many eviction units of its buffer are evicted in it (unit_size.h).
using ChosenUnits = std::vector<std::uint32_t>;

class GapChooser {
 public:
  // `profile` must outlive this object. `limit`: bytes for everything that is live, whether planned or not.
  GapChooser(const Profile& profile, double limit);

  const std::vector<Gap>& gaps() const { return gaps_; }
  double bytes_of(std::uint32_t gap) const { return static_cast<double>(profile_.buffers[gaps_[gap].buffer].bytes); }
  std::uint32_t units_in(std::uint32_t gap) const;
  // Live bytes by place, with everything on the device.
  const std::vector<double>& live() const { return live_; }
  // The place with the fewest live bytes.
  std::uint32_t lowest() const { return lowest_; }
  // Duration of an iteration without waits for copies.
  double compute_ns() const { return clock_[places_]; }

  // Lower and upper limit for how many units of the gap are chosen from now on.
  struct Range {
    std::uint32_t least = 0, most = ~std::uint32_t{0};
  };
  Range range_of(std::uint32_t gap) const { return ranges_[gap]; }
  void set_range(std::uint32_t gap, Range range) { ranges_[gap] = range; }

  // Nothing if it can not fit at some place. Without gaps there is one choice, which is empty.
  std::optional<ChosenUnits> choose(const Choice& choice) const;

 private:
  // A stretch of a gap in the coordinates of a sweep; covers the steps strictly between its ends.
  struct Interval {
    std::int64_t begin, end;
    double key;
    std::uint32_t gap;
  };
  class Sweep;

  void find_gaps();
  void add_gap(std::uint32_t buffer, std::uint32_t last_use, std::uint32_t next_use, bool is_fetched);
  void sum_live();
  void find_slowness();
  void find_evenness();
  double time_at(std::uint32_t place) const;
  bool is_hidden(const Gap& gap) const;
  double key_of(const Choice& choice, std::uint32_t gap, std::int64_t end) const;
  double unit_bytes_of(std::uint32_t gap) const { return bytes_of(gap) / units_in(gap); }
  std::vector<Interval> intervals(const Choice& choice) const;
  std::vector<double> slack_of(const ChosenUnits& chosen, double limit) const;
  void release_redundant(double limit, ChosenUnits* chosen) const;

  const Profile& profile_;
  const double limit_;
  const std::uint32_t places_;
  std::uint32_t lowest_ = 0;
  std::vector<double> clock_;  // compute time before each place
  std::vector<double> live_;
  std::vector<double> slowness_;  // by place: nanoseconds per byte of operands
  double middling_slowness_ = 0;  // the median of slowness_
  std::vector<Gap> gaps_;
  std::vector<double> evenness_;  // by gap
  std::vector<Range> ranges_;     // by gap
};

}  // namespace thermocline
