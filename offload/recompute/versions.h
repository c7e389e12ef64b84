// SPDX-License-Identifier: Apache-2.0
// The versions of the buffers' contents while the program runs: which operation made each, of what, and which of them
// are dropped: their buffers live, and have no contents anywhere, but those can be recomputed.
//
// Invariants (validate() recomputes them):
//   1. Every version that is dropped can be recomputed from versions that stand, by operations that are remembered.
//   2. A buffer that such a recipe reads is known to be read by it: before the buffer is overwritten or freed, the
//   version is recomputed, or another recipe is found (the write barrier).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "driver/units.h"
#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/recipe.h"
#include "offload/relauncher.h"

namespace thermocline {

class Versions {
 public:
  // A buffer, by its number in order of allocation.
  using BufferNumber = std::uint64_t;

  struct Operand {
    BufferNumber buffer = 0;
    DeviceAddress address;
    Bytes bytes = 0;
    bool owns_pages = false;  // its block is its own
    OperandUse use;
  };

  // About so many operations are remembered: more while dropped contents are made of them.
  explicit Versions(std::uint64_t remembered = Relauncher::kRemembered) : remembered_(remembered) {}

  // An operation arrives; each buffer once. `may_run_again`: all of it is known. `is_all`: it accesses nothing else.
  void arrives(std::uint64_t id, bool may_run_again, std::uint64_t nanoseconds, std::span<const Operand> operands,
               bool is_all = true);
  // Of that one.
  std::span<const Operand> arriving() const { return records_.back().operands; }
  // It has been submitted.
  void submitted();
  // Anything may have been written to; nothing is dropped. No recipe reads what was there before.
  void forget_contents();
  // The buffer is gone; none of what is dropped is made of it.
  void freed(BufferNumber buffer);

  // The version that stands in the buffer, or is dropped; kNoVersion: nothing is known to have been written.
  VersionId current(BufferNumber buffer) const;
  bool is_dropped(BufferNumber buffer) const { return dropped_.contains(buffer); }
  bool any_dropped() const { return !dropped_.empty(); }
  std::vector<BufferNumber> dropped() const;
  // True: its contents can be recomputed, and are dropped from now on.
  bool drop(BufferNumber buffer);
  // The buffer has its contents, or others.
  void restored(BufferNumber buffer);
  // These are about to be overwritten or freed. What can be recomputed without them will be; the rest is listed.
  std::vector<BufferNumber> lost_without(std::span<const BufferNumber> going);
  // What makes the contents of the dropped `buffers`, all of them in their own memory; none: it can not be had.
  std::optional<Recipe> recipe_for(std::span<const BufferNumber> buffers) const;

  // Of an operation that a recipe names.
  std::uint64_t id_of(std::uint64_t operation) const { return record(operation).id; }
  std::uint64_t nanoseconds_of(std::uint64_t operation) const { return record(operation).nanoseconds; }
  std::span<const Operand> operands_of(std::uint64_t operation) const { return record(operation).operands; }
  // Dropped versions that are made of the oldest operations have to be recomputed before these are forgotten.
  std::vector<BufferNumber> too_old() const;

  // Of the last `period` operations, whose profile this is. None: not enough is known of them, or one of them may have
  // accessed anything.
  std::optional<Lineage> lineage_of(const Profile& profile) const;

  void validate() const;

 private:
  struct Record {
    std::uint64_t id = 0;
    bool may_run_again = false;
    bool is_all = true;  // its operands are
    std::uint64_t nanoseconds = 0;
    std::vector<Operand> operands;
    std::vector<VersionedOperand> versions;
  };
  struct Dropped {
    VersionId version = kNoVersion;
    std::uint64_t oldest = 0;  // operation of its recipe
    std::vector<BufferNumber> leaves;
  };
  class World;
  friend class World;

  const Record& record(std::uint64_t operation) const { return records_[operation - first_]; }
  bool settle(BufferNumber buffer, std::span<const BufferNumber> going);
  void unlink(BufferNumber buffer);
  void begin_version(BufferNumber buffer, VersionId version);
  void forget_old();
  std::optional<Recipe> recipe_without(std::span<const BufferNumber> buffers,
                                       std::span<const BufferNumber> going) const;

  const std::uint64_t remembered_;
  std::deque<Record> records_;
  std::uint64_t first_ = 0;  // operation of records_[0]
  std::uint64_t found_ = 0;  // versions of which nothing is known
  bool arriving_ = false;    // the last record has not been submitted
  std::unordered_map<BufferNumber, VersionId> current_;
  std::unordered_map<VersionId, BufferNumber> buffer_of_;   // the other way round
  std::unordered_map<BufferNumber, std::uint64_t> deaths_;  // the last operation before; of what the records name
  std::unordered_map<BufferNumber, Dropped> dropped_;
  std::unordered_map<BufferNumber, std::unordered_set<BufferNumber>>
      readers_;  // dropped ones, by what they are made of
};

}  // namespace thermocline
