// SPDX-License-Identifier: Apache-2.0
// Whether a kernel's results depend on nothing but what it reads through its parameters, proven from its PTX.
//
// Proven is this form: the places to which a kernel stores are linear in where the thread is and in how often a loop
// has come around (linear_form.h), and on every path each is stored to, but for those beyond a bound: beyond a guard
// that holds wherever something is stored through that parameter. Of each launch it is calculated that these places,
// within the guards, are all that lie before some end, each of them of one thread (written_box.h). So no two threads
// write to one place, and no thread reads what another one writes: what is also written is read at the thread's own
// place alone. The instructions are those of a list; they read no clock, no local memory, no variables of the module,
// and no register before it has been written. Where the threads of a block exchange values through shared memory,
// barriers and shuffles, each launch is looked at for whether they do so in one order (block_run.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

  // Why it is not proven; none: it is.
  const RerunRefusal& refused() const { return refused_; }

  struct Result {
    // For each word that is written: its bytes up to here are written, all of them, and no others. 0: none.
    std::vector<std::uint64_t> written_bytes;
    int not_proven = -1;             // the word for which it does not hold; -1: none
    bool exchanges_unknown = false;  // the order in which threads exchange values is not proven
  };
  // What is proven of one launch. False: nothing is, for this launch.
  bool holds_for(const LaunchShape& shape, void* const* parameters, Result* out) const;
  // Where this launch, of which that holds, accesses memory through the word.
  PlacesReach reach_of(std::size_t word, const LaunchShape& shape, void* const* parameters) const;

 private:
  using Why = RerunRefusal::Why;
  class Paths;

  // An instruction that stores to a place of its own.
  struct Store {
    std::size_t instruction = 0;
    std::size_t of = 0;       // in places_
    std::int64_t offset = 0;  // from the begin
    std::int64_t bytes = 0;
    std::uint64_t slot = 0;  // a bit: those at one place have the same
  };
  // What is known before an instruction, whatever the path.
  struct Facts {
    bool is_reached = false;
    bool reads_current = false;  // its address or guard is its symbolic value
    std::uint64_t fresh = 0;     // a bit for each loop: it has not come around since it was begun
    PtxGuards::Set holds;
  };

  void check_instructions();
  bool check_instruction(const PtxInstruction& one);
  void check_registers();
  void find_stores();
  // Why it is none of a place that is followed; kNone: it has been added.
  Why add_store(std::size_t instruction);
  void check_tiles();
  void find_guards();
  void check_loads();
  void check_load(std::size_t instruction, StoredPlaces* of);
  void note_load(std::size_t instruction);
  // Leaves out what changes around other loops, and what others of them say.
  void restrict_guards(StoredPlaces* places) const;
  void check_paths();
  void learn(std::size_t instruction, bool is_taken, PtxGuards::Set* holds) const;
  void learn_from_begin(std::uint64_t fresh, PtxGuards::Set* holds) const;
  // What is not done where the branch goes this way; null: nothing is known.
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
  std::vector<StoredPlaces> loads_;   // through words that are not
  std::uint64_t loads_anywhere_ = 0;  // a bit for each such word: where is not known
  std::unique_ptr<BlockRuns> runs_;   // null: its threads exchange nothing
};

}  // namespace thermocline
