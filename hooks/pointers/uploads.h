// SPDX-License-Identifier: Apache-2.0
// What copies and sets do to the addresses that stand in memory (offload/pointers/references.h), told to the engine.
// Copies from the host are searched for words that are addresses of ours; copies on the device take along what is known
// of their source; whatever is written over stands there no more.
//
// When the bytes are read: those of pinned memory before the copy is submitted (afterwards another thread, that knows
// the copy to be over, may free them), those of pageable memory after it (the driver has read them by then). What a
// program writes into pinned memory between submitting a copy and its turn in the stream is not seen.
//
// Copies that a graph was given are looked at when it is launched, each time. Of one executable so many; each one
// beyond counts as untracked_uploads: what a launch brings through it is not known, and read from the device when it
// matters (Engine::hold_unknown).
#pragma once

#include <boost/container/small_vector.hpp>
#include <span>
#include <vector>

#include "hooks/operands/accesses.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

class WordScan;

// Memory of the host that the driver does not know. Asks the driver, but for memory of ours.
bool is_pageable(CUdeviceptr at);
// Memory of the host that it does.
bool is_pinned(CUdeviceptr at);

// The changes of one operation: made before it is submitted, and told when it has been.
class Changes {
 public:
  Changes(const ActiveEngine& active, const AccessList& accesses);
  // The operation was submitted.
  void happened();

 private:
  // What a copy's source is, as far as its words matter.
  enum class Source { kNothing, kPinned, kPageable, kDevice };
  struct Known {
    Move move;
    Source source = Source::kNothing;
  };

  Source source_of(const Move& move) const;
  void search(const Move& move);
  void search_write_combined(const WordScan& scan, CUdeviceptr to, CUdeviceptr from, Bytes bytes);
  void found(DeviceAddress at, std::uint64_t word);
  void give_in();

  Engine& engine_;
  const AccessList& accesses_;
  boost::container::small_vector<Known, 1> moves_;
  std::vector<HeldWord> words_;
};

// Of these, those whose references it changes: for nearly all launches none, and Changes need not be made.
EngineBits changing_references(const EngineSet& engines, EngineBits bits, const AccessList& accesses);

// The changes of one operation in each of these.
class AllChanges {
 public:
  AllChanges(const EngineSet& engines, EngineBits bits, const AccessList& accesses) {
    engines.for_each(bits, [&](const ActiveEngine& active) { all_.emplace_back(active, accesses); });
  }
  void happened() {
    for (Changes& one : all_) one.happened();
  }

 private:
  boost::container::small_vector<Changes, 1> all_;
};

// Of one executable graph, at every launch.
inline constexpr std::size_t kMostSearchedMoves = 4096;

// A graph that is about to be launched makes these, and, `beyond`, these.
void search_moves(const EngineSet& engines, std::span<const Move> moves, std::span<const Move> beyond = {});

}  // namespace thermocline
