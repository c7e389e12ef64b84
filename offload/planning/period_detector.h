// SPDX-License-Identifier: Apache-2.0
// Period detection in the stream of operations: finds the smallest period after which the program repeats itself, with
// the same buffers, and with as much live memory at the end as at the beginning. It compares tokens (what runs, on
// buffers of which sizes) and which buffer an operation uses, never addresses or times.
//
// Detection. Every run of kGram tokens is hashed, and positions with the same hash are chained. A distance p to an
// earlier position is a period if all of these hold:
//   1. the last p tokens equal the p tokens before them (one comparison of prefix hashes);
//   2. the live bytes at both positions are equal;
//   3. the live bytes within the period reach the highest level of the last kLevelWindow operations (or of four
//      periods; so that memory from before training does not count forever);
//   4. buffers older than p are used where they were used p operations before. One operation in kOddReuses may violate
//      this: a ring of input buffers repeats only after many iterations. If the longer cycle is the real iteration, it
//      is found when it has been followed twice.
// A loop inside an iteration (the blocks of a network, the parameters in an optimizer) violates one of the last three:
// equal layers with equal live bytes differ in their weights. Cost: at most kCandidates comparisons for each operation,
// each O(1), O(log kLevelWindow) if the tokens are equal, and O(p) if only buffers can differ. The first candidate is
// the last time that the same tokens ended with the same buffer. If the program marks its steps, two equal steps are an
// iteration, without these conditions.
//
// Unsteady kinds (unsteady_kinds.h). Some kernels get structures in which not every word is set, so the buffers that
// they seem to use differ from turn to turn. For such an operation only the kind counts. While an iteration is
// followed, one operation of the expected kind with other operands is taken for the expected one, if the kSteady
// operations before it were exactly as expected; its kind becomes unsteady if the kGram operations after it are, too.
//
// Following. A known iteration is followed by position. The first token that does not match is reported, and detection
// starts again. A known iteration is resumed when kGram tokens in a row match it somewhere; if they match in several
// places (equal layers), the buffer that the last operation uses decides. Long-lived buffers are also known by
// position: if the program skips one of several equal layers, kAgreeing operations in a row that use the buffers of
// another position move the position there. Several iterations are known at once (training and validation, buckets of
// lengths): the kIterations that were followed last. A transition from one to another is remembered too, and is a match
// the next time.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/units.h"
#include "offload/planning/sliding_maximum.h"
#include "offload/planning/unsteady_kinds.h"

namespace thermocline {

// Among the buffers that an operation uses and that were used before: the one whose last use is longest ago.
struct Reuse {
  std::uint64_t buffer = 0;    // its number, which is never reused; 0: none was used before
  std::uint32_t distance = 0;  // operations since its last use
  std::uint32_t age = 0;       // operations since its first use
};

class PeriodDetector {
 public:
  static constexpr std::size_t kGram = 16;
  static constexpr std::size_t kCandidates = 48;
  // Iterations longer than half of this many operations are not detected; older operations are forgotten.
  static constexpr std::size_t kHistory = std::size_t{1} << 18;
  // More operations than an inner loop has (an optimizer of a few thousand parameters), but few enough to wait for.
  static constexpr std::size_t kLevelWindow = std::size_t{1} << 15;
  static constexpr std::size_t kIterations = 8;
  static constexpr std::size_t kOddReuses = 16;
  // Longer iterations that differ from a known one only in their buffers are not worth another plan.
  static constexpr std::size_t kLongestOfTurns = std::size_t{1} << 14;
  static constexpr unsigned kAgreeing = 2;
  static constexpr std::size_t kSteady = 64;

  enum class Event : std::uint8_t {
    kNothing,   // still looking
    kMatch,     // the operation is the expected one; position() is its index in iteration()
    kFound,     // the operation completed the second of two equal iterations; position() is period() - 1
    kDiverged,  // not the expected operation
  };

