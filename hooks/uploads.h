// SPDX-License-Identifier: Apache-2.0
// What copies and sets do to the addresses that stand in memory (offload/references.h), told to the engine. Copies from
// the host are searched for words that are addresses of ours; copies on the device take along what is known of their
// source; whatever is written over stands there no more.
//
// When the bytes are read: those of pinned memory before the copy is submitted (afterwards another thread, that knows
// the copy to be over, may free them), those of pageable memory after it (the driver has read them by then). What a
// program writes into pinned memory between submitting a copy and its turn in the stream is not seen.
//
// Copies that a graph was given are looked at then, and again at every launch of a graph. So many are remembered, the
// newest; each one beyond counts as unsearched_uploads: what another launch brings through it is not seen.
#pragma once

#include <boost/container/small_vector.hpp>
#include <vector>

#include "hooks/runtime.h"
#include "hooks/touches.h"

namespace thermocline {

// Memory of the host that the driver does not know. Asks the driver, but for memory of ours.
bool is_pageable(CUdeviceptr at);

// The changes of one operation: made before it is submitted, and told when it has been.
class Changes {
 public:
  Changes(const ActiveEngine& active, const TouchList& touches);
  // The operation was submitted; `recorded`: it was not, but some graph has it now.
  void happened(bool recorded = false);

 private:
  // What a copy's source is, as far as its words matter.
  enum class Source { kNothing, kPinned, kPageable, kDevice };
  struct Known {
    Move move;
    Source source = Source::kNothing;
  };

  Source source_of(const Move& move) const;
  void search(const Move& move);
  void found(DeviceAddress at, std::uint64_t word);
  void give_in();

  Engine& engine_;
  const TouchList& touches_;
  boost::container::small_vector<Known, 1> moves_;
  std::vector<HeldWord> words_;
};

// Of these, those whose references it changes: for nearly all launches none, and Changes need not be made.
EngineBits changing_references(const EngineSet& engines, EngineBits bits, const TouchList& touches);

// The changes of one operation in each of these.
class AllChanges {
 public:
  AllChanges(const EngineSet& engines, EngineBits bits, const TouchList& touches) {
    engines.for_each(bits, [&](const ActiveEngine& active) { all_.emplace_back(active, touches); });
  }
  void happened(bool recorded = false) {
    for (Changes& one : all_) one.happened(recorded);
  }

 private:
  boost::container::small_vector<Changes, 1> all_;
};

inline constexpr std::size_t kMostRememberedMoves = 4096;

// For launches of graphs.
void remember_moves(const EngineSet* engines, const TouchList& touches);
std::size_t remembered_moves();
void search_remembered_moves(const EngineSet& engines);

}  // namespace thermocline
