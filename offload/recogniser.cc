// SPDX-License-Identifier: Apache-2.0
#include "offload/recogniser.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

// Polynomial hash modulo 2^61 - 1 (Carter, Wegman 1979, for the field; any odd base of that size serves).
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kBase = 0x0b4a1f3c96e58d27u;
constexpr std::uint32_t kAmbiguous = ~std::uint32_t{0};
// Live bytes within an iteration reach the level of both: equal up to what a few stray small buffers make.
constexpr Bytes kLevelSlack = kMiB;

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
    const std::size_t expected = position_ + 1 == period_ ? 0 : position_ + 1;
    if (iteration_[expected] == token) {
      position_ = expected;
      return Event::kMatch;
    }
    following_ = false;
    return Event::kDiverged;
  }
  if (tokens_.size() < kGram) return Event::kNothing;
  if (period_ > 0 && resume(range_hash(tokens_.size() - kGram, tokens_.size()))) return Event::kMatch;
  if (const std::optional<std::size_t> period = find_period()) {
    adopt(*period);
    return Event::kFound;
  }
  return Event::kNothing;
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

void Recogniser::adopt(std::size_t period) {
  period_ = period;
  position_ = period - 1;
  following_ = true;
  iteration_.assign(tokens_.end() - static_cast<std::ptrdiff_t>(period), tokens_.end());
  gram_places_.clear();
  const std::size_t begin = tokens_.size() - period;
  for (std::size_t i = 0; i < period; ++i) {
    if (begin + i + 1 < kGram) continue;
    const std::uint64_t gram = range_hash(begin + i + 1 - kGram, begin + i + 1);
    const auto [at, fresh] = gram_places_.try_emplace(gram, static_cast<std::uint32_t>(i));
    if (!fresh) at->second = kAmbiguous;
  }
}

bool Recogniser::resume(std::uint64_t gram) {
  const auto found = gram_places_.find(gram);
  if (found == gram_places_.end() || found->second == kAmbiguous) return false;
  position_ = found->second;
  following_ = true;
  return true;
}

}  // namespace thermocline
