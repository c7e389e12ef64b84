// SPDX-License-Identifier: Apache-2.0
// LearnedPolicy, while the program follows a known iteration: operations that come as they did an iteration before.
#include <numeric>
#include <utility>

#include "offload/policy/learned.h"

namespace thermocline {
namespace {

// For longer iterations the operations that came are not noted: that takes some 200 bytes for each.
constexpr std::size_t kMostNoted = std::size_t{1} << 15;

}  // namespace

// Handles the operation that is expected next, with the same operands as when it last came there. All that is learned
// from it is known: arriving() would find the same, and changes what this changes. False: the caller has to handle it.
bool LearnedPolicy::comes_as_before(const Arrival& arrival) {
  if (!following_ || arrival.known == 0 || planning_.begun() || residency_.has_taken_digests()) return false;
  PlannedIteration& known = known_[current_];
  const std::size_t place = period_detector_.next_position();
  if (known.came.empty() || known.expected.data()[place].known != arrival.known) return false;
  PlannedIteration::Came& came = known.came.data()[place];
  Expected& expected = known.expected.data()[place];
  if (!recorder_.is_stored(came.usage) || period_detector_.unsteady_kinds() != unsteady_kinds_) return false;
  const std::uint64_t given = arrival.info.nanoseconds;
  const std::uint64_t nanoseconds = given != 0 ? given : known.profile.nanoseconds.data()[place];
  // If everything has come as before for a whole iteration, then the last use and the reuse of each buffer are the
  // same as then.
  const bool is_alike = came.nanoseconds == nanoseconds && expected.live_bytes == arrival.live_bytes &&
                        expected.live_block_bytes == arrival.live_block_bytes;
  if (repeats_ >= known.came.size() && is_alike) {
    period_detector_.pass_expected(place);
    ++unlearned_;
    expected.nanoseconds = given;
    const bool must_be_told = acts() || wants().submitting || wants().submitted;
    if (!must_be_told) expect(known.expected, period_detector_.next_position());
  } else {
    learn_repeats();
    const Reuse reuse = recorder_.reuse_of(came.usage);
    if (!recorder_.is_stored(came.usage) ||
        !period_detector_.add_expected(place, came.token, arrival.live_bytes, reuse, came.kind))
      return false;
    recorder_.add_again(came.usage, nanoseconds, arrival.live_block_bytes);
    came.nanoseconds = nanoseconds;
    expected = {arrival.known, given, arrival.live_bytes, arrival.live_block_bytes};
  }
  ++repeats_;
  unfenced_ns_ += nanoseconds;
  arrived_ns_ = nanoseconds;
  submitted_ns_ += nanoseconds;
  token_ = came.token;
  by_kind_ = came.by_kind;
  timed_ = given != 0;
  ++in_a_row_;
  if (acts()) {
    list_operands(arrival.operands);
    bind();
  }
  return true;
}

// Has the same effect as if comes_as_before() had been told of each operation that arrived as expected: it would have
// taken its branch in which nothing is learned.
void LearnedPolicy::count_arrived() {
  const std::uint64_t arrived = take_arrived();
  if (arrived == 0) return;
  const PlannedIteration& known = known_[current_];
  const std::size_t period = known.came.size();
  const auto plus = [](std::uint64_t sum, const PlannedIteration::Came& one) { return sum + one.nanoseconds; };
  std::uint64_t nanoseconds = 0;
  if (const std::uint64_t turns = arrived / period; turns > 0)
    nanoseconds = turns * std::accumulate(known.came.begin(), known.came.end(), std::uint64_t{0}, plus);
  std::size_t place = period_detector_.position();
  for (std::uint64_t left = arrived % period; left > 0; --left) {
    place = place + 1 == period ? 0 : place + 1;
    nanoseconds += known.came[place].nanoseconds;
  }
  period_detector_.pass_expected(place);
  unlearned_ += arrived;
  repeats_ += arrived;
  in_a_row_ += arrived;
  unfenced_ns_ += nanoseconds;
  submitted_ns_ += nanoseconds;
  const PlannedIteration::Came& last = known.came[place];
  arrived_ns_ = last.nanoseconds;
  token_ = last.token;
  by_kind_ = last.by_kind;
  timed_ = known.expected[place].nanoseconds != 0;
}

// Has the same effect as if each had been told when it came.
void LearnedPolicy::learn_repeats() {
  count_arrived();
  expect_nothing();
  if (unlearned_ == 0) [[likely]]
    return;
  constexpr std::uint64_t kStep = PeriodDetector::kForgottenAtOnce, kLeft = PeriodDetector::kLateAtOnce;
  const std::uint64_t skipped = unlearned_ > kLeft ? (unlearned_ - kLeft) / kStep * kStep : 0;
  recorder_.skip(skipped);
  period_detector_.skip_passed(skipped);
  std::vector<PlannedIteration::Came>& came = known_[current_].came;
  const std::vector<Expected>& expected = known_[current_].expected;
  std::uint64_t left = std::exchange(unlearned_, 0) - skipped;
  std::size_t place = (period_detector_.position() + came.size() - (left - 1) % came.size()) % came.size();
  for (; left > 0; --left) {
    PlannedIteration::Came& one = came[place];
    const Reuse reuse = recorder_.reuse_of(one.usage);
    period_detector_.add_passed(one.token, expected[place].live_bytes, reuse, one.kind);
    recorder_.add_late(one.usage, one.nanoseconds, expected[place].live_block_bytes);
    place = place + 1 == came.size() ? 0 : place + 1;
  }
}

void LearnedPolicy::note_how_it_came(const Arrival& arrival, std::size_t sure) {
  if (unsteady_kinds_ != period_detector_.unsteady_kinds()) {
    unsteady_kinds_ = period_detector_.unsteady_kinds();
    for (PlannedIteration& known : known_) known.forget_what_came();
  }
  const std::size_t place = period_detector_.position();
  const bool is_expected = !period_detector_.matched_by_kind() && period_detector_.token_at(place) == token_;
  PlannedIteration& known = known_[current_];
  // Digests may have different results for the operands each time. Where everything fits, none is taken.
  if (!is_expected || arrival.known == 0 || period_detector_.period() > kMostNoted || residency_.has_taken_digests()) {
    if (!known.came.empty()) known.expected[place].known = 0;
    return;
  }
  known.came.resize(period_detector_.period());
  known.expected.resize(period_detector_.period());
  PlannedIteration::Came& one = known.came[place];
  one.token = token_;
  one.kind = kind_of(arrival.info);
  one.by_kind = by_kind_;
  known.expected[place].known = recorder_.usage_of_last(sure, &one.usage) ? arrival.known : 0;
}

}  // namespace thermocline
