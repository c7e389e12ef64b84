// SPDX-License-Identifier: Apache-2.0
// Recognises the iteration in the stream of operations: the smallest period after which the program does the same
// again, with the same buffers, and ends with as much memory as it began with. It compares tokens (what runs, on
// buffers of which sizes) and which buffer an operation uses, never addresses or times.
//
// Method: every run of kGram tokens is hashed; positions with the same hash are chained. A distance p to an earlier
// position is an iteration if the last p tokens equal the p before them (one comparison of prefix hashes), if the live
// bytes then and now are equal, if the memory within it reaches the highest level of the last kLevelWindow
// operations (or of four periods), and if buffers older than p are used where they were used p before. A loop inside an
// iteration (the blocks of a network, the parameters in an optimizer) fails one of the last three: equal layers with
// equal live bytes differ in their weights. What happened before training began does not count for ever. One operation
// in kOddReuses may break the last rule: a ring of input buffers comes round after many iterations; should such a round
// be an iteration after all, that is found when it has been followed twice. At most kCandidates comparisons an
// operation, each O(1), O(log kLevelWindow) where the tokens are equal and O(p) where nothing but buffers can differ;
// the first candidate is the last time that the same tokens ended with the same buffer. Where the program marks its
// steps, two equal steps are an iteration, and nothing else is asked.
//
// Once an iteration is known the period detector follows it by position. At the first token that does not match it
// reports so, and goes back to looking; a known iteration is taken up again when kGram tokens in a row match it
// somewhere; where they match it in several places (equal layers), the buffer that the last one uses decides. Which
// buffers lasting ones are is known by position as well: where the program skips a layer of equal ones, kAgreeing
// operations in a row that use the buffers of another position move the position there. Several are known at once
// (training and validation, buckets of lengths): the kIterations that were followed last. The way from one to another,
// once it has been gone, is known, too: the next time it is a match like any other.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/units.h"
#include "offload/planning/sliding_maximum.h"

namespace thermocline {

// Of the buffers that an operation uses and that were used before: the one whose last use was longest ago.
struct Reuse {
  std::uint64_t buffer = 0;    // its number, never given again; 0: none was used before
  std::uint32_t distance = 0;  // operations since its last use
  std::uint32_t age = 0;       // and since its first
};

class PeriodDetector {
 public:
  static constexpr std::size_t kGram = 16;
  static constexpr std::size_t kCandidates = 48;
  // Iterations longer than half of this many operations are not recognised; older operations are forgotten.
  static constexpr std::size_t kHistory = std::size_t{1} << 18;
  // More operations than an inner loop makes (an optimizer of a few thousand parameters), fewer than anybody would
  // wait.
  static constexpr std::size_t kLevelWindow = std::size_t{1} << 15;
  static constexpr std::size_t kIterations = 8;
  static constexpr std::size_t kOddReuses = 16;
  // Longer ones, in which only the buffers differ from turn to turn, are not worth another plan.
  static constexpr std::size_t kLongestOfTurns = std::size_t{1} << 14;
  static constexpr unsigned kAgreeing = 2;

  enum class Event : std::uint8_t {
    kNothing,   // still looking
    kMatch,     // the operation is the expected one; position() is its place in iteration()
    kFound,     // the operation completed the second of two equal iterations; position() is period() - 1
    kDiverged,  // another operation than expected
  };

  // `live_bytes`: what the program holds when it submits the operation.
  Event add(std::uint64_t token, Bytes live_bytes, Reuse reuse = {});
  // The program says that a step ends here. True: with that two equal ones are known, as after kFound.
  bool mark();

  // The iteration that is followed, or was last: below kIterations. A number is given again, with kFound, to another
  // one when too many are known.
  std::size_t iteration() const { return current_; }
  // Operations in it; 0 while none is known.
  std::size_t period() const { return iterations_.empty() ? 0 : iterations_[current_].tokens.size(); }
  // While following: the place of the last operation in the iteration, from 0.
  std::size_t position() const { return position_; }
  bool following() const { return following_; }
  // Of the iteration, by place.
  std::uint64_t token_at(std::size_t place) const { return iterations_[current_].tokens[place]; }
  // Operations seen so far; the last one has ordinal operations() - 1.
  std::uint64_t operations() const { return first_ + tokens_.size(); }

