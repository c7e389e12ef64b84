// SPDX-License-Identifier: Apache-2.0
// Proves from a kernel's PTX that its results depend only on what it reads through its parameters.
//
// Kernels of this form are proven: the addresses to which the kernel stores are linear in the thread's index and in the
// iteration number of a loop (linear_form.h); and on every path each of them is stored to, except those beyond a bound:
// those for which a guard fails that holds at every store through that parameter. For each launch it is calculated that
// these addresses, within the guards, are exactly those up to some end, each written by one thread (written_box.h). So
// no two threads write to the same address, and no thread reads what another one writes: a thread reads written memory
// only at its own address. Only listed instructions are allowed: no clock, no local memory, no variables of the module,
// no register that has not been written. If the threads of a block exchange values through shared memory, barriers and
// shuffles, each launch is checked for a fixed order of these (block_run.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooks/relaunch/block_run.h"
#include "hooks/relaunch/ptx_accesses.h"
#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/ptx_guards.h"
#include "hooks/relaunch/symbolic.h"
#include "hooks/relaunch/uniform.h"
#include "hooks/relaunch/written_box.h"

namespace thermocline {

class PtxProof {
 public:
  PtxProof(const PtxKernel& kernel, const PtxAccesses& accesses);

  // Why the kernel is not proven; none: it is proven.
  const RerunRefusal& refused() const { return refused_; }

  struct Result {
    // By written word: the number of bytes from its address on that are written, and no others are. 0: none.
    std::vector<std::uint64_t> written_bytes;
    int not_proven = -1;             // the word for which nothing is proven; -1: none
    bool exchanges_unknown = false;  // the order in which threads exchange values is not proven
  };
  // Gets what is proven about one launch. False: nothing is. `used`: gets the parameters on which that depends; null:
  // nobody asks. Thread-safe.
  bool holds_for(const LaunchShape& shape, void* const* parameters, Result* out, UsedParameters* used = nullptr) const;
  // Where this launch accesses memory through the word; holds_for() must have returned true for it. Thread-safe.
  PlacesReach reach_of(std::size_t word, const LaunchShape& shape, void* const* parameters,
                       UsedParameters* used = nullptr) const;

 private:
  using Why = RerunRefusal::Why;
  class Paths;

  // An instruction that stores to an address of the thread's own.
  struct Store {
    std::size_t instruction = 0;
    std::size_t of = 0;       // index in places_
    std::int64_t offset = 0;  // from `begin` of its places
    std::int64_t bytes = 0;
    std::uint64_t slot = 0;  // a bit; stores to the same address have the same bit
  };
  // Facts that hold before an instruction, on every path to it.
  struct Facts {
    bool is_reached = false;
    bool reads_current = false;  // its address or guard equals its symbolic value
    std::uint64_t fresh = 0;     // a bit for each loop that is in its first iteration
    PtxGuards::Set holds;
  };

  // The findings about one launch.
  struct Found {
    bool holds = false;
    Result result;
    UsedParameters used;
    // A bit for each word through which nothing below the address is accessed; empty: this was not asked for yet.
    std::optional<std::uint64_t> never_below;
    UsedParameters used_below;
  };

  std::uint64_t find_never_below(const LaunchShape& shape, void* const* parameters, UsedParameters* used) const;
  bool is_never_below(std::size_t word, const LaunchShape& shape, void* const* parameters, UsedParameters* used) const;
  Found find(const LaunchShape& shape, void* const* parameters) const;
  // The shape, and the parameters on which anything depends that was found.
  std::string key_of(const LaunchShape& shape, void* const* parameters) const THERMOCLINE_REQUIRES(mutex_);
  Found* known(const LaunchShape& shape, void* const* parameters) const THERMOCLINE_REQUIRES(mutex_);
  // Notes that everything found from now on depends on these, too.
  void depends_on(const UsedParameters& used) const THERMOCLINE_REQUIRES(mutex_);
  void check_instructions();
  bool check_instruction(const PtxInstruction& one);
  void check_registers();
  void find_stores();
  // Returns why the store's address is not followed; kNone: the store has been added.
  Why add_store(std::size_t instruction);
  void check_tiles();
  void find_guards();
  void check_loads();
  void check_load(std::size_t instruction, StoredPlaces* of);
  void note_load(std::size_t instruction);
  // Removes guards that change with other loops, and guards that follow from others.
  void restrict_guards(StoredPlaces* places) const;
  void check_paths();
  void learn(std::size_t instruction, bool is_taken, PtxGuards::Set* holds) const;
  void learn_from_begin(std::uint64_t fresh, PtxGuards::Set* holds) const;
  // The guards of which at least one fails if the branch goes this way; null: nothing is known.
  const PtxGuards::Set* fails(std::size_t instruction, bool is_taken) const;
  void refuse(Why why, std::string_view what = {}) {
    if (!refused_) refused_ = {why, what};
  }

  const PtxKernel& kernel_;
  const PtxAccesses& accesses_;
  PtxBlocks blocks_;
  Symbolic symbolic_;
  PtxGuards guards_;
  RerunRefusal refused_;
  std::vector<Facts> facts_;  // by instruction
  std::vector<Store> stores_;
  std::vector<StoredPlaces> places_;  // one for each word that is written
  std::vector<StoredPlaces> loads_;   // loads through words that are not written
  std::uint64_t loads_anywhere_ = 0;  // a bit for each word that is loaded from at unknown addresses
  std::unique_ptr<BlockRuns> runs_;   // null: its threads exchange nothing
  // Most launches come again, and an evaluation takes thousands of instructions.
  static constexpr std::size_t kMostFound = 256;
  mutable Mutex mutex_{"launches of a proven kernel", lock_level::kLeaf};
  mutable UsedParameters used_ THERMOCLINE_GUARDED_BY(mutex_);
  mutable std::unordered_map<std::string, Found> found_ THERMOCLINE_GUARDED_BY(mutex_);  // by key_of()
};

}  // namespace thermocline
