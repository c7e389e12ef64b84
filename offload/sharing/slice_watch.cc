// SPDX-License-Identifier: Apache-2.0
#include "offload/sharing/slice_watch.h"

#include <algorithm>

namespace thermocline {
namespace {

// Slices have to get this much more done, of the device's time.
constexpr std::uint32_t kLeastGainPermille = 100;
// Before it is known how long a working set takes to come: this part of the longest slice.
constexpr std::uint64_t kFirstPart = 4;
constexpr std::uint64_t kMostRests = 16;  // times the first rest

std::uint32_t permille(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<std::uint32_t>(1000 * std::min(part, all) / all);
}

}  // namespace

void SliceWatch::measure(std::uint64_t now_ns, const StallTimes& times) {
  if (!begun_with_) begun_with_ = times;
  const StallTimes& before = *begun_with_;
  const std::uint64_t window_ns = times.measured_ns - before.measured_ns;
  if (window_ns < kWindowNs) return;
  own_.computed_permille = permille(times.computed_ns - before.computed_ns, window_ns);
  own_.copied_permille = permille(std::max(times.copied_out_ns - before.copied_out_ns,  //
                                           times.copied_in_ns - before.copied_in_ns),
                                  window_ns);
  own_.measured_ns = now_ns;
  begun_with_ = times;
}

void SliceWatch::take_part(std::uint64_t now_ns, std::uint32_t computed_permille) {
  own_.marked_until_ns = now_ns + kMarkedFor * longest_ns_;
  computed_before_ = computed_permille;
  in_vain_ = 0;
}

// By weight: the mean of those that take part gets the length that is wanted.
void SliceWatch::begin_slice(std::uint64_t now_ns, std::span<const SliceSharer> all, std::size_t self) {
  std::uint64_t weights = 0, count = 0;
  for (const SliceSharer& one : all) {
    if (!takes_part(one, now_ns)) continue;
    weights += std::max(1U, one.weight);
    ++count;
  }
  if (wanted_ns_ == 0) wanted_ns_ = longest_ns_ / kFirstPart;
  const std::uint64_t weighted = wanted_ns_ / weights * count * std::max(1U, all[self].weight);
  own_.begun_ns = now_ns;
  own_.until_ns = now_ns + std::clamp(weighted, std::min(kShortestNs, longest_ns_), longest_ns_);
}

void SliceWatch::slice_ended(std::uint64_t now_ns, std::uint64_t stalled_ns) {
  const std::uint64_t asked_ns = kTimesTheWait * stalled_ns;
  const bool was_long_enough = wanted_ns_ >= std::min(asked_ns, longest_ns_);
  wanted_ns_ = std::clamp(asked_ns, std::min(kShortestNs, longest_ns_), longest_ns_);
  const std::uint32_t computed = 1000 - permille(stalled_ns, now_ns - own_.begun_ns);
  if (computed >= computed_before_ + kLeastGainPermille) {
    in_vain_ = 0;
    rests_ns_ = 0;
  } else if (was_long_enough && ++in_vain_ >= kMostInVain) {
    const std::uint64_t first_ns = kMarkedFor * longest_ns_;
    rests_ns_ = std::clamp(2 * rests_ns_, first_ns, kMostRests * first_ns);
    not_before_ns_ = now_ns + rests_ns_;
    own_.marked_until_ns = 0;
  }
}

SliceRecord SliceWatch::look(std::uint64_t now_ns, const StallTimes& times, std::span<const SliceSharer> others,
                             std::size_t self, bool lacks) {
  if (longest_ns_ == 0) return own_;
  std::vector<SliceSharer> all(others.begin(), others.end());
  own_.looked_ns = now_ns;
  all[self].record = own_;
  const bool was_sliced = has_slice_ || out_of_turn_;
  const bool is_sliced = any_slices(all, now_ns) && takes_part(all[self], now_ns);
  if (is_sliced && may_begin_slice(all, now_ns, self)) {
    begin_slice(now_ns, all, self);
    all[self].record = own_;
  }
  const std::optional<std::size_t> holder = slice_holder(all, now_ns);
  const bool had_slice = has_slice_;
  has_slice_ = is_sliced && (!holder || *holder == self);
  out_of_turn_ = is_sliced && !has_slice_;
  if (had_slice && !has_slice_) {
    // One that others have ended, or that two had taken, tells nothing.
    if (is_sliced && begun_with_ && own_.until_ns <= now_ns)
      slice_ended(now_ns, times.stalled_ns - begun_with_->stalled_ns);
    own_.until_ns = std::min(own_.until_ns, now_ns);
  }
  if (is_sliced != was_sliced || had_slice != has_slice_) begun_with_.reset();
  if (has_slice_) {
    if (!begun_with_) begun_with_ = times;
  } else if (!is_sliced) {
    measure(now_ns, times);
    all[self].record = own_;
    std::uint32_t computed = 0;
    if (lacks && now_ns >= not_before_ns_ && own_.marked_until_ns <= now_ns &&
        thrashes_with_others(all, now_ns, self, &computed))
      take_part(now_ns, computed);
  }
  return own_;
}

}  // namespace thermocline
