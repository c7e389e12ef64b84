// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/period_detector.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "driver/check.h"
#include "driver/hash.h"

namespace thermocline {
namespace {

// Polynomial hash modulo 2^61 - 1 (Carter and Wegman 1979, for the field; any odd base of that size will do).
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kBase = 0x0b4a1f3c96e58d27u;
constexpr std::uint32_t kAmbiguous = ~std::uint32_t{0};
// The live bytes of an iteration reach the required level, up to the difference that a few small buffers make.
constexpr Bytes kLevelSlack = kMiB;
// More transitions than a program with a few iterations has: beyond that, the program changes too often to be followed.
constexpr std::size_t kMostTransitions = 1024;

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  const std::uint64_t sum = static_cast<std::uint64_t>(product & kPrime) + static_cast<std::uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

std::uint64_t add_modulo(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

}  // namespace

inline void PeriodDetector::remember_later(const Operation& operation) {
  if (followed_.size() >= kHistory) [[unlikely]]
    forget_all_but_followed();
  followed_.push_back(operation);
}

inline PeriodDetector::Event PeriodDetector::followed_to(std::size_t place, const Reuse& reuse) {
  position_ = place;
  const std::uint64_t usual = iterations_[current_].buffers[place];
  if (usual != reuse.buffer) [[unlikely]]
    return followed_with_another(usual, reuse);
  if (usual != 0) shifted_ = 0;
  return Event::kMatch;
}

PeriodDetector::Event PeriodDetector::add(std::uint64_t token, Bytes live_bytes, Reuse reuse, std::uint64_t kind) {
  by_kind_ = kind != 0 && unsteady_.contains(kind);
  // The operands of such an operation say nothing.
  if (by_kind_) token = UnsteadyKinds::token_of(kind), reuse = {};
  if (!following_) {
    remember({token, live_bytes, reuse, kind});
    return look_for_iteration();
  }
  Iteration& iteration = iterations_[current_];
  const std::size_t expected = next_position();
  bool is_expected = iteration.tokens[expected] == token;
  if (is_expected) {
    if (++steady_ == kGram && suspected_ != 0) unsteady_.add(std::exchange(suspected_, 0));
  } else if (kind != 0 && kind == iteration.kinds[expected] && (by_kind_ || steady_ >= kSteady)) {
    take_for_expected(expected, kind);
    is_expected = true;
    token = iteration.tokens[expected], reuse = {};
  }
  remember_later({token, live_bytes, reuse, kind});
  return is_expected ? followed_to(expected, reuse) : diverge(token);
}

void PeriodDetector::add_passed(std::uint64_t token, Bytes live_bytes, const Reuse& reuse, std::uint64_t kind) {
  ++steady_;
  remember_later({token, live_bytes, reuse, kind});
}

// Only the newer half of these remains in the history.
void PeriodDetector::forget_all_but_followed() {
  const std::size_t half = followed_.size() / 2;
  first_ += tokens_.size() + half;
  remember_anew(tokens_.size());
  followed_.erase(followed_.begin(), followed_.begin() + static_cast<std::ptrdiff_t>(half));
}

void PeriodDetector::catch_up() {
  for (const Operation& one : followed_) remember(one);
  followed_.clear();
}

// The operation has the kind of the expected one, and other operands.
void PeriodDetector::take_for_expected(std::size_t place, std::uint64_t kind) {
  if (by_kind_) {
    iterations_[current_].tokens[place] = UnsteadyKinds::token_of(kind);
    return;
  }
  by_kind_ = true;
  suspected_ = kind;
  steady_ = 0;
}

// The last operation is not the expected one.
PeriodDetector::Event PeriodDetector::diverge(std::uint64_t token) {
  catch_up();
  suspected_ = 0;
  // The iteration that is followed may be a part of a longer one: gradients that are accumulated before an optimizer
  // runs.
  if (const std::optional<std::size_t> period = find_longer()) return take_up(*period);
  if (follow_known_transition(token)) return Event::kMatch;
  following_ = false;
  unsteady_.restart();
  departure_ = {{current_, position_}, token};
  departed_ = operations();
  return Event::kDiverged;
}

PeriodDetector::Event PeriodDetector::look_for_iteration() {
  if (tokens_.size() < kGram) return Event::kNothing;
  if (unsteady_.watch(kinds_, tokens_)) remember_anew(0);
  if (!iterations_.empty() && resume(range_hash(tokens_.size() - kGram, tokens_.size()))) {
    remember_transition();
    return Event::kMatch;
  }
  const std::optional<std::size_t> period = begins_at_the_lowest_ ? period_that_begins() : find_period();
  return period ? take_up(*period) : Event::kNothing;
}

// While few bytes are live the same few operations may run a thousand times in a row, as in an optimizer, and
// find_period() finds nothing there. So a period that is found anywhere is remembered until it begins. A shorter one
// that is found meanwhile may be a loop in it.
std::optional<std::size_t> PeriodDetector::period_that_begins() {
  const std::optional<std::size_t> found = find_period();
  if (found && *found > awaited_) {
    awaited_ = *found;
    begins_after_ = operations() + lowest_of(*found);
  }
  if (awaited_ == 0 || operations() < begins_after_) return std::nullopt;
  const std::size_t period = std::exchange(awaited_, 0);
  return operations() == begins_after_ && is_iteration(period) ? std::optional(period) : std::nullopt;
}

// The position in the last turn, by operation.
std::size_t PeriodDetector::lowest_of(std::size_t period) const {
  constexpr Bytes kMore = 2;
  const auto turn = live_.end() - static_cast<std::ptrdiff_t>(period);
  const auto [low, high] = std::minmax_element(turn, live_.end());
  const std::vector<Bytes> contents = contents_ ? contents_(period) : std::vector<Bytes>();
  if (contents.size() == period) {
    const auto [least, most] = std::ranges::minmax_element(contents);
    if (*most - *least > kMore * (*high - *low)) return static_cast<std::size_t>(least - contents.begin());
  }
  return static_cast<std::size_t>(std::min_element(turn, live_.end()) - turn);
}

// The operation expected here has not used the usual buffer.
PeriodDetector::Event PeriodDetector::followed_with_another(std::uint64_t usual, const Reuse& reuse) {
  catch_up();
  // One turn of a loop has been taken for the iteration, because it was repeated often.
  if (reuse.distance > period()) {
    const std::optional<std::size_t> longer = find_longer();
    if (longer && *longer <= kLongestOfTurns && uses_the_same(*longer, 0)) return take_up(*longer);
  }
  if (usual != 0 && reuse.buffer != 0) align();
  // Nothing was used here before when the iteration was found, as in a program's first turn. A buffer that is also used in
  // another place says nothing.
  if (usual == 0 && reuse.buffer != 0 && !iterations_[current_].has_place_of(tokens_.back(), reuse.buffer))
    keep_if_used_again();
  return Event::kMatch;
}

// The last operation's buffer is used at this place for the second time in a row.
void PeriodDetector::keep_if_used_again() {
  const std::uint64_t buffer = reuses_.back().buffer;
  if (reuses_.size() > period() && reuses_[reuses_.size() - 1 - period()].buffer == buffer)
    iterations_[current_].put(position_, buffer);
}

// The operation expected here has used another buffer.
void PeriodDetector::align() {
  Iteration& iteration = iterations_[current_];
  const std::uint64_t buffer = reuses_.back().buffer;
  const std::optional<std::size_t> place = iteration.only_place_of(tokens_.back(), buffer);
  // It replaces the former one.
  if (!place) return keep_if_used_again();
  const std::size_t shift = (*place + period() - position_) % period();
  shifted_ = shift == shift_ ? shifted_ + 1 : 1;
  shift_ = shift;
  if (shifted_ < kAgreeing) return;
  position_ = *place;
  shifted_ = 0;
}

PeriodDetector::Event PeriodDetector::take_up(std::size_t period) {
  for (std::size_t i = 0; i < iterations_.size(); ++i) {
    const std::vector<std::uint64_t>& tokens = iterations_[i].tokens;
    if (tokens.size() != period || !std::equal(tokens.rbegin(), tokens.rend(), tokens_.rbegin())) continue;
    follow(i, period - 1);
    return Event::kMatch;
  }
  adopt(period);
  return Event::kFound;
}

bool PeriodDetector::follow_known_transition(std::uint64_t token) {
  const auto known = transitions_.find({{current_, position_}, token});
  if (known == transitions_.end()) return false;
  follow(known->second.iteration, known->second.place);
  return true;
}

// To be remembered only if all operations since the departure are those of the newly found iteration, up to its current
// place.
void PeriodDetector::remember_transition() {
  const std::uint64_t since = operations() - std::exchange(departed_, 0);
  const std::vector<std::uint64_t>& tokens = iterations_[current_].tokens;
  if (since >= tokens.size() || transitions_.size() >= kMostTransitions) return;
  std::size_t place = position_;
  for (std::size_t back = 0; back <= since; ++back) {
    if (tokens[place] != tokens_[tokens_.size() - 1 - back]) return;
    if (back < since) place = place == 0 ? tokens.size() - 1 : place - 1;
  }
  transitions_[departure_] = {current_, place};
}

bool PeriodDetector::mark() {
  const std::uint64_t period = operations() - marked_;
  marked_ = operations();
  if (following_ || period == 0 || !repeats(static_cast<std::size_t>(period))) return false;
  adopt(static_cast<std::size_t>(period));
  return true;
}

void PeriodDetector::remember(const Operation& operation) {
  if (tokens_.size() >= kHistory) forget_half();
  const Reuse& reuse = operation.reuse;
  kinds_.push_back(operation.kind);
  tokens_.push_back(operation.token);
  prefix_.push_back(add_modulo(multiply(prefix_.back(), kBase), operation.token % kPrime));
  if (power_.size() < prefix_.size()) power_.push_back(multiply(power_.back(), kBase));
  live_.push_back(operation.live_bytes);
  highest_ = std::max(highest_, operation.live_bytes);
  peaks_.add(first_ + tokens_.size(), operation.live_bytes);
  reuses_.push_back(reuse);
  previous_.push_back(0);
  previous_reuse_ = 0;
  if (tokens_.size() < kGram) return;
  const std::uint64_t gram = range_hash(tokens_.size() - kGram, tokens_.size());
  const auto place = static_cast<std::uint32_t>(tokens_.size());
  previous_.back() = std::exchange(newest_[gram], place);
  // Buffers that were used very recently say nothing about long periods.
  if (reuse.distance >= kGram) previous_reuse_ = std::exchange(newest_reuse_[joined_hash(gram, reuse.buffer)], place);
}

void PeriodDetector::forget_half() {
  first_ += tokens_.size() / 2;
  remember_anew(tokens_.size() / 2);
}

// Includes earlier operations of unsteady kinds: they count as equal from now on, too.
void PeriodDetector::remember_anew(std::size_t from) {
  const auto tail = [from](const auto& all) {
    return std::remove_cvref_t<decltype(all)>(all.begin() + static_cast<std::ptrdiff_t>(from), all.end());
  };
  const std::vector<std::uint64_t> tokens = tail(tokens_), kinds = tail(kinds_);
  const std::vector<Bytes> live = tail(live_);
  const std::vector<Reuse> reuses = tail(reuses_);
  tokens_.clear();
  kinds_.clear();
  live_.clear();
  highest_ = 0;
  peaks_.clear();
  reuses_.clear();
  previous_.clear();
  prefix_.assign(1, 0);
  newest_.clear();
  newest_reuse_.clear();
  if (from == 0) {
    unsteady_.recount();
  } else {
    unsteady_.restart();
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool unsteady = kinds[i] != 0 && unsteady_.contains(kinds[i]);
    remember(
        {unsteady ? UnsteadyKinds::token_of(kinds[i]) : tokens[i], live[i], unsteady ? Reuse{} : reuses[i], kinds[i]});
  }
}

std::uint64_t PeriodDetector::range_hash(std::size_t begin, std::size_t end) const {
  const std::uint64_t shifted = multiply(prefix_[begin], power_[end - begin]);
  return add_modulo(prefix_[end], kPrime - shifted);
}

bool PeriodDetector::repeats(std::size_t period) const {
  const std::size_t n = tokens_.size();
  return 2 * period <= n && range_hash(n - period, n) == range_hash(n - 2 * period, n - period);
}

// The highest level of live bytes in any longer period that an iteration of this length may be a part of.
Bytes PeriodDetector::level(std::size_t period) const {
  return 4 * period < kLevelWindow ? peaks_.highest() : highest_;
}

bool PeriodDetector::is_iteration(std::size_t period) const {
  const std::size_t n = tokens_.size();
  if (2 * period > n || live_[n - 1] != live_[n - 1 - period] || !repeats(period)) return false;
  return highest_of_last(period) + kLevelSlack >= level(period) && uses_the_same(period, period / kOddReuses);
}

// Whether buffers older than one period are used as in the period before, except for `but_for` operations.
bool PeriodDetector::uses_the_same(std::size_t period, std::size_t but_for) const {
  for (std::size_t i = reuses_.size() - period; i < reuses_.size(); ++i) {
    if (reuses_[i].age <= period || reuses_[i].buffer == reuses_[i - period].buffer) continue;
    if (but_for-- == 0) return false;
  }
  return true;
}

Bytes PeriodDetector::highest_of_last(std::size_t count) const {
  if (count < kLevelWindow) return peaks_.highest_of_last(count);
  return *std::max_element(live_.end() - static_cast<std::ptrdiff_t>(count), live_.end());
}

std::optional<std::size_t> PeriodDetector::find_period() const {
  const std::size_t n = tokens_.size();
  if (previous_reuse_ != 0 && is_iteration(n - previous_reuse_)) return n - previous_reuse_;
  std::uint32_t place = previous_.back();
  for (std::size_t tried = 0; place != 0 && tried < kCandidates; ++tried) {
    const std::size_t period = n - place;
    if (2 * period > n) return std::nullopt;
    if (is_iteration(period)) return period;
    place = previous_[place - 1];
  }
  return std::nullopt;
}

std::optional<std::size_t> PeriodDetector::find_longer() const {
  const std::optional<std::size_t> period = find_period();
  return period && *period > iterations_[current_].tokens.size() ? period : std::nullopt;
}

// An unused slot, or that of the iteration that has not been followed for longest.
std::size_t PeriodDetector::free_slot() {
  if (iterations_.size() < kIterations) {
    iterations_.emplace_back();
    return iterations_.size() - 1;
  }
  const auto oldest = std::min_element(iterations_.begin(), iterations_.end(),
                                       [](const Iteration& a, const Iteration& b) { return a.followed < b.followed; });
  const auto slot = static_cast<std::size_t>(oldest - iterations_.begin());
  std::erase_if(transitions_,
                [slot](const auto& way) { return way.first.from.iteration == slot || way.second.iteration == slot; });
  *oldest = {};
  return slot;
}

void PeriodDetector::follow(std::size_t iteration, std::size_t place) {
  current_ = iteration;
  position_ = place;
  following_ = true;
  shifted_ = 0;
  steady_ = 0;
  suspected_ = 0;
  iterations_[iteration].followed = operations();
}

void PeriodDetector::adopt(std::size_t period) {
  departed_ = 0;
  const std::size_t slot = free_slot();
  Iteration& iteration = iterations_[slot];
  iteration.tokens.assign(tokens_.end() - static_cast<std::ptrdiff_t>(period), tokens_.end());
  iteration.kinds.assign(kinds_.end() - static_cast<std::ptrdiff_t>(period), kinds_.end());
  iteration.buffers.assign(period, 0);
  const std::size_t begin = tokens_.size() - period;
  for (std::size_t i = 0; i < period; ++i) {
    if (const std::uint64_t buffer = reuses_[begin + i].buffer; buffer == reuses_[begin + i - period].buffer) {
      iteration.put(i, buffer);
    }
    if (begin + i + 1 < kGram) continue;
    const std::uint64_t gram = range_hash(begin + i + 1 - kGram, begin + i + 1);
    const auto [at, fresh] = iteration.gram_places.try_emplace(gram, static_cast<std::uint32_t>(i));
    if (!fresh) at->second = kAmbiguous;
  }
  follow(slot, period - 1);
}

void PeriodDetector::Iteration::put(std::size_t place, std::uint64_t buffer) {
  if (buffers[place] != 0) {
    const auto old = buffer_places.find(joined_hash(tokens[place], buffers[place]));
    if (old != buffer_places.end() && old->second == place) buffer_places.erase(old);
  }
  buffers[place] = buffer;
  if (buffer == 0) return;
  const auto [at, fresh] =
      buffer_places.try_emplace(joined_hash(tokens[place], buffer), static_cast<std::uint32_t>(place));
  if (!fresh) at->second = kAmbiguous;
}

bool PeriodDetector::Iteration::has_place_of(std::uint64_t token, std::uint64_t buffer) const {
  return buffer_places.contains(joined_hash(token, buffer));
}

std::optional<std::size_t> PeriodDetector::Iteration::only_place_of(std::uint64_t token, std::uint64_t buffer) const {
  const auto found = buffer_places.find(joined_hash(token, buffer));
  if (found == buffer_places.end() || found->second == kAmbiguous) return std::nullopt;
  return found->second;
}

// Whether the last kGram tokens are those of the iteration up to the place.
bool PeriodDetector::ends_as(const Iteration& iteration, std::size_t place) const {
  for (std::size_t back = 0; back < kGram; ++back) {
    if (tokens_[tokens_.size() - 1 - back] != iteration.tokens[place]) return false;
    place = place == 0 ? iteration.tokens.size() - 1 : place - 1;
  }
  return true;
}

std::optional<std::size_t> PeriodDetector::place_by_buffer(const Iteration& iteration) const {
  const std::optional<std::size_t> place = iteration.only_place_of(tokens_.back(), reuses_.back().buffer);
  return place && ends_as(iteration, *place) ? place : std::nullopt;
}

// Among several iterations that contain the gram: the one that knows the buffer there; among these, the one followed
// last.
bool PeriodDetector::resume(std::uint64_t gram) {
  std::optional<IterationPlace> best;
  bool best_knows = false;
  for (std::size_t i = 0; i < iterations_.size(); ++i) {
    const Iteration& iteration = iterations_[i];
    std::optional<std::size_t> place = place_by_buffer(iteration);
    const bool knows = place.has_value();
    if (const auto found = iteration.gram_places.find(gram); !knows && found != iteration.gram_places.end()) {
      if (found->second != kAmbiguous) place = found->second;
    }
    if (!place || (best && best_knows && !knows)) continue;
    if (!best || (knows && !best_knows) || iterations_[best->iteration].followed < iteration.followed) {
      best = IterationPlace{i, *place};
      best_knows = knows;
    }
  }
  if (!best) return false;
  follow(best->iteration, best->place);
  return true;
}

}  // namespace thermocline
