// SPDX-License-Identifier: Apache-2.0
// Recomputes every cached number of a residency, and checks the invariants of block_state.h.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

void check_reasons(const ResidencyStatistics& counted, const MigrationStatistics& copied) {
  MovementCount out, in;
  for (const MovementCount& one : counted.by_reason.evictions) out += one;
  for (const MovementCount& one : counted.by_reason.fetches) in += one;
  THERMOCLINE_CHECK(out.units == counted.evictions && out.copied_bytes == copied.evicted_bytes,
                    "every eviction and every copy out has one reason");
  THERMOCLINE_CHECK(in.units == counted.restores && in.copied_bytes == copied.restored_bytes,
                    "every fetch has one reason");
}

// Returns how many pages it has.
std::uint64_t check_pages(const EvictionUnit& unit) {
  const auto pages = unit.whole->block->page_handles().subspan(unit.range.first, unit.range.count);
  const auto missing = static_cast<std::uint64_t>(std::ranges::count(pages, PageHandle{}));
  THERMOCLINE_CHECK(missing == 0 || !unit.mapped(), "what is not on the list of evicted units has all its pages");
  THERMOCLINE_CHECK(!unit.mapped_to_host || (unit.state == ResidencyState::kEvicted && unit.host != nullptr),
                    "what leads to its host copy is evicted and has one");
  return unit.range.count - missing;
}

void check_spare(const EvictionUnit& unit) {
  const bool is_new = unit.whole == nullptr && unit.state == ResidencyState::kUnmapped &&
                      unit.copy == HostCopy::kNone && unit.host == nullptr && unit.file == nullptr && !unit.defined &&
                      !unit.has_been_moved() && !unit.mapped_to_host && !unit.asleep && !unit.uploaded &&
                      !unit.is_input && unit.pins == 0 && unit.uses.empty() && unit.host_reads.empty() &&
                      unit.named == 0 && !unit.stays_on_host && !unit.used_there && unit.digest == 0 &&
                      !unit.may_write && !unit.overwritten && unit.evidence.copied.state == TakenDigest::State::kNone;
  THERMOCLINE_CHECK(is_new, "what is left of a block's units is as new");
}
void check_spare(const BlockState& state) {
  THERMOCLINE_CHECK(state.count == 0, "live blocks, and only they, have units");
  const bool is_new = state.tag == 0 && !state.dropped && state.pins == 0 && state.nonresident_units == 0 &&
                      state.hollow_units == 0 && state.wait_for.empty() && state.former.empty() &&
                      state.operation == 0 && state.held == 0 && state.listed == 0 && state.uncut == nullptr;
  THERMOCLINE_CHECK(is_new, "what is left of a block is as new");
  check_spare(state.one);
  for (std::size_t i = 0; i < state.most; ++i) check_spare(state.many[i]);
}

// Invariants 1, 2, 4, 5, 7 and 8 of block_state.h. `trusting`: a copy that has been submitted counts.
void check_copy(const BlockState& state, const EvictionUnit& unit, bool trusting) {
  THERMOCLINE_CHECK((unit.copy == HostCopy::kNone) == (unit.host == nullptr && unit.file == nullptr),
                    "a host copy has host memory, or is in the file");
  THERMOCLINE_CHECK(unit.copy != HostCopy::kStale || unit.mapped(), "a stale copy is of what is on the device");
  const bool saved = unit.copy == HostCopy::kCurrent || (trusting && unit.copy == HostCopy::kCopyingOut);
  THERMOCLINE_CHECK(!state.dropped || (!unit.defined && unit.copy == HostCopy::kNone && !unit.mapped()),
                    "a dropped block has no contents anywhere");
  THERMOCLINE_CHECK(!unit.hollow || unit.copy != HostCopy::kNone, "a hollow unit has its contents elsewhere");
  THERMOCLINE_CHECK(unit.mapped() || !unit.defined || saved, "defined contents are somewhere");
  THERMOCLINE_CHECK(unit.mapped() || (state.pins == 0 && unit.pins == 0), "what is pinned is on the device");
  THERMOCLINE_CHECK(!unit.mapped() || (unit.state == ResidencyState::kClean) == unit.has_copy(),
                    "the list clean holds the units with a host copy");
}

}  // namespace

