// SPDX-License-Identifier: Apache-2.0
// What running a kernel again has shown of it. Whoever vouches for a kernel's launches (relauncher.h) keeps one of these
// for its code, and engines tell it what digests said. Thread-safe: several engines may launch the same code.
//
//   on trial   its next launches are rehearsed: each runs once before its time, into scratch memory. No content that it
//              made is dropped
//   promoted   kEqualRehearsals launches came out as their rehearsals did: what it makes may be dropped without a copy
//   given up   kMostInVain rehearsals came to nothing, for lack of memory, or the device computes no digests. Nothing that
//              it made is dropped. After each of them some of its launches are not rehearsed, more and more up to
//              kLargestGap: what is short for a moment is not short at all of its launches
//   demoted    some launch came out otherwise than when it ran again, before or after it was promoted. For good
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace thermocline {

class KernelTrial {
 public:
  static constexpr std::uint32_t kEqualRehearsals = 3, kMostInVain = 16, kLargestGap = 8;
  enum class State : std::uint8_t { kOnTrial, kPromoted, kGivenUp, kDemoted };
  enum class Outcome : std::uint8_t { kEqual, kDifferent, kInVain };

  explicit KernelTrial(std::string name) : name_(std::move(name)) {}

  // As the driver returns it.
  const std::string& name() const { return name_; }
  State state() const { return state_.load(std::memory_order_relaxed); }
  bool is_promoted() const { return state() == State::kPromoted; }
  bool is_demoted() const { return state() == State::kDemoted; }
  // Never to run again, as far as that is open to choice.
  bool is_refused() const { return state() == State::kGivenUp || is_demoted(); }

  // True: this launch is to be rehearsed; rehearsal_ended follows.
  bool begin_rehearsal() {
    if (state() != State::kOnTrial) return false;
    if (asked_.fetch_add(1, std::memory_order_relaxed) < again_at_.load(std::memory_order_relaxed)) return false;
    if (begun_.fetch_add(1, std::memory_order_relaxed) < kEqualRehearsals) return true;
    begun_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  // True: that changed its state.
  bool rehearsal_ended(Outcome outcome) {
    if (outcome == Outcome::kDifferent) return differed();
    if (outcome == Outcome::kEqual) {
      return equal_.fetch_add(1, std::memory_order_relaxed) + 1 == kEqualRehearsals && ends_as(State::kPromoted);
    }
    // Another launch takes its place.
    begun_.fetch_sub(1, std::memory_order_relaxed);
    const std::uint32_t vain = in_vain_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint32_t gap = vain > 3 ? kLargestGap : 1U << (vain - 1);
    again_at_.store(asked_.load(std::memory_order_relaxed) + gap, std::memory_order_relaxed);
    return vain == kMostInVain && give_up();
  }
  // No digest can be taken of what it makes. True: that changed its state.
  bool give_up() { return ends_as(State::kGivenUp) && is_one_more_refused(); }
  // What it made again in earnest was what had been dropped.
  void was_equal() { verified_.fetch_add(1, std::memory_order_relaxed); }
  // ... or was not. True: it had not been demoted yet.
  bool differed() {
    mismatched_.fetch_add(1, std::memory_order_relaxed);
    return state_.exchange(State::kDemoted, std::memory_order_relaxed) != State::kDemoted && is_one_more_refused();
  }
  // How often a kernel of this process has been refused: plans of any engine that counted on it are out of date.
  static std::uint64_t refusals() { return refusals_.load(std::memory_order_relaxed); }
  // It has run again in earnest.
  void ran_again() { reruns_.fetch_add(1, std::memory_order_relaxed); }

  // Of its results, those that came out equal: in rehearsals, and when it ran again in use.
  std::uint64_t rehearsed() const { return equal_.load(std::memory_order_relaxed); }
  std::uint64_t verified() const { return verified_.load(std::memory_order_relaxed); }
  std::uint64_t mismatched() const { return mismatched_.load(std::memory_order_relaxed); }
  std::uint64_t reruns() const { return reruns_.load(std::memory_order_relaxed); }

 private:
  bool ends_as(State end) {
    State on_trial = State::kOnTrial;
    return state_.compare_exchange_strong(on_trial, end, std::memory_order_relaxed);
  }

  static bool is_one_more_refused() {
    refusals_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  inline static std::atomic<std::uint64_t> refusals_{0};
  const std::string name_;
  std::atomic<State> state_{State::kOnTrial};
  std::atomic<std::uint32_t> begun_{0}, equal_{0}, in_vain_{0};  // rehearsals; those begun without those in vain
  std::atomic<std::uint64_t> asked_{0}, again_at_{0};            // launches; from which on they are rehearsed again
  std::atomic<std::uint64_t> verified_{0}, mismatched_{0}, reruns_{0};
};

}  // namespace thermocline
