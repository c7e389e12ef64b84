// SPDX-License-Identifier: Apache-2.0
// A rewritten iteration: some buffers are dropped between two uses, without a copy, and recomputed before the second
// use. Contains the additional operations and the resulting profile; copies are planned for that profile as for any
// other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"

namespace thermocline {

class LastingContents;

// The contents of a buffer are not needed strictly between two of its uses, and can be recomputed for the second.
struct Drop {
  std::uint32_t buffer = 0;                  // of the lineage
  std::uint32_t last_use = 0, next_use = 0;  // places of the two uses
  VersionId version = kNoVersion;            // needed at `next_use`; none: that use only writes
  // Only for a lasting buffer: the next use is in the next iteration, and only writes.
  bool goes_round() const { return next_use <= last_use; }
  // The contents do not exist before the operation at `place`, unless they are recomputed for it or an earlier one.
  bool covers(std::uint32_t place) const {
    return goes_round() ? place > last_use || place <= next_use : last_use < place && place <= next_use;
  }
};

// Before the operation at `place` the dropped buffer is recomputed, whether or not that operation reads it.
struct Recomputation {
  std::uint32_t place = 0;
  std::uint32_t buffer = 0;  // of the lineage
  VersionId version = kNoVersion;
};

// kEachTime: addresses that lose their pages get new ones each time, and have to be mapped. kForGood: with static page
// assignment each address keeps its page.
enum class Mapping { kEachTime, kForGood };

struct Rewriting {
  Profile profile;  // with one additional place for each operation that runs again
  // By place of the program's operations: its place in `profile`, and how many recomputation places precede it.
  std::vector<std::uint32_t> place_of, runs_before;
  // By place of the program's operations: buffers of the original profile that are recomputed before it, all at once,
  // and those that are dropped after it.
  std::vector<std::vector<std::uint32_t>> recomputations, drops;
  // By buffer of `profile`: the buffer of the original profile that it is a part of; kNoBuffer: scratch.
  std::vector<std::uint32_t> names;
  std::vector<std::uint32_t> reruns;  // the program's operations that run again, in this order
  std::uint64_t recomputed_ns = 0;
  std::uint32_t recomputed_operations = 0;
  bool is_too_slow = false;  // more than RewritingTerms::most_recomputed_ns: the rest of the iteration was left out
};

// Parameters of a rewriting. `kept_for`: a recomputed version is kept if it is used again within this many operations;
// large numbers save reruns, small ones save memory. `recomputations`: further versions to recompute and keep, by
// place. `lasting`: of the same iteration; null: no drop goes round. `most_recomputed_ns`: rewritings that recompute for
// longer are of no use.
struct RewritingTerms {
  Mapping mapping = Mapping::kEachTime;
  std::uint32_t kept_for = 40;
  std::vector<Recomputation> recomputations{};
  const LastingContents* lasting = nullptr;
  double most_recomputed_ns = std::numeric_limits<double>::infinity();
};

// Which versions of an iteration exist or may be recomputed, at one place of it, while some buffers are dropped.
// Dropped: `dropped[buffer of the lineage]` says whether it is.
template <class Dropped>
class RecomputableAt {
 public:
  // `uses`: by buffer of the lineage, places in order; buffers that are used soon,
  // and those of `recomputations`, are recomputed in their own memory. Null: none is. `kept`: versions that may be read
  // after the program has freed their buffers (kept_inputs.h).
  RecomputableAt(const Lineage& lineage, const Dropped& dropped, std::uint32_t place,
                 const std::vector<std::vector<std::uint32_t>>* uses = nullptr, std::uint32_t kept_for = 0,
                 std::span<const Recomputation> recomputations = {}, std::span<const VersionId> kept = {})
      : lineage_(lineage),
        dropped_(dropped),
        place_(place),
        uses_(uses),
        kept_for_(kept_for),
        recomputations_(recomputations),
        kept_(kept) {}

  bool producer(VersionId version, std::uint64_t* operation) const {
    *operation = lineage_.versions[version].producer;
    return *operation != LineageVersion::kBefore && *operation < place_ &&
           lineage_.is_repeatable(static_cast<std::uint32_t>(*operation));
  }
  std::span<const VersionedOperand> operands(std::uint64_t operation) const {
    return lineage_.operands(static_cast<std::uint32_t>(operation));
  }
  bool is_available(VersionId version) const {
    if (dropped_[lineage_.versions[version].buffer]) return false;
    return lineage_.is_current_at(version, place_) || std::ranges::find(kept_, version) != kept_.end();
  }
  bool owns(VersionId version) const {
    const std::uint32_t buffer = lineage_.versions[version].buffer;
    if (uses_ == nullptr || !dropped_[buffer] || !lineage_.is_current_at(version, place_)) return false;
    if (std::ranges::find(recomputations_, buffer, &Recomputation::buffer) != recomputations_.end()) return true;
    const auto next = std::ranges::lower_bound((*uses_)[buffer], place_);
    return next != (*uses_)[buffer].end() && *next <= place_ + kept_for_;
  }

 private:
  const Lineage& lineage_;
  const Dropped& dropped_;
  const std::uint32_t place_;
  const std::vector<std::vector<std::uint32_t>>* const uses_;
  const std::uint32_t kept_for_;
  const std::span<const Recomputation> recomputations_;
  const std::span<const VersionId> kept_;
};

// False: something can not be recomputed; `failed` then has the drops without which more can, by index and in order.
bool rewrite(const Profile& profile, const Lineage& lineage, const std::vector<Drop>& drops,
             const RewritingTerms& terms, Rewriting* out, std::vector<std::size_t>* failed);

}  // namespace thermocline
