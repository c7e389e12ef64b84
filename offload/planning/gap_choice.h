// SPDX-License-Identifier: Apache-2.0
// Which buffers leave in which gaps between two uses, and how much of each, so that what is on the device fits at every
// place. Choosing gaps is covering: at every place, the gaps chosen across it must hold what exceeds the limit.
//
// A sweep over the places takes, where it is needed, the gap that its preference ranks first, and of it as many parts
// as are needed. Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/planning/profile.h"

namespace thermocline {

// A gap that could be used, in places: the buffer may be away strictly between leave and arrive. arrive > leave always;
// it is beyond the end of the iteration when the buffer comes back in the next one. Behind its last use a buffer may be
// away for the rest of its life: then it does not return, and arrive is the place behind its death.
struct Gap {
  std::uint32_t buffer;
  std::uint32_t leave, arrive;
  double idle_ns;
  bool returns;
};

// kReach: the gap that reaches farthest (Belady's rule on intervals; swept backward, the one that began first).
// kHidden: what slow operators produce or consume goes first, for its transfer hides behind them, and of that what is
// away longest. Which operators are slow has been measured, or is guessed from their class (learned.cc).
// kSparse: the farthest reach, and by how much (`Choice::sparsity`) what frees more memory than a copy of it moves goes
// before what fills its pages.
// kEven: what is away leaves and returns all over the iteration, and of many buffers a part each: where memory is full
// all the time, as in a loop over equal layers, copies must not come all at once.
enum class Preference { kHidden, kReach, kSparse, kIdleTime, kSize, kEven };

struct Choice {
  Preference preference;
  bool backward = false;
  // Bytes that are left free, so that one buffer may arrive while another one leaves.
  double reserve = 0;
  // kSparse: so many iterations' length is the reach worth of a buffer that is empty over one that fills its pages.
  double sparsity = 0;
  // What the sweep took for one place may be needed no more once it has passed the others: that is not chosen then.
  // Without, it is room for what returns.
  bool trims = false;
};

// How many parts of each gap's buffer are away in it (part_size.h).
using ChosenParts = std::vector<std::uint32_t>;

class GapChooser {
 public:
  // `profile` must outlive this. `limit`: bytes for everything that is live, planned or not.
  GapChooser(const Profile& profile, double limit);

  const std::vector<Gap>& gaps() const { return gaps_; }
  double bytes_of(std::uint32_t gap) const { return static_cast<double>(profile_.buffers[gaps_[gap].buffer].bytes); }
  std::uint32_t parts_in(std::uint32_t gap) const;
  // Bytes by place, everything on the device.
  const std::vector<double>& live() const { return live_; }
  // The place where the least is live.
  std::uint32_t lowest() const { return lowest_; }
  // Of an iteration in which nobody waits.
  double compute_ns() const { return clock_[places_]; }

  // From now on at least, and at most, so many parts of the gap are chosen.
  struct Range {
    std::uint32_t least = 0, most = ~std::uint32_t{0};
  };
  Range range_of(std::uint32_t gap) const { return ranges_[gap]; }
  void set_range(std::uint32_t gap, Range range) { ranges_[gap] = range; }

  // Empty when some place can not be made to fit.
  ChosenParts choose(const Choice& choice) const;

 private:
  // Part of a gap in the coordinates of a sweep; covers the steps strictly between.
  struct Interval {
    std::int64_t begin, end;
    double key;
    std::uint32_t gap;
  };
  class Sweep;

  void find_gaps();
  void add_gap(std::uint32_t buffer, std::uint32_t leave, std::uint32_t arrive, bool returns);
  void sum_live();
  void find_slowness();
  void find_evenness();
  double time_at(std::uint32_t place) const;
  bool is_hidden(const Gap& gap) const;
  double key_of(const Choice& choice, std::uint32_t gap, std::int64_t end) const;
  double part_of(std::uint32_t gap) const { return bytes_of(gap) / parts_in(gap); }
  std::vector<Interval> intervals(const Choice& choice) const;
  std::vector<double> slack_of(const ChosenParts& chosen, double limit) const;
  void release_redundant(double limit, ChosenParts* chosen) const;

  const Profile& profile_;
  const double limit_;
  const std::uint32_t places_;
  std::uint32_t lowest_ = 0;
  std::vector<double> clock_;  // compute time before each place
  std::vector<double> live_;
  std::vector<double> slowness_;  // nanoseconds a byte of operands, by place
  double middling_slowness_ = 0;  // half of the operators are slower
  std::vector<Gap> gaps_;
  std::vector<double> evenness_;  // by gap
  std::vector<Range> ranges_;     // by gap
};

}  // namespace thermocline
