// SPDX-License-Identifier: Apache-2.0
// The versions of the buffers' contents at run time: which operation made each, from which inputs, and which are
// dropped. A dropped buffer is alive but has no contents anywhere; they can be recomputed.
//
// Invariants (checked by validate()):
//   1. Every version that is dropped can be recomputed from versions that exist, by operations that are remembered.
//   2. For each buffer that such a recipe reads, the reader is known. Before the buffer is overwritten or freed, the
//      dropped version is recomputed, another recipe is found, or the contents are copied aside (the write barrier).
//   3. While anything is dropped, no operation is late.
//
// While nothing is dropped nobody needs to know the versions. Until somebody asks for them, what happens is only listed, in
// order (`late_`): most programs repeat themselves, everything fits, and then nobody ever asks. Whoever asks gets what he
// would get if each operation had been noted when it came.
//
// Where host memory runs out while nothing is dropped, everything is forgotten instead: no call fails for what nobody needs.
// While something is dropped, an operation that cannot be noted is refused before anything has changed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <new>
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

  // The same for all operations that are equal but for their scalar parameters and their time.
  struct Form {
    // All operands. `may_run_again`: everything about it is known. `is_all`: it accesses nothing else. `trial`: the
    // trial of its kernel; null: its results may be dropped without one.
    Form(std::span<const Operand> operands, bool may_run_again, bool is_all, KernelTrial* trial);

    const std::vector<Operand> operands;
    const bool may_run_again, is_all;
    const bool any_in_place;
    KernelTrial* const trial;
  };

  // About this many operations are remembered; more while dropped contents depend on them.
  // `by_proof`, for tests: results of kernels on trial may be dropped, too.
  explicit Versions(std::uint64_t remembered = Relauncher::kRemembered, bool by_proof = false)
      : remembered_(remembered), by_proof_(by_proof) {}

  // An operation is about to be submitted; each buffer once.
  void arrives(std::shared_ptr<const Form> form, std::uint64_t id, std::uint64_t nanoseconds) {
    if (remembers_too_much()) [[unlikely]]
      forget_old();
    const Form* const newest = form.get();
    Late late{std::move(form), id, nanoseconds};
    try {
      late_.push_back(std::move(late));
    } catch (const std::bad_alloc&) {
      if (!dropped_.empty()) throw;
      return arrives_unlisted(std::move(late.form));
    }
    ++late_operations_;
    newest_ = newest;
    arriving_ = true;
    if (!dropped_.empty()) note_at_once();
  }
  void arrives(std::uint64_t id, bool may_run_again, std::uint64_t nanoseconds, std::span<const Operand> operands,
               bool is_all = true, KernelTrial* trial = nullptr) {
    arrives(std::make_shared<const Form>(operands, may_run_again, is_all, trial), id, nanoseconds);
  }
  // The operands of that operation, even if it has been forgotten.
  std::span<const Operand> arriving() const { return newest_->operands; }
  // The operation has been submitted.
  void submitted() {
    if (!arriving_) return;
    arriving_ = false;
    if (late_.empty()) return submitted_at_once();
    late_.back().is_submitted = true;
  }
  // The operation that arrived last has not been submitted yet.
  bool is_arriving() const { return arriving_; }
  // The operation that is arriving may run again.
  bool arriving_may_run_again() const { return arriving_ && newest_->may_run_again; }
  // The arriving operation was given up: it counts as not submitted, and writes nothing.
  void never_submitted() { arriving_ = false; }
  // Notes the operations that are late. Changes nothing that can be asked for, unless host memory runs out.
  void catch_up() const;
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
  std::span<const Operand> operands_of(std::uint64_t operation) const { return record(operation).form->operands; }
  // The trial of the operation's kernel; may be null.
  KernelTrial* trial_of(std::uint64_t operation) const { return record(operation).form->trial; }
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
    std::shared_ptr<const Form> form;
    std::uint64_t id = 0;
    std::uint64_t nanoseconds = 0;
    std::vector<VersionedOperand> versions;
  };
  struct Late {
    std::shared_ptr<const Form> form;  // null: no operation; a buffer was freed, or all contents were forgotten
    std::uint64_t id = 0;              // of the operation, or the buffer's number, or kAllContents
    std::uint64_t nanoseconds = 0;
    // All contents were forgotten when it had arrived; then it was submitted.
    bool forgets = false, is_submitted = false;
  };
  static constexpr BufferNumber kAllContents = ~BufferNumber{0};
  struct Dropped {
    VersionId version = kNoVersion;
    std::uint64_t oldest = 0;  // the oldest operation of its recipe
    std::vector<BufferNumber> inputs;
    std::vector<KernelTrial*> trials;
  };
  class World;
  friend class World;

  const Record& record(std::uint64_t operation) const { return records_[operation - first_]; }
  bool remembers_too_much() const { return records_.size() + late_operations_ >= remembered_; }
  void arrives_unlisted(std::shared_ptr<const Form> form);
  void note_at_once();
  void note_late(const Late& late) const;
  void note(const Late& late) const;
  void list_end_of(BufferNumber ended);
  void note_free(BufferNumber buffer) const;
  void note_death(BufferNumber buffer) const;
  void note_end_of_contents() const;
  void note_in_turn(BufferNumber ended);
  void skip(const Late& late) const;
  void forget_all() const;
  void submitted_at_once();
  void begin_written() const;
  Bytes bytes_of(VersionId version) const;
  bool find_another_recipe(BufferNumber buffer, std::span<const BufferNumber> going);
  void unlink(BufferNumber buffer);
  void begin_version(BufferNumber buffer, VersionId version) const;
  void forget_old();
  void validate_number_of(std::size_t index) const;
  std::optional<Recipe> recipe_without(std::span<const BufferNumber> buffers,
                                       std::span<const BufferNumber> going) const;

  bool may_rely_on(const Recipe& recipe) const;
  std::vector<KernelTrial*> trials_of(const Recipe& recipe) const;

  const std::uint64_t remembered_;
  const bool by_proof_;
  // Changed by catch_up().
  mutable bool arriving_ = false;              // the newest operation has not been submitted yet
  mutable std::deque<Late> late_;              // what came behind the operations in records_, not noted yet
  mutable std::uint64_t late_operations_ = 0;  // how many of these are operations
  mutable std::deque<Record> records_;
  const Form* newest_ = nullptr;                   // of the operation that arrived last
  mutable std::shared_ptr<const Form> forgotten_;  // the same, if it is neither in late_ nor in records_
  mutable std::uint64_t found_ = 0;                // number of versions whose producer is unknown
  mutable std::unordered_map<BufferNumber, VersionId> current_;
  mutable std::unordered_map<VersionId, BufferNumber> buffer_of_;  // the inverse
  mutable std::unordered_set<BufferNumber> in_place_;              // some operation has read them in place (OperandUse)
  mutable std::uint64_t first_ = 0;                                // operation number of records_[0], or of late_[0]

  // For buffers in the records: the last operation before the free.
  mutable std::unordered_map<BufferNumber, std::uint64_t> deaths_;
  std::unordered_map<BufferNumber, Dropped> dropped_;
  std::unordered_map<BufferNumber, std::unordered_set<BufferNumber>>
      readers_;                                             // dropped buffers, by what they depend on
  std::unordered_map<BufferNumber, DeviceAddress> asides_;  // copies that the program does not know
};

}  // namespace thermocline
