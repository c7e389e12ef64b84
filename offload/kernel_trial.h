// SPDX-License-Identifier: Apache-2.0
// The results of running a kernel a second time. The code that vouches for a kernel's launches (relauncher.h) keeps one
// for each kernel; engines report to it what digests showed. Thread-safe: several engines may launch one kernel.
//
//   on trial   its next launches are rehearsed: each runs once in advance, into scratch memory. No content that it made
//              is dropped
//   promoted   kEqualRehearsals launches equalled their rehearsals: what the kernel makes may be dropped without a copy
//   given up   kMostInVain rehearsals failed, for lack of memory, or the device computes no digests. No content that it
//              made is dropped. After each failure some of its launches are not rehearsed, more and more, up to
//              kLargestGap: memory that is short for a moment is not short at all of its launches
//   demoted    some launch differed from its rerun, before or after the kernel was promoted. For good
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

  // The name as the driver returns it.
  const std::string& name() const { return name_; }
  State state() const { return state_.load(std::memory_order_relaxed); }
  bool is_promoted() const { return state() == State::kPromoted; }
  bool is_demoted() const { return state() == State::kDemoted; }
  // It must not run again, unless contents already depend on it.
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
  // No digest of its results can be taken. True: that changed its state.
  bool give_up() { return ends_as(State::kGivenUp) && is_one_more_refused(); }
  // Dropped contents that it made again in use equalled the original.
  void was_equal() { verified_.fetch_add(1, std::memory_order_relaxed); }
  // They differed. True: the kernel had not been demoted before.
  bool differed() {
    mismatched_.fetch_add(1, std::memory_order_relaxed);
    return state_.exchange(State::kDemoted, std::memory_order_relaxed) != State::kDemoted && is_one_more_refused();
  }
  // The number of kernels of this process that were refused. A plan that counted on one of them is out of date.
  static std::uint64_t refusals() { return refusals_.load(std::memory_order_relaxed); }
  // It has run again in use.
  void ran_again() { reruns_.fetch_add(1, std::memory_order_relaxed); }

  // Numbers of its results: equal in rehearsals, equal in use, different; and how often it ran again.
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
  std::atomic<std::uint32_t> begun_{0}, equal_{0}, in_vain_{0};  // rehearsals; begun_ does not include in_vain_
  std::atomic<std::uint64_t> asked_{0}, again_at_{0};            // launches; from which on they are rehearsed again
  std::atomic<std::uint64_t> verified_{0}, mismatched_{0}, reruns_{0};
};

}  // namespace thermocline