  // `live_bytes`: the bytes that the program has allocated when it submits the operation. `kind`: the part of the token
  // that does not depend on the operands; 0: the whole token always counts.
  Event add(std::uint64_t token, Bytes live_bytes, Reuse reuse = {}, std::uint64_t kind = 0);
  // Fast path of add() while following, for an operation that has the token and kind of the expected one, at `place`,
  // if nothing else has to be examined. False: nothing has changed, and add() has to be called.
  bool add_expected(std::size_t place, std::uint64_t token, Bytes live_bytes, const Reuse& reuse, std::uint64_t kind) {
    const std::uint64_t usual = iterations_.data()[current_].buffers.data()[place];
    if (usual != reuse.buffer || suspected_ != 0 || followed_.size() >= kHistory) return false;
    by_kind_ = false;
    ++steady_;
    followed_.push_back({token, live_bytes, reuse, kind});
    position_ = place;
    if (usual != 0) shifted_ = 0;
    return true;
  }
  // add_expected() in two steps, if it is known to return true: pass_expected() sets what is expected next;
  // add_passed(), some operations later and in their order, stores them. Nothing else may be called in between.
  void pass_expected(std::size_t place) { position_ = place; }
  void add_passed(std::uint64_t token, Bytes live_bytes, const Reuse& reuse, std::uint64_t kind);
  // Skips that many operations that have passed: the ones that are added next, at least kLateAtOnce, would push them
  // out of the history anyway.
  void skip_passed(std::uint64_t operations) {
    first_ += operations;
    steady_ += operations;
  }
  // A caller that adds operations late may skip all but the last ones, in steps of kForgottenAtOnce: the history that
  // remains is within the last kHistory operations, and each of these has been added after a whole iteration.
  static constexpr std::size_t kForgottenAtOnce = kHistory / 2;
  static constexpr std::size_t kLateAtOnce = kHistory + kForgottenAtOnce;
  // From now on an iteration that is found begins where the fewest bytes are live, up to one turn later than it could
  // be known. Contents that are made in one turn and used in the next cannot be recomputed, and these might otherwise
  // be the largest activations.
  // `contents`: for each of the last `period` operations, the bytes of contents that exist before it and are read by it
  // or later. If these vary more than the live bytes, they decide, as in programs that allocate once.
  using ContentBytes = std::function<std::vector<Bytes>(std::size_t period)>;
  void begin_at_the_lowest(ContentBytes contents = {}) {
    begins_at_the_lowest_ = true;
    contents_ = std::move(contents);
  }
  // The program has marked the end of a step. True: two equal steps are now known, as after kFound.
  bool mark();

  // The number of the iteration that is followed, or was followed last; below kIterations. When too many are known, a
  // number is reused for a new one, with kFound.
  std::size_t iteration() const { return current_; }
  // Number of operations in that iteration; 0 while none is known.
  std::size_t period() const { return iterations_.empty() ? 0 : iterations_[current_].tokens.size(); }
  // While following: index of the last operation in the iteration.
  std::size_t position() const { return position_; }
  bool following() const { return following_; }
  // Index of the operation that is expected next.
  std::size_t next_position() const {
    return position_ + 1 == iterations_.data()[current_].tokens.size() ? 0 : position_ + 1;
  }
  // The last operation was matched by its kind alone: it may use other buffers than the expected one.
  bool matched_by_kind() const { return by_kind_; }
  // Whether this kind is unsteady: then only the kind of such an operation counts.
  bool is_unsteady(std::uint64_t kind) const { return unsteady_.contains(kind); }
  std::size_t unsteady_kinds() const { return unsteady_.size(); }
  // The token at an index of the iteration.
  std::uint64_t token_at(std::size_t place) const { return iterations_[current_].tokens[place]; }
  // Number of operations so far; the last one has ordinal operations() - 1.
  std::uint64_t operations() const { return first_ + tokens_.size() + followed_.size(); }

 private:
  // Hash of the tokens [begin, end), positions within the history.
  std::uint64_t range_hash(std::size_t begin, std::size_t end) const;
  bool repeats(std::size_t period) const;
  std::size_t lowest_of(std::size_t period) const;
  bool is_iteration(std::size_t period) const;
  bool uses_the_same(std::size_t period, std::size_t but_for) const;
  Bytes level(std::size_t period) const;
  Bytes highest_of_last(std::size_t count) const;
  std::optional<std::size_t> find_period() const;
  std::optional<std::size_t> find_longer() const;
  struct Operation {
    std::uint64_t token = 0;
    Bytes live_bytes = 0;
    Reuse reuse;
    std::uint64_t kind = 0;
  };
  void remember(const Operation& operation);
  void remember_later(const Operation& operation);
  void forget_all_but_followed();
  void catch_up();
  void take_for_expected(std::size_t place, std::uint64_t kind);
  Event diverge(std::uint64_t token);
  Event look_for_iteration();
  std::optional<std::size_t> period_that_begins();
  void forget_half();
  void remember_anew(std::size_t from);
  Event take_up(std::size_t period);
  void adopt(std::size_t period);
  std::size_t free_slot();
  void follow(std::size_t iteration, std::size_t place);
  Event followed_to(std::size_t place, const Reuse& reuse);
  Event followed_with_another(std::uint64_t usual, const Reuse& reuse);
  void align();
  void keep_if_used_again();
  bool resume(std::uint64_t gram);
  bool follow_known_transition(std::uint64_t token);
  void remember_transition();

