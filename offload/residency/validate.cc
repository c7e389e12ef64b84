// SPDX-License-Identifier: Apache-2.0
// Every cached number of a residency, and what block_state.h says, recomputed from first principles.
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

}  // namespace

void Residency::validate() const {
  Bytes resident = 0, clean = 0, prefetched = 0, asleep = 0;
  std::size_t placed = 0;
  std::vector<const EvictionUnit*> in_file;
  for (const BlockState& state : states_) {
    if (state.block == nullptr) {
      THERMOCLINE_CHECK(state.count == 0, "live blocks, and only they, have parts");
      continue;
    }
    const std::span<const PageHandle> handles = state.block->page_handles();
    std::uint64_t end = 0, absent = 0, hollow = 0;
    for (const EvictionUnit& part : state.parts()) {
      ++placed;
      THERMOCLINE_CHECK(part.whole == &state && part.state != ResidencyState::kUnmapped, "a part belongs to its block");
      THERMOCLINE_CHECK(part.range.first == end && part.range.count > 0, "parts follow one another without a gap");
      end += part.range.count;
      const auto pages = handles.subspan(part.range.first, part.range.count);
      const bool mapped = std::find(pages.begin(), pages.end(), PageHandle{}) == pages.end();
      THERMOCLINE_CHECK(mapped || !part.mapped(), "what is not on the list of evicted units has all its pages");
      THERMOCLINE_CHECK(!part.covered || (part.state == ResidencyState::kEvicted && part.host != nullptr),
                        "what leads to its host copy is evicted and has one");
      THERMOCLINE_CHECK((part.copy == HostCopy::kNone) == (part.host == nullptr && part.file == nullptr),
                        "a host copy has host memory, or is in the file");
      if (part.file != nullptr) in_file.push_back(&part);
      THERMOCLINE_CHECK(part.copy != HostCopy::kStale || part.mapped(), "a stale copy is of what is on the device");
      const bool saved = part.copy == HostCopy::kCurrent || (trusting_ && part.copy == HostCopy::kLeaving);
      THERMOCLINE_CHECK(!state.dropped || (!part.defined && part.copy == HostCopy::kNone && !part.mapped()),
                        "a dropped block has no contents anywhere");
      THERMOCLINE_CHECK(!part.hollow || part.copy != HostCopy::kNone, "a hollow part has its contents elsewhere");
      hollow += part.hollow ? 1 : 0;
      THERMOCLINE_CHECK(part.mapped() || !part.defined || saved, "defined contents are somewhere");
      THERMOCLINE_CHECK(part.mapped() || (state.pins == 0 && part.pins == 0), "what is pinned is on the device");
      absent += part.mapped() ? 0 : 1;
      if (part.mapped()) {
        THERMOCLINE_CHECK((part.state == ResidencyState::kClean) == part.has_copy(),
                          "the list clean holds the parts with a host copy");
        resident += part.bytes();
      }
      if (part.state == ResidencyState::kClean) clean += part.bytes();
      if (part.prefetched) prefetched += part.bytes();
      if (part.asleep) asleep += part.bytes();
      THERMOCLINE_CHECK(!part.asleep || (part.defined && part.state == ResidencyState::kEvicted),
                        "what is asleep is evicted, and has contents");
      THERMOCLINE_CHECK(!part.leaves_for || part.state == ResidencyState::kClean,
                        "what is to leave is on the device, and copied");
      THERMOCLINE_CHECK(part.mapped() || !part.prefetched, "what has been brought back is on the device");
      THERMOCLINE_CHECK(part.prefetched || !part.fetched_ahead, "what was fetched ahead has not been accessed");
    }
    THERMOCLINE_CHECK(end == state.block->pages(), "the parts cover the block");
    THERMOCLINE_CHECK(absent == state.nonresident_units && hollow == state.hollow_parts, "absent parts are counted");
  }
  THERMOCLINE_CHECK(placed == dirty_.size() + clean_.size() + evicted_.size(), "every part is in one list");
  THERMOCLINE_CHECK(digests_.validate() == compared_.size(), "each comparison will be counted");
  THERMOCLINE_CHECK(resident == resident_bytes_, "resident bytes are the pages behind parts on the device");
  THERMOCLINE_CHECK(prefetched == prefetched_bytes_, "what has been brought back and not been used is counted");
  THERMOCLINE_CHECK(asleep == asleep_bytes_, "what is asleep is counted");
  THERMOCLINE_CHECK(clean == clean_bytes_, "clean bytes are the pages behind parts with a host copy");
  check_reasons(statistics_, migration_.statistics());
  THERMOCLINE_CHECK(migration_.files() != nullptr || in_file.empty(), "without a spill file nothing is in one");
  if (migration_.files() != nullptr) migration_.files()->validate(in_file);
}

}  // namespace thermocline