 private:
  // Hash of the tokens [begin, end), positions within the history.
  std::uint64_t range_hash(std::size_t begin, std::size_t end) const;
  bool repeats(std::size_t period) const;
  bool is_iteration(std::size_t period) const;
  bool uses_the_same(std::size_t period, std::size_t but_for) const;
  Bytes level(std::size_t period) const;
  Bytes highest_of_last(std::size_t count) const;
  std::optional<std::size_t> find_period() const;
  std::optional<std::size_t> find_longer() const;
  void remember(std::uint64_t token, Bytes live_bytes, Reuse reuse);
  void forget_half();
  Event take_up(std::size_t period);
  void adopt(std::size_t period);
  std::size_t free_slot();
  void follow(std::size_t iteration, std::size_t place);
  Event followed_to(std::size_t place);
  void align();
  bool resume(std::uint64_t gram);
  bool take_known_way(std::uint64_t token);
  void remember_way();

  std::uint64_t first_ = 0;  // ordinal of tokens_[0]
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> prefix_{0};  // prefix_[i]: hash of the first i tokens
  std::vector<std::uint64_t> power_{1};   // power_[i]: base^i
  std::vector<Bytes> live_;
  Bytes highest_ = 0;  // the largest of live_
  SlidingMaximum<Bytes> peaks_{kLevelWindow};
  std::vector<Reuse> reuses_;
  std::uint64_t marked_ = 0;                                 // operations() at the last mark
  std::vector<std::uint32_t> previous_;                      // position of the same gram before, + 1; 0: none
  std::unordered_map<std::uint64_t, std::uint32_t> newest_;  // gram -> position + 1
  // Gram and the buffer that its last operation reuses -> position + 1; of the last operation, the one before; 0: none.
  std::unordered_map<std::uint64_t, std::uint32_t> newest_reuse_;
  std::uint32_t previous_reuse_ = 0;

  using Places = std::unordered_map<std::uint64_t, std::uint32_t>;  // where it is the only one; else kAmbiguous
  struct Iteration {
    std::vector<std::uint64_t> tokens;
    std::vector<std::uint64_t> buffers;  // what the operation reuses, where that is the same in each turn; else 0
    Places gram_places;                  // gram -> place of its last token
    Places buffer_places;                // token and buffer -> place
    std::uint64_t followed = 0;          // operations() when it was taken up last
    void put(std::size_t place, std::uint64_t buffer);
    std::optional<std::size_t> only_place_of(std::uint64_t token, std::uint64_t buffer) const;
  };
  std::optional<std::size_t> place_by_buffer(const Iteration& iteration) const;
  bool ends_as(const Iteration& iteration, std::size_t place) const;
  // A place of an iteration.
  struct Spot {
    std::size_t iteration = 0, place = 0;
    // The linter takes the 0 that orders are compared with for a pointer.
    friend auto operator<=>(const Spot&, const Spot&) = default;  // NOLINT(modernize-use-nullptr)
  };
  // From where, to which token.
  struct Departure {
    Spot from;
    std::uint64_t token = 0;
    // The linter takes the 0 that orders are compared with for a pointer.
    friend auto operator<=>(const Departure&, const Departure&) = default;  // NOLINT(modernize-use-nullptr)
  };

  bool following_ = false;
  std::size_t current_ = 0;
  std::size_t position_ = 0;
  std::size_t shift_ = 0;  // from the position to where the buffers of the last operations belong
  unsigned shifted_ = 0;   // how many of them say so
  std::vector<Iteration> iterations_;
  std::map<Departure, Spot> ways_;  // few: where programs change from one iteration to another
  Departure departure_;             // the last one
  std::uint64_t departed_ = 0;      // operations() at it
};

}  // namespace thermocline