  // Operations that were followed and are not in the history yet. While a program repeats itself nobody reads the
  // history, and hashing each operation was a third of the cost of learning per launch. When the program departs, all
  // are hashed at once: 10 to 30 ms for a full history. Invariant: empty unless following_.
  std::vector<Operation> followed_;
  std::uint64_t first_ = 0;  // ordinal of tokens_[0]
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> prefix_{0};  // prefix_[i]: hash of the first i tokens
  std::vector<std::uint64_t> power_{1};   // power_[i]: base^i
  std::vector<Bytes> live_;
  Bytes highest_ = 0;  // the largest of live_
  SlidingMaximum<Bytes> peaks_{kLevelWindow};
  std::vector<Reuse> reuses_;
  std::vector<std::uint64_t> kinds_;
  UnsteadyKinds unsteady_;
  bool by_kind_ = false;
  std::size_t steady_ = 0;               // operations in a row that were exactly as expected
  std::uint64_t suspected_ = 0;          // the kind of the operation before them, which was not as expected
  std::uint64_t marked_ = 0;             // operations() at the last mark
  std::vector<std::uint32_t> previous_;  // position of the previous occurrence of the same gram, + 1; 0: none
  std::unordered_map<std::uint64_t, std::uint32_t> newest_;  // by gram: position + 1
  // By gram and the buffer that its last operation reuses: position + 1. previous_reuse_: for the last operation, the
  // occurrence before it; 0: none.
  std::unordered_map<std::uint64_t, std::uint32_t> newest_reuse_;
  std::uint32_t previous_reuse_ = 0;

  using Places = std::unordered_map<std::uint64_t, std::uint32_t>;  // index in the iteration; kAmbiguous if not unique
  struct Iteration {
    std::vector<std::uint64_t> tokens, kinds;
    std::vector<std::uint64_t> buffers;  // the buffer that the operation reuses, if the same in each turn; else 0
    Places gram_places;                  // by gram: index of its last token
    Places buffer_places;                // by token and buffer
    std::uint64_t followed = 0;          // operations() when it was last resumed
    void put(std::size_t place, std::uint64_t buffer);
    bool has_place_of(std::uint64_t token, std::uint64_t buffer) const;
    std::optional<std::size_t> only_place_of(std::uint64_t token, std::uint64_t buffer) const;
  };
  std::optional<std::size_t> place_by_buffer(const Iteration& iteration) const;
  bool ends_as(const Iteration& iteration, std::size_t place) const;
  // An operation index in one of the iterations.
  struct IterationPlace {
    std::size_t iteration = 0, place = 0;
    // The linter takes the 0 that orders are compared with for a pointer.
    friend auto operator<=>(const IterationPlace&, const IterationPlace&) = default;  // NOLINT(modernize-use-nullptr)
  };
  // Where an iteration was left, and the token that came instead of the expected one.
  struct Departure {
    IterationPlace from;
    std::uint64_t token = 0;
    // The linter takes the 0 that orders are compared with for a pointer.
    friend auto operator<=>(const Departure&, const Departure&) = default;  // NOLINT(modernize-use-nullptr)
  };

  bool begins_at_the_lowest_ = false;
  ContentBytes contents_;
  std::size_t awaited_ = 0;         // the period that has been found and has not begun yet
  std::uint64_t begins_after_ = 0;  // it begins after that many operations
  bool following_ = false;
  std::size_t current_ = 0;
  std::size_t position_ = 0;
  std::size_t shift_ = 0;  // distance from the position to where the buffers of the last operations belong
  unsigned shifted_ = 0;   // how many operations in a row indicate that
  std::vector<Iteration> iterations_;
  std::map<Departure, IterationPlace> transitions_;  // transitions between iterations; few
  Departure departure_;                              // the latest
  std::uint64_t departed_ = 0;                       // operations() at that time
};

}  // namespace thermocline
