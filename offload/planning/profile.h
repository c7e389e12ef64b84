// SPDX-License-Identifier: Apache-2.0
// The memory profile of one iteration: which buffers it uses where, and how long its operations take. Buffers are
// identified by their role in the iteration, never by address, so that the profile of one iteration describes the next
// one too.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/deque.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "driver/check.h"
#include "driver/page_size.h"
#include "driver/units.h"
#include "offload/planning/period_detector.h"

namespace thermocline {

inline constexpr std::uint32_t kNoBuffer = ~std::uint32_t{0};

// A buffer of the iteration. It lives from `birth` to `death`, which are both places (indices) of operations. It may
// live across the end of the iteration (death < birth: it is freed in the next one), or always.
struct ProfiledBuffer {
  Bytes bytes = 0;     // of its pages
  Bytes contents = 0;  // the bytes that a copy of it transfers
  bool always = false;
  std::uint32_t birth = 0, death = 0;
  bool is_result = false;             // the operation at `birth` allocates it, after operations that run again before
  std::vector<std::uint32_t> uses{};  // places, ascending, each once
  std::vector<bool> only_reads{};     // by use: whether the operation is known to only read
  std::uint64_t latest_serial = 0;    // of the block that had this role last
  // Its addresses lost their pages before, so they have to be mapped again.
  bool begins_remapped = false;
  // The program itself holds the contents until after this place: they may not be evicted before. kAlwaysHeld: never.
  std::uint32_t held_until = 0;
  // Estimated number of buffers among whose addresses its pages are distributed when it is freed.
  double successors = 0;

  static constexpr std::uint32_t kAlwaysHeld = ~std::uint32_t{0};

  // The operation at `place` uses it; `place` is no less than in the call before.
  void add_use(std::uint32_t place, bool only_reads_it);
  bool may_write_at(std::uint32_t place) const;
  // The fraction of its memory that crosses the link.
  double density() const { return static_cast<double>(contents) / static_cast<double>(bytes); }
};

struct Profile {
  std::vector<std::uint64_t> nanoseconds;  // by place
  std::vector<ProfiledBuffer> buffers;
  // Operands of the operation at place q: operand_buffers[first_operand[q] .. first_operand[q + 1]). kNoBuffer for a
  // block that is not planned (slabs: the buffers in them change from one iteration to the next).
  std::vector<std::uint32_t> first_operand, operand_buffers;
  Bytes page_bytes = kDefaultPageBytes;
  std::vector<Bytes> unplanned_bytes;    // by place: live blocks that are not among `buffers` and stay resident
  std::vector<Bytes> unplanned_results;  // by place: those of them that the operation itself allocates; empty: none

  std::size_t places() const { return nanoseconds.size(); }
  std::span<const std::uint32_t> operands(std::size_t place) const {
    return std::span(operand_buffers).subspan(first_operand[place], first_operand[place + 1] - first_operand[place]);
  }
};

// Stores what the last operations accessed, until a period is known and a profile can be computed.
class ProfileRecorder {
  struct Life;

 public:
  // The first buffers read from a kernel's parameters are ones that it uses; words that nobody sets come after them. So
  // this many of them are certain.
  static constexpr std::size_t kSureOperands = 2;

  ProfileRecorder() = default;
  ProfileRecorder(const ProfileRecorder&) = delete;
  ProfileRecorder(ProfileRecorder&&) = default;
  ProfileRecorder& operator=(const ProfileRecorder&) = delete;

  struct Operand {
    std::uint64_t serial;  // of the block; never reused
    Bytes bytes;           // of its pages
    Bytes contents;        // of these: the bytes that a copy of it transfers
    bool planned;          // may be planned: a buffer with pages of its own
    bool only_read = false;
  };

