// SPDX-License-Identifier: Apache-2.0
#include "offload/recogniser.h"

#include <algorithm>
#include <utility>

#include "driver/check.h"

namespace thermocline {
namespace {

// Polynomial hash modulo 2^61 - 1 (Carter, Wegman 1979, for the field; any odd base of that size serves).
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kBase = 0x0b4a1f3c96e58d27u;
constexpr std::uint32_t kAmbiguous = ~std::uint32_t{0};
// Live bytes within an iteration reach the level of both: equal up to what a few stray small buffers make.
constexpr Bytes kLevelSlack = kMiB;
// More ways than a program with a few iterations has: beyond that it just changes a lot.
constexpr std::size_t kMostWays = 1024;

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

Recogniser::Event Recogniser::add(std::uint64_t token, Bytes live_bytes) {
  remember(token, live_bytes);
  if (following_) {
    const std::vector<std::uint64_t>& tokens = iterations_[current_].tokens;
    const std::size_t expected = position_ + 1 == tokens.size() ? 0 : position_ + 1;
    if (tokens[expected] == token) {
      position_ = expected;
      return Event::kMatch;
    }
    // What is followed may be a part of something longer: gradients that are accumulated before an optimizer runs.
    if (const std::optional<std::size_t> period = find_period(); period && *period > tokens.size()) {
      return take_up(*period);
    }
    if (take_known_way(token)) return Event::kMatch;
    following_ = false;
    departure_ = {{current_, position_}, token};
    departed_ = operations();
    return Event::kDiverged;
  }
  if (tokens_.size() < kGram) return Event::kNothing;
  if (!iterations_.empty() && resume(range_hash(tokens_.size() - kGram, tokens_.size()))) {
    remember_way();
    return Event::kMatch;
  }
  const std::optional<std::size_t> period = find_period();
  return period ? take_up(*period) : Event::kNothing;
}

Recogniser::Event Recogniser::take_up(std::size_t period) {
  for (std::size_t i = 0; i < iterations_.size(); ++i) {
    const std::vector<std::uint64_t>& tokens = iterations_[i].tokens;
    if (tokens.size() != period || !std::equal(tokens.rbegin(), tokens.rend(), tokens_.rbegin())) continue;
    follow(i, period - 1);
    return Event::kMatch;
  }
  adopt(period);
  return Event::kFound;
}

bool Recogniser::take_known_way(std::uint64_t token) {
  const auto way = ways_.find({{current_, position_}, token});
  if (way == ways_.end()) return false;
  follow(way->second.iteration, way->second.place);
  return true;
}

// Where all operations since the departure are those of the iteration that has just been found, up to its place.
void Recogniser::remember_way() {
  const std::uint64_t since = operations() - std::exchange(departed_, 0);
  const std::vector<std::uint64_t>& tokens = iterations_[current_].tokens;
  if (since >= tokens.size() || ways_.size() >= kMostWays) return;
  std::size_t place = position_;
  for (std::size_t back = 0; back <= since; ++back) {
    if (tokens[place] != tokens_[tokens_.size() - 1 - back]) return;
    if (back < since) place = place == 0 ? tokens.size() - 1 : place - 1;
  }
  ways_[departure_] = {current_, place};
}

bool Recogniser::mark() {
  const std::uint64_t period = operations() - marked_;
  marked_ = operations();
  if (following_ || period == 0 || !repeats(static_cast<std::size_t>(period))) return false;
  adopt(static_cast<std::size_t>(period));
  return true;
}

void Recogniser::remember(std::uint64_t token, Bytes live_bytes) {
  if (tokens_.size() >= kHistory) forget_half();
  tokens_.push_back(token);
  prefix_.push_back(add_modulo(multiply(prefix_.back(), kBase), token % kPrime));
  if (power_.size() < prefix_.size()) power_.push_back(multiply(power_.back(), kBase));
  live_.push_back(live_bytes);
  highest_ = std::max(highest_, live_bytes);
  const std::uint64_t now = operations();
  while (!peaks_.empty() && peaks_.back().second <= live_bytes) peaks_.pop_back();
  peaks_.emplace_back(now, live_bytes);
  while (peaks_.front().first + kLevelWindow <= now) peaks_.pop_front();
  previous_.push_back(0);
  if (tokens_.size() < kGram) return;
  const std::uint64_t gram = range_hash(tokens_.size() - kGram, tokens_.size());
  const auto place = static_cast<std::uint32_t>(tokens_.size());
  std::uint32_t& newest = newest_[gram];
  previous_.back() = newest;
  newest = place;
}

void Recogniser::forget_half() {
  const std::size_t half = tokens_.size() / 2;
  std::vector<std::uint64_t> tokens(tokens_.begin() + static_cast<std::ptrdiff_t>(half), tokens_.end());
  std::vector<Bytes> live(live_.begin() + static_cast<std::ptrdiff_t>(half), live_.end());
  first_ += half;
  tokens_.clear();
  live_.clear();
  highest_ = 0;
  peaks_.clear();
  previous_.clear();
  prefix_.assign(1, 0);
  newest_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) remember(tokens[i], live[i]);
}

std::uint64_t Recogniser::range_hash(std::size_t begin, std::size_t end) const {
  const std::uint64_t shifted = multiply(prefix_[begin], power_[end - begin]);
  return add_modulo(prefix_[end], kPrime - shifted);
}

bool Recogniser::repeats(std::size_t period) const {
  const std::size_t n = tokens_.size();
  return 2 * period <= n && range_hash(n - period, n) == range_hash(n - 2 * period, n - period);
}

// The highest of what an iteration of that length may be a part of.
Bytes Recogniser::level(std::size_t period) const {
  return 4 * period < kLevelWindow ? peaks_.front().second : highest_;
}

bool Recogniser::is_iteration(std::size_t period) const {
  const std::size_t n = tokens_.size();
  if (2 * period > n || live_[n - 1] != live_[n - 1 - period] || !repeats(period)) return false;
  return highest_of_last(period) + kLevelSlack >= level(period);
}

Bytes Recogniser::highest_of_last(std::size_t count) const {
  if (count >= kLevelWindow) return *std::max_element(live_.end() - static_cast<std::ptrdiff_t>(count), live_.end());
  // Peaks fall: the first one that is not too old is the highest.
  const std::uint64_t oldest = operations() - count + 1;
  const auto old = [](const std::pair<std::uint64_t, Bytes>& peak, std::uint64_t limit) { return peak.first < limit; };
  return std::lower_bound(peaks_.begin(), peaks_.end(), oldest, old)->second;
}

std::optional<std::size_t> Recogniser::find_period() const {
  const std::size_t n = tokens_.size();
  std::uint32_t place = previous_.back();
  for (std::size_t tried = 0; place != 0 && tried < kCandidates; ++tried) {
    const std::size_t period = n - place;
    if (2 * period > n) return std::nullopt;
    if (is_iteration(period)) return period;
    place = previous_[place - 1];
  }
  return std::nullopt;
}

// One that is not known yet, or the one that has not been followed for longest.
std::size_t Recogniser::free_slot() {
  if (iterations_.size() < kIterations) {
    iterations_.emplace_back();
    return iterations_.size() - 1;
  }
  const auto oldest = std::min_element(iterations_.begin(), iterations_.end(),
                                       [](const Iteration& a, const Iteration& b) { return a.followed < b.followed; });
  const auto slot = static_cast<std::size_t>(oldest - iterations_.begin());
  std::erase_if(ways_,
                [slot](const auto& way) { return way.first.from.iteration == slot || way.second.iteration == slot; });
  *oldest = {};
  return slot;
}

void Recogniser::follow(std::size_t iteration, std::size_t place) {
  current_ = iteration;
  position_ = place;
  following_ = true;
  iterations_[iteration].followed = operations();
}

void Recogniser::adopt(std::size_t period) {
  departed_ = 0;
  const std::size_t slot = free_slot();
  Iteration& iteration = iterations_[slot];
  iteration.tokens.assign(tokens_.end() - static_cast<std::ptrdiff_t>(period), tokens_.end());
  const std::size_t begin = tokens_.size() - period;
  for (std::size_t i = 0; i < period; ++i) {
    if (begin + i + 1 < kGram) continue;
    const std::uint64_t gram = range_hash(begin + i + 1 - kGram, begin + i + 1);
    const auto [at, fresh] = iteration.gram_places.try_emplace(gram, static_cast<std::uint32_t>(i));
    if (!fresh) at->second = kAmbiguous;
  }
  follow(slot, period - 1);
}

// Of several iterations that contain the gram the one that was followed last.
bool Recogniser::resume(std::uint64_t gram) {
  std::optional<Spot> best;
  for (std::size_t i = 0; i < iterations_.size(); ++i) {
    const auto found = iterations_[i].gram_places.find(gram);
    if (found == iterations_[i].gram_places.end() || found->second == kAmbiguous) continue;
    if (!best || iterations_[best->iteration].followed < iterations_[i].followed) best = Spot{i, found->second};
  }
  if (!best) return false;
  follow(best->iteration, best->place);
  return true;
}

}  // namespace thermocline
