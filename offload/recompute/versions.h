// SPDX-License-Identifier: Apache-2.0
// The versions of the buffers' contents at run time: which operation made each, from which inputs, and which are
// dropped. A dropped buffer is alive but has no contents anywhere; they can be recomputed.
//
// Invariants (checked by validate()):
//   1. Every version that is dropped can be recomputed from versions that exist, by operations that are remembered.
//   2. For each buffer that such a recipe reads, the reader is known. Before the buffer is overwritten or freed, the
//      dropped version is recomputed, another recipe is found, or the contents are copied aside (the write barrier).
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
    bool owns_pages = false;  // it has a block to itself
    OperandUse use;
  };

  // About this many operations are remembered; more while dropped contents depend on them.
  // `by_proof`, for tests: results of kernels on trial may be dropped, too.
  explicit Versions(std::uint64_t remembered = Relauncher::kRemembered, bool by_proof = false)
      : remembered_(remembered), by_proof_(by_proof) {}

  // An operation is about to be submitted; each buffer once. `may_run_again`: everything about it is known. `is_all`:
  // it accesses nothing else. `trial`: the trial of its kernel; null: its results may be dropped without one.
  void arrives(std::uint64_t id, bool may_run_again, std::uint64_t nanoseconds, std::span<const Operand> operands,
               bool is_all = true, KernelTrial* trial = nullptr);
  // The operands of that operation.
  std::span<const Operand> arriving() const { return records_.back().operands; }
  // The operation has been submitted.
  void submitted();
  // The operation that arrived last has not been submitted yet.
  bool is_arriving() const { return arriving_; }
  // The operation that is arriving may run again.
  bool arriving_may_run_again() const { return arriving_ && records_.back().may_run_again; }
  // The arriving operation was given up: it counts as not submitted, and writes nothing.
  void never_submitted() { arriving_ = false; }
  // Anything may have been written, and nothing is dropped. Recipes do not use earlier contents any more.
  void forget_contents();
  // Unseen work may have written to the buffer, which is not dropped.
  void changed_unseen(BufferNumber buffer);
  // The buffer was freed; no dropped version depends on it.
  void freed(BufferNumber buffer);

  // The version that the buffer contains, or that was dropped from it; kNoVersion: no known write.
  VersionId current(BufferNumber buffer) const;
  bool is_dropped(BufferNumber buffer) const { return dropped_.contains(buffer); }
  bool any_dropped() const { return !dropped_.empty(); }
  std::vector<BufferNumber> dropped() const;
  // Drops the contents of the buffer if they can be recomputed; true if so.
  bool drop(BufferNumber buffer);
  // The buffer has its contents again, or new ones.
  void restored(BufferNumber buffer);
  // These buffers are about to be overwritten or freed. Dropped versions that depend on them get other recipes if
  // possible; returns the buffers of those that get none.
  std::vector<BufferNumber> lost_without(std::span<const BufferNumber> going);
  // Whether a buffer that the program frees is kept, because something much larger is dropped that is computed from it
  // (kept_inputs.h).
  bool is_kept(BufferNumber buffer, Bytes bytes);
  // Whether a buffer that the program overwrites is small compared with all dropped contents computed from it, so that
  // it is worth a copy (lasting_contents.h).
  bool is_worth_a_copy(BufferNumber buffer, Bytes bytes) const;
  // The contents of the buffer have been copied to another buffer, `copy`, which the program does not know. Recipes
  // that read the buffer now read the copy.
  void copied_aside(BufferNumber buffer, BufferNumber copy, DeviceAddress at);
  bool is_copied_aside(BufferNumber copy) const { return asides_.contains(copy); }
  // Whether dropped contents are computed from the buffer.
  bool is_read(BufferNumber buffer) const { return readers_.contains(buffer); }
  // The recipe for the contents of the dropped `buffers`, all of them in their own memory; nothing: impossible.
  std::optional<Recipe> recipe_for(std::span<const BufferNumber> buffers) const;

  // The id of an operation that a recipe names.
  std::uint64_t id_of(std::uint64_t operation) const { return record(operation).id; }
  std::uint64_t nanoseconds_of(std::uint64_t operation) const { return record(operation).nanoseconds; }
  std::span<const Operand> operands_of(std::uint64_t operation) const { return record(operation).operands; }
  // The trial of the operation's kernel; may be null.
  KernelTrial* trial_of(std::uint64_t operation) const { return record(operation).trial; }
  // The trials of the kernels that make the dropped contents, each once; first the kernel whose result they are.
  const std::vector<KernelTrial*>& trials_of_dropped(BufferNumber buffer) const { return dropped_.at(buffer).trials; }
  // The address of the operation's i-th operand, which a recipe reads where it is.
  DeviceAddress address_of(std::uint64_t operation, std::size_t i) const;
  // Dropped versions that depend on the oldest operations and must be recomputed before these are forgotten.
  std::vector<BufferNumber> too_old() const;

  // For each of the last `period` operations, which repeat: the bytes of contents that exist before it, and are read by
  // it or later. Empty: fewer operations are remembered.
  std::vector<Bytes> content_bytes(std::size_t period) const;
  // The lineage of the last `period` operations, whose profile is given. Empty: too little is known about them, or one
  // of them may have accessed anything.
  std::optional<Lineage> lineage_of(const Profile& profile) const;
  // Whether the last `period` operations access only memory that is known.
  bool are_all_known(std::size_t period) const;

  void validate() const;

 private:
  struct Record {
    std::uint64_t id = 0;
    bool may_run_again = false;
    bool is_all = true;  // it accesses nothing but its operands
    std::uint64_t nanoseconds = 0;
    KernelTrial* trial = nullptr;
    std::vector<Operand> operands;
    std::vector<VersionedOperand> versions;
  };
  struct Dropped {
    VersionId version = kNoVersion;
    std::uint64_t oldest = 0;  // the oldest operation of its recipe
    std::vector<BufferNumber> inputs;
    std::vector<KernelTrial*> trials;
  };
  class World;
  friend class World;

  const Record& record(std::uint64_t operation) const { return records_[operation - first_]; }
  Bytes bytes_of(VersionId version) const;
  bool find_another_recipe(BufferNumber buffer, std::span<const BufferNumber> going);
  void unlink(BufferNumber buffer);
  void begin_version(BufferNumber buffer, VersionId version);
  void forget_old();
  std::optional<Recipe> recipe_without(std::span<const BufferNumber> buffers,
                                       std::span<const BufferNumber> going) const;

  bool may_rely_on(const Recipe& recipe) const;
  std::vector<KernelTrial*> trials_of(const Recipe& recipe) const;

  const std::uint64_t remembered_;
  const bool by_proof_;
  std::deque<Record> records_;
  std::uint64_t first_ = 0;  // operation number of records_[0]
  std::uint64_t found_ = 0;  // number of versions whose producer is unknown
  bool arriving_ = false;    // the last record has not been submitted yet
  std::unordered_map<BufferNumber, VersionId> current_;
  std::unordered_map<VersionId, BufferNumber> buffer_of_;  // the inverse
  // For buffers in the records: the last operation before the free.
  std::unordered_map<BufferNumber, std::uint64_t> deaths_;
  std::unordered_map<BufferNumber, Dropped> dropped_;
  std::unordered_map<BufferNumber, std::unordered_set<BufferNumber>>
      readers_;                                             // dropped buffers, by what they depend on
  std::unordered_set<BufferNumber> in_place_;               // some operation has read them in place (OperandUse)
  std::unordered_map<BufferNumber, DeviceAddress> asides_;  // copies that the program does not know
};

}  // namespace thermocline
