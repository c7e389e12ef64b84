// SPDX-License-Identifier: Apache-2.0
#include "offload/policy/resident_set.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "offload/residency/unit_size.h"

namespace thermocline {
namespace {

// The set is for buffers that have come back at least this often, each time after half of the budget in other accesses.
// Activations of a training step come back that late only once.
constexpr std::uint32_t kLongGaps = 3;
// A buffer is established when this many budgets have been accessed since it came: it outlives what operations pass on
// to each other.
constexpr std::uint64_t kEstablishedBudgets = 2;
// The set is examined each time that a quarter of the budget has been accessed: often enough to follow changes, and
// seldom enough that sorting some thousand buffers costs nothing compared with the copies.
constexpr std::uint64_t kChoicesPerBudget = 4;
// Uses within this share of the budget count as one, by several operations.
constexpr std::uint64_t kOneUse = 16;
constexpr std::uint32_t kAlikeOfRegular = 1;
constexpr double kAlike = 0.25;  // the most that a gap may differ, as a fraction of the usual one
constexpr double kOverdue = 2;   // after this many usual gaps a regular buffer has stopped coming
constexpr double kPhase = 4;     // gaps of this many usual ones belong to another phase
constexpr double kTurnWeight = 1.0 / 64;
// A count of uses halves in this many turns: between 16 and 64 it makes no difference to experts.
constexpr double kHalfLifeTurns = 32;
constexpr double kHalfLifeBudgets = 16;  // while no turn is known
// The chance that a token asks for what the token before it asked for; anything from 0.15 to 0.5 works as well.
constexpr double kComesAtOnce = 0.75;
// A member gives way to a buffer that is used a quarter more often.
constexpr double kStaying = 1.25;
// A written buffer has to be copied out each time: it takes precedence over one that is only read as often.
constexpr double kWritten = 1.5;
// Room for buffers that pass through, beside the operands of one operation: enough fetches in flight for the link never
// to idle.
constexpr Bytes kPassing = 4 * kUnitBytes;
constexpr Bytes kLeastPassingShare = 32;
// With such fences a unit can be evicted when its last use has ended, not only when everything queued by then has.
constexpr std::uint32_t kLettingGoPerFence = 4;

}  // namespace

bool ResidentSet::History::is_regular() const { return alike >= kAlikeOfRegular; }

ResidentSet::History& ResidentSet::history_of(const Block& block) {
  if (histories_.size() <= block.index()) histories_.resize(block.index() + 1);
  History& history = histories_[block.index()];
  if (history.serial != block.serial()) history = {.serial = block.serial(), .born = now_, .last_use = now_};
  return history;
}

// Null: the block has been freed, or has another owner.
ResidentSet::History* ResidentSet::live_history_of(const Operand& operand) {
  if (operand.state->block == nullptr || operand.state->block->serial() != operand.serial) return nullptr;
  return &history_of(*operand.state->block);
}

bool ResidentSet::is_established(const History& history) const {
  return now_ - history.born > kEstablishedBudgets * heap_.limit();
}

double ResidentSet::uses_now(const History& history) const {
  const double half_life = turn_ > 0 ? kHalfLifeTurns * turn_ : kHalfLifeBudgets * static_cast<double>(heap_.limit());
  return history.uses * std::exp2(-static_cast<double>(now_ - history.last_use) / half_life);
}

void ResidentSet::use(const BlockState& state, std::uint64_t end) {
  History& history = history_of(*state.block);
  const std::uint64_t gap = now_ - history.last_use;
  history.is_written = !state.only_reads();
  const bool is_first = history.uses == 0;
  if (!is_first && gap < heap_.limit() / kOneUse) {
    history.last_use = end;
    return;
  }
  history.uses = uses_now(history) + 1;
  history.last_use = end;
  if (is_first) return;
  if (gap >= heap_.limit() / 2) ++history.long_gaps;
  const double seen = static_cast<double>(gap);
  if (std::abs(seen - history.gap) <= kAlike * history.gap) {
    ++history.alike;
  } else if (history.is_regular() && seen > kPhase * history.gap) {
    return;
  } else {
    history.alike = 0;
  }
  history.gap = seen;
  if (history.is_regular()) turn_ += (history.gap - turn_) * (turn_ == 0 ? 1 : kTurnWeight);
}

void ResidentSet::note(const Arrival& arrival) {
  operands_.clear();
  Bytes bytes = 0;
  for (const BlockState* const state : arrival.operands) bytes += state->block->bytes();
  for (BlockState* const state : arrival.operands) {
    if (state->block->is_slab()) continue;
    use(*state, now_ + bytes);
    const History& history = histories_[state->block->index()];
    // A buffer that usually comes back soon is not worth a copy.
    const bool comes_late = history.gap >= static_cast<double>(heap_.limit()) / 2;
    if (active_ && comes_late && !history.stays && is_established(history))
      operands_.push_back({state, history.serial});
  }
  now_ += bytes;
  newest_ = std::max(newest_, arrival.live_block_bytes - std::min(arrival.live_block_bytes, known_bytes_));
}

void ResidentSet::act(StreamIndex stream) {
  if (active_ && ++operations_since_fence_ >= kLettingGoPerFence) {
    operations_since_fence_ = 0;
    static_cast<void>(clock_.fence(stream));
  }
  Bytes passing = 0;
  for (const Operand& operand : operands_) {
    if (live_history_of(operand) == nullptr || joins(operand)) continue;
    passing += operand.state->block->bytes();
    let_go(*operand.state);
  }
  operands_.clear();
  largest_ = std::max(largest_, passing);
  if (now_ >= choose_at_) choose();
}

// Uses in a turn; while no turn is known, in a budget of accesses.
double ResidentSet::value_of(const History& history) const {
  const double turn = turn_ > 0 ? turn_ : static_cast<double>(heap_.limit());
  const double half_life = turn_ > 0 ? kHalfLifeTurns : kHalfLifeBudgets;
  const double since = static_cast<double>(now_ - history.last_use);
  double value = uses_now(history) * std::log(2.0) / half_life;
  if (history.is_regular()) {
    if (since < kOverdue * history.gap) value = turn / history.gap;
  } else if (since < turn) {
    value += kComesAtOnce;
  }
  if (history.stays) value *= kStaying;
  if (history.is_written) value *= kWritten;
  return value;
}

void ResidentSet::let_go(BlockState& state) {
  const auto stays = [](const EvictionUnit& unit) {
    return unit.mapped() && !(unit.evict_reason && is_chosen(*unit.evict_reason));
  };
  if (std::ranges::any_of(state.units(), stays))
    residency_.begin_evictions(state, state.units().size(), EvictReason::kPassing);
}

// The buffer takes the place of members that are used clearly less often, if these are enough.
bool ResidentSet::joins(const Operand& operand) {
  History& history = history_of(*operand.state->block);
  const Bytes bytes = operand.state->block->bytes();
  const double value = value_of(history);
  Bytes freed = room_;
  std::size_t first = leaves_next_.size();
  while (freed < bytes && first > 0) {
    const Operand& member = leaves_next_[first - 1].block;
    const History* const of_member = live_history_of(member);
    if (of_member != nullptr && of_member->stays) {
      if (value_of(*of_member) >= value) break;
      freed += member.state->block->bytes();
    }
    --first;
  }
  if (freed < bytes) return false;
  for (; leaves_next_.size() > first; leaves_next_.pop_back()) {
    const Operand& member = leaves_next_.back().block;
    History* const of_member = live_history_of(member);
    if (of_member == nullptr || !of_member->stays) continue;
    of_member->stays = false;
    let_go(*member.state);
  }
  room_ = freed - bytes;
  history.stays = true;
  return true;
}

void ResidentSet::choose() {
  const Bytes limit = heap_.limit();
  choose_at_ = now_ + std::max<Bytes>(limit / kChoicesPerBudget, 1);
  leaves_next_.clear();
  Bytes come_back = 0, others = 0;
  known_bytes_ = 0;
  heap_.for_each_block([&](Block& block) {
    known_bytes_ += block.bytes();
    History& history = history_of(block);
    BlockState& state = residency_.state_of(block);
    if (block.is_slab() || block.bytes() < min_offload_bytes_ || state.pins > 0 || !is_established(history)) {
      others += block.bytes();
      history.stays = false;
      return;
    }
    if (history.long_gaps >= kLongGaps) come_back += block.bytes();
    // A buffer that is not on the device joins when it is fetched.
    history.stays &= state.resident();
    if (state.resident()) leaves_next_.push_back({value_of(history), {&state, history.serial}});
  });
  const Bytes newest = std::max(newest_, newest_before_);
  newest_before_ = std::exchange(newest_, 0);
  active_ = come_back > limit / 2;
  const Bytes passing = largest_ + std::min(kPassing, limit / kLeastPassingShare);
  room_ = active_ ? limit - std::min(limit, others + newest + passing) : 0;
  std::ranges::stable_sort(leaves_next_, std::greater<>(), &Member::value);
  std::erase_if(leaves_next_, [&](const Member& one) {
    const Bytes bytes = one.block.state->block->bytes();
    History& history = history_of(*one.block.state->block);
    history.stays = bytes <= room_;
    if (history.stays) {
      room_ -= bytes;
    } else if (active_) {
      let_go(*one.block.state);
    }
    return !history.stays;
  });
}

}  // namespace thermocline