  // In program order, one call for each operation. `live_bytes`: bytes of all live blocks. Returns which buffer the
  // operation reuses; only its first `own` operands count: blocks with one buffer each.
  Reuse add(std::span<const Operand> operands, std::size_t own, std::uint64_t nanoseconds, Bytes live_bytes) {
    return add(operands.size(), own, nanoseconds, live_bytes, [operands](std::size_t i) { return operands[i]; });
  }
  // `operand_of`: by number.
  template <class OperandOf>
  Reuse add(std::size_t operands, std::size_t own, std::uint64_t nanoseconds, Bytes live_bytes, OperandOf operand_of) {
    begin_operation(operands, nanoseconds, live_bytes);
    Reuse reuse;
    for (std::size_t i = 0; i < operands; ++i) use(operand_of(i), i < own, &reuse);
    return reuse;
  }

  // The operands of an operation, stored for the next operation that uses the same.
  struct Usage {
    static constexpr std::size_t kMost = 8;
    struct One {
      Life* life;
      std::uint64_t serial;
    };
    std::uint64_t first_operand = 0;  // ordinal of the first stored operand
    std::uint32_t operands = 0;
    std::uint32_t own = 0;  // as of add(); these come first
    std::array<One, kMost> used{};
  };
  // Gets the usage of the operation that was added last. False: it used more operands than a Usage holds.
  bool usage_of_last(std::size_t own, Usage* out);
  // Whether add_again() may be called: after too many operations the stored operands are forgotten.
  bool is_stored(const Usage& usage) const {
    return usage.first_operand >= kept_from_ && end_ - first_ < PeriodDetector::kHistory;
  }
  // Adds an operation later than it was submitted; none of its operands has been freed meanwhile. Stores the operands
  // again if they have been forgotten.
  void add_late(Usage& usage, std::uint64_t nanoseconds, Bytes live_bytes) {
    if (end_ - first_ >= PeriodDetector::kHistory) [[unlikely]]
      forget();
    for (std::size_t i = 0; i < usage.operands; ++i)
      THERMOCLINE_CHECK(!usage.used.data()[i].life->dead, "what has been freed is not used later");
    if (usage.first_operand < kept_from_) [[unlikely]]
      store_again(usage);
    add_again(usage, nanoseconds, live_bytes);
  }
  // Skips that many submitted operations: the ones that are added next, at least kLateAtOnce, would push them out of
  // the history anyway.
  void skip(std::uint64_t operations) {
    first_ += operations;
    end_ += operations;
  }
  // The result of add() for an operation that uses the same operands.
  Reuse reuse_of(const Usage& usage) const {
    Reuse reuse;
    for (std::size_t i = 0; i < usage.own; ++i)
      note_reuse(usage.used.data()[i].serial, *usage.used.data()[i].life, end_, &reuse);
    return reuse;
  }
  // add() for an operation with the same operands, equal in all stored properties: they are stored only once.
  void add_again(const Usage& usage, std::uint64_t nanoseconds, Bytes live_bytes) {
    operations_.push_back({usage.first_operand, nanoseconds, in_use(live_bytes), usage.operands});
    for (std::size_t i = 0; i < usage.operands; ++i) {
      Life& life = *usage.used.data()[i].life;
      life.last_use = end_;
      life.dead = false;
    }
    ++end_;
  }
  // The block was handed out. Until its first use it needs no memory, because it has no contents that must survive.
  void allocated(std::uint64_t serial, Bytes bytes);
  // From now on the block needs its memory, used or not.
  void pinned(std::uint64_t serial) {
    if (unused_bytes_ > 0) take_unused(serial);
  }
  // The block was freed after the last operation that was added.
  void freed(std::uint64_t serial);

  // The profile of the last `period` operations; at least twice as many must have been added and still be stored.
  Profile make(std::size_t period) const;
  // Number of operations stored.
  std::size_t size() const { return operations_.size(); }

 private:
  struct Recorded {
    std::uint64_t first_operand;  // ordinal among all operands ever stored
    std::uint64_t nanoseconds;
    Bytes live_bytes;        // of blocks that had been used by then
    std::uint64_t operands;  // how many
  };
  struct Life {
    Bytes bytes = 0;
    bool planned = false;
    std::uint64_t first_use = 0, last_use = 0;  // ordinals of operations
    bool dead = false;
    std::uint64_t death = 0;  // ordinal of the last operation before it was freed, if it was
  };