void Residency::validate() const {
  Bytes resident = 0, partial = 0, clean = 0, prefetched = 0, asleep = 0;
  std::size_t placed = 0;
  std::vector<const EvictionUnit*> in_file;
  for (const BlockState& state : states_) {
    if (state.block == nullptr) {
      check_spare(state);
      continue;
    }
    std::uint64_t end = 0, evicted = 0, hollow = 0;
    const bool uncut_is_plain = state.count == 1 && state.one.state == ResidencyState::kDirty &&
                                !state.one.has_been_moved() && state.one.pins == 0 && state.one.named == 0;
    THERMOCLINE_CHECK(state.uncut == nullptr ? state.count == state.number_of_units()
                                             : state.uncut == &dirty_ && uncut_is_plain && state.number_of_units() > 1,
                      "a block has its units, or is uncut and one stands for them");
    for (const EvictionUnit& unit : state.parts()) {
      ++placed;
      THERMOCLINE_CHECK(unit.whole == &state && unit.state != ResidencyState::kUnmapped, "a unit belongs to its block");
      THERMOCLINE_CHECK(unit.range.first == end && unit.range.count > 0, "units follow one another without a gap");
      end += unit.range.count;
      const Bytes mapped = check_pages(unit) * heap_.page_bytes();
      partial += unit.mapped() ? 0 : mapped;
      if (unit.file != nullptr) in_file.push_back(&unit);
      check_copy(state, unit, trusting_);
      hollow += unit.hollow ? 1 : 0;
      evicted += unit.mapped() ? 0 : 1;
      if (unit.mapped()) resident += unit.bytes();
      if (unit.state == ResidencyState::kClean) clean += unit.bytes();
      if (unit.prefetched) prefetched += unit.bytes();
      if (unit.asleep) asleep += unit.bytes();
      THERMOCLINE_CHECK(!unit.asleep || (unit.defined && unit.state == ResidencyState::kEvicted),
                        "what is asleep is evicted, and has contents");
      THERMOCLINE_CHECK(!unit.evict_reason || unit.state == ResidencyState::kClean,
                        "what is to leave is on the device, and copied");
      THERMOCLINE_CHECK(unit.mapped() || !unit.prefetched, "what has been brought back is on the device");
      THERMOCLINE_CHECK(unit.prefetched || !unit.fetched_ahead, "what was fetched ahead has not been accessed");
    }
    THERMOCLINE_CHECK(end == state.block->pages(), "the units cover the block");
    THERMOCLINE_CHECK(evicted == state.nonresident_units && hollow == state.hollow_units, "evicted units are counted");
  }
  THERMOCLINE_CHECK(placed == dirty_.in_any_order().size() + clean_.size() + evicted_.size(),
                    "every unit is in one list");
  dirty_.validate();
  THERMOCLINE_CHECK(digests_.validate() == compared_.size(), "each comparison will be counted");
  THERMOCLINE_CHECK(resident == resident_bytes_, "resident bytes are the pages behind units on the device");
  THERMOCLINE_CHECK(resident + partial == heap_.mapped_bytes() - heap_.free_mapped_bytes(),
                    "all other pages of blocks are under evicted units (drop_partial)");
  THERMOCLINE_CHECK(prefetched == prefetched_bytes_, "what has been brought back and not been used is counted");
  THERMOCLINE_CHECK(asleep == asleep_bytes_, "what is asleep is counted");
  THERMOCLINE_CHECK(clean == clean_bytes_, "clean bytes are the pages behind units with a host copy");
  check_reasons(statistics_, migration_.statistics());
  THERMOCLINE_CHECK(migration_.files() != nullptr || in_file.empty(), "without a spill file nothing is in one");
  if (migration_.files() != nullptr) migration_.files()->validate(in_file);
}

}  // namespace thermocline
