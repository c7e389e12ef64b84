// SPDX-License-Identifier: Apache-2.0
// What one iteration computes from what. Each content of a buffer is a *version*: an operation that writes the buffer
// ends one version and begins the next. A version can be recomputed if the operation that made it, its producer, may
// run again and the versions that it read can be had.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driver/units.h"
#include "offload/planning/profile.h"
#include "offload/recompute/recipe.h"

namespace thermocline {

// A buffer as the program allocated it, small or large. The buffers of a profile are parts that several may play.
struct LineageBuffer {
  static constexpr std::uint32_t kOutlives = ~std::uint32_t{0};
  std::uint32_t name = kNoBuffer;   // in the profile; kNoBuffer: it always has room
  Bytes bytes = 0;                  // as the program asked for them
  std::uint32_t death = kOutlives;  // the last place before it is freed
  VersionId current = kNoVersion;
};

struct LineageVersion {
  static constexpr std::uint32_t kBefore = ~std::uint32_t{0};
  std::uint32_t buffer = 0;
  std::uint32_t producer = kBefore;  // place; kBefore: the iteration found it
  std::uint32_t last = kBefore;      // the last place at whose begin it stands in its buffer, but for its death
};

class Lineage {
 public:
  // A buffer that an operation accesses. Both: it is updated in place, or written in part.
  struct Access {
    std::uint32_t buffer = 0;
    bool reads = false, writes = false;
  };

  std::vector<LineageBuffer> buffers;
  std::vector<LineageVersion> versions;

  // The operation at the next place; each buffer once.
  void add(bool repeatable, std::span<const Access> accesses);

  std::size_t places() const { return repeatable_.size(); }
  bool is_repeatable(std::uint32_t place) const { return repeatable_[place]; }
  std::span<const VersionedOperand> operands(std::uint32_t place) const {
    return std::span(operands_).subspan(first_[place], first_[place + 1] - first_[place]);
  }
  // Of the operands, in the same order, the buffers.
  std::span<const std::uint32_t> operand_buffers(std::uint32_t place) const {
    return std::span(operand_buffers_).subspan(first_[place], first_[place + 1] - first_[place]);
  }
  const LineageBuffer& buffer_of(VersionId version) const { return buffers[versions[version].buffer]; }
  // Whether the version stands in its buffer when the operation at `place` is about to run.
  bool stands(VersionId version, std::uint32_t place) const;

 private:
  VersionId begin_version(std::uint32_t buffer, std::uint32_t producer);

  std::vector<bool> repeatable_;
  std::vector<std::uint32_t> first_{0};
  std::vector<VersionedOperand> operands_;
  std::vector<std::uint32_t> operand_buffers_;
};

}  // namespace thermocline
