// SPDX-License-Identifier: Apache-2.0
// The dataflow of one iteration. Each content of a buffer is a *version*: an operation that writes the buffer ends one
// version and begins the next. A version can be recomputed if its producer, the operation that wrote it, may run again,
// and the versions that it read are available.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driver/units.h"
#include "offload/planning/profile.h"
#include "offload/recompute/recipe.h"

namespace thermocline {

// A buffer as the program allocated it, small or large. A buffer of a profile is a role that several of these may have.
struct LineageBuffer {
  static constexpr std::uint32_t kOutlives = ~std::uint32_t{0};
  std::uint32_t name = kNoBuffer;   // in the profile; kNoBuffer: it is not planned and always has room
  Bytes bytes = 0;                  // requested size
  std::uint32_t death = kOutlives;  // the last place before it is freed
  bool may_be_dropped = true;
  VersionId current = kNoVersion;
};

struct LineageVersion {
  static constexpr std::uint32_t kBefore = ~std::uint32_t{0};
  std::uint32_t buffer = 0;
  std::uint32_t producer = kBefore;  // place; kBefore: the iteration found it
  std::uint32_t last = kBefore;  // the last place at whose beginning its buffer still contains it, unless freed before
};

class Lineage {
 public:
  // A buffer that an operation accesses. Both flags: it is updated in place, or written in part.
  struct Access {
    std::uint32_t buffer = 0;
    bool reads = false, writes = false;
    bool in_place = false;  // VersionedOperand
  };

  std::vector<LineageBuffer> buffers;
  std::vector<LineageVersion> versions;
  // True: the plan is carried out by code that keeps inputs although the program frees them (kept_inputs.h).
  bool keeps_inputs = false;
  // True: the plan is carried out by code that can drop contents of buffers that live on from one iteration to the next
  // (lasting_contents.h).
  bool drops_lasting = false;

  // Adds the operation at the next place; each buffer once.
  void add(bool repeatable, std::span<const Access> accesses);

  std::size_t places() const { return repeatable_.size(); }
  bool is_repeatable(std::uint32_t place) const { return repeatable_[place]; }
  std::span<const VersionedOperand> operands(std::uint32_t place) const {
    return std::span(operands_).subspan(first_[place], first_[place + 1] - first_[place]);
  }
  // The buffers of the operands, in the same order.
  std::span<const std::uint32_t> operand_buffers(std::uint32_t place) const {
    return std::span(operand_buffers_).subspan(first_[place], first_[place + 1] - first_[place]);
  }
  const LineageBuffer& buffer_of(VersionId version) const { return buffers[versions[version].buffer]; }
  // Whether the buffer contains the version when the operation at `place` is about to run.
  bool is_current_at(VersionId version, std::uint32_t place) const;

 private:
  VersionId begin_version(std::uint32_t buffer, std::uint32_t producer);

  std::vector<bool> repeatable_;
  std::vector<std::uint32_t> first_{0};
  std::vector<VersionedOperand> operands_;
  std::vector<std::uint32_t> operand_buffers_;
};

}  // namespace thermocline
