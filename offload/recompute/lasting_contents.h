// SPDX-License-Identifier: Apache-2.0
// Contents of *lasting* buffers: those that a program allocates once and uses in every iteration. A content begins
// where an operation overwrites the buffer wholly, and is *dead* after its last read before the next such write. The
// program might read it after all. So a dead content may be dropped only if it can be recomputed until that write: from
// inputs that stay, and from small ones that are copied aside before the program overwrites them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/recipe.h"
#include "offload/recompute/rewriting.h"

namespace thermocline {

class LastingContents {
 public:
  LastingContents(const Profile& profile, const Lineage& lineage);

  bool is_lasting(std::uint32_t buffer) const { return is_lasting_[buffer]; }
  // Drops of dead contents: the next use overwrites them, in this iteration or in the next one. The content can be
  // recomputed all the while.
  const std::vector<Drop>& dead() const { return dead_; }
  // The version that the buffer of a dead content contains.
  VersionId content_of(const Drop& drop) const;

  // A small input of dead contents, kept from its overwriting until the last of these contents is overwritten.
  struct Aside {
    VersionId input = kNoVersion;
    std::uint32_t from = 0, until = 0;  // places; until < from: in the next iteration
  };
  // The inputs to copy aside for those of these drops that are of dead contents.
  std::vector<Aside> asides_of(const std::vector<Drop>& drops) const;

 private:
  class World;
  friend class World;
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};

  void find_lasting(const Profile& profile);
  void find_dead();
  // False: the content can not be recomputed until it is overwritten.
  bool find_inputs(const Drop& drop, std::vector<VersionId>* asides) const;
  std::uint32_t overwritten_at(VersionId version) const;
  bool stays(VersionId version, const Drop& drop) const;
  static std::uint64_t key_of(const Drop& drop) { return std::uint64_t{drop.buffer} << 32 | drop.last_use; }

  const Lineage& lineage_;
  std::vector<bool> is_lasting_;            // by buffer of the lineage
  std::vector<std::uint32_t> first_write_;  // the same; kNever: none
  std::vector<Drop> dead_;
  struct Dead {
    VersionId content = kNoVersion;
    std::vector<VersionId> asides;
  };
  std::unordered_map<std::uint64_t, Dead> by_key_;
};

}  // namespace thermocline