  using Names = std::unordered_map<std::uint64_t, std::uint32_t>;  // by serial: buffer

  // Sets births and deaths of the named blocks, and the part of the live bytes that belongs to no named block.
  void set_lifetimes(std::uint64_t begin, const Names& names, Profile* profile) const;
  Bytes idle_bytes(std::uint64_t begin, const Names& names) const;
  std::span<const Operand> operands_of(std::uint64_t ordinal, std::vector<Operand>* scratch) const;
  void begin_operation(std::size_t operands, std::uint64_t nanoseconds, Bytes live_bytes) {
    if (end_ - first_ >= PeriodDetector::kHistory) [[unlikely]]
      forget();
    operations_.push_back({end_operand_, nanoseconds, in_use(live_bytes), operands});
    ++end_;
  }
  static void note_reuse(std::uint64_t serial, const Life& life, std::uint64_t ordinal, Reuse* reuse) {
    const std::uint32_t distance = bounded(ordinal - life.last_use);
    if (distance > reuse->distance) *reuse = {serial, distance, bounded(ordinal - life.first_use)};
  }
  // The operation that was begun last uses the operand.
  void use(const Operand& operand, bool counts, Reuse* reuse) {
    const std::uint64_t ordinal = end_ - 1;
    operands_.push_back(operand);
    ++end_operand_;
    Life& life = life_of(operand.serial);
    if (life.bytes == 0) {
      life = {operand.bytes, operand.planned, ordinal, ordinal, false, 0};
      if (unused_bytes_ > 0) operations_.back().live_bytes += take_unused(operand.serial);
    }
    if (counts) note_reuse(operand.serial, life, ordinal, reuse);
    life.last_use = ordinal;
    life.dead = false;  // a block whose last buffer is kept for others may have got new ones
  }
  // Live bytes without blocks that were handed out and have not been used.
  Bytes in_use(Bytes live_bytes) const { return live_bytes - std::min(live_bytes, unused_bytes_); }
  // Returns the block's bytes if it was handed out and has not been used: from now on it counts as used.
  Bytes take_unused(std::uint64_t serial);
  Life& life_of(std::uint64_t serial) {
    Recent& recent = recent_[serial % kRecent];
    if (recent.serial != serial) recent = {serial, &lives_[serial]};
    return *recent.life;
  }
  static std::uint32_t bounded(std::uint64_t operations) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(operations, ~std::uint32_t{0}));
  }
  void forget();
  void store_again(Usage& usage);

  // Every operation appends to both deques, so they grow in large pieces.
  using Pieces = boost::container::deque_options_t<boost::container::block_bytes<16384u>>;
  // Ordinals: of operations_[0] and the next operation, of operands_[0] and the next operand.
  std::uint64_t first_ = 0, end_ = 0;
  std::uint64_t first_operand_ = 0, end_operand_ = 0;
  // An operation refers to operands that were stored with it, or before it (add_again), but to none with an ordinal
  // below this. So when half of the operations (those up to the last call of forget) are forgotten, no operation refers
  // to the operands that were stored before the call before that.
  std::uint64_t kept_from_ = 0;
  boost::container::deque<Recorded, void, Pieces> operations_;
  boost::container::deque<Operand, void, Pieces> operands_;
  std::unordered_map<std::uint64_t, Life> lives_;
  // By serial: bytes of blocks that were handed out, and have been neither used nor freed since; then their sum.
  std::unordered_map<std::uint64_t, Bytes> unused_;
  Bytes unused_bytes_ = 0;
  // The entries looked up last, by serial modulo kRecent. Invariant: `life` is the entry of `serial` in lives_, whose
  // elements do not move until they are erased (forget). kNone: no entry.
  static constexpr std::size_t kRecent = 128;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Recent {
    std::uint64_t serial = kNone;
    Life* life = nullptr;
  };
  std::array<Recent, kRecent> recent_{};
};

}  // namespace thermocline
