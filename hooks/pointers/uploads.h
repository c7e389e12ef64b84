// SPDX-License-Identifier: Apache-2.0
// Pointer upload tracking: tells the engine how copies and sets change the pointers stored in device memory
// (offload/pointers/references.h). Copies from the host are searched for addresses of the engine's memory; copies on
// the device carry along the known pointers of their source; pointers in a range that is overwritten are removed.
//
// When the bytes are read: pinned memory before the copy is submitted (after it, another thread that knows the copy to
// be complete may free the memory); pageable memory after it (the driver has read it by then). Writes of a program
// to pinned memory between submitting a copy and its execution are not seen.
//
// Copies in a graph are examined at every launch, up to kMostSearchedMoves per executable graph. Each copy beyond that
// counts as untracked_uploads: the pointers that it writes are unknown, and are read from the device when they are
// needed (Engine::hold_unknown). The order in which the copies run is not known.
#pragma once

#include <boost/container/small_vector.hpp>
#include <span>
#include <vector>

#include "hooks/operands/accesses.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

class WordScan;

// Host memory that the driver does not know. Calls the driver, except for the engines' memory.
bool is_pageable(CUdeviceptr at);
// Host memory that the driver knows.
bool is_pinned(CUdeviceptr at);
bool is_host_memory(CUdeviceptr at);

// The changes of one operation: collected before it is submitted, reported afterwards.
class Changes {
 public:
  Changes(const ActiveEngine& active, const AccessList& accesses);
  // Call it after the operation was submitted. `may_be_late`: it may run after operations that are submitted later,
  // which then still find the pointers that it replaces.
  void happened(bool may_be_late);

 private:
  // The source of a copy, as far as stored pointers are concerned.
  enum class Source { kNothing, kPinned, kPageable, kDevice };
  struct SourcedMove {
    Move move;
    Source source = Source::kNothing;
  };

  Source source_of(const Move& move) const;
  void search(const Move& move);
  void search_write_combined(const WordScan& scan, CUdeviceptr to, CUdeviceptr from, Bytes bytes,
                             std::vector<unsigned char>& block);
  void found(DeviceAddress at, std::uint64_t word);
  void give_in();
  // Visits the ranges whose former contents are overwritten. Skips copies from pinned memory if some of their words
  // have already been reported.
  template <class Visit>
  void for_each_replaced(bool with_pinned, Visit visit) const;

  Engine& engine_;
  const AccessList& accesses_;
  boost::container::small_vector<SourcedMove, 1> moves_;
  std::vector<HeldWord> words_;
  bool has_given_in_ = false;  // words were reported because there were too many to collect
};

// The engines in `bits` whose stored pointers the operation changes. Nearly all launches change none, so that Changes
// need not be constructed.
EngineBits changing_references(const EngineSet& engines, EngineBits bits, const AccessList& accesses);

// The changes of one operation in each of these engines.
class AllChanges {
 public:
  AllChanges(const EngineSet& engines, EngineBits bits, const AccessList& accesses) {
    engines.for_each(bits, [&](const ActiveEngine& active) { all_.emplace_back(active, accesses); });
  }
  void happened(bool may_be_late) {
    for (Changes& one : all_) one.happened(may_be_late);
  }

 private:
  boost::container::small_vector<Changes, 1> all_;
};

// From the first byte that the copy reads to the last.
AddressRange span_of_source(const Move& move);

// Limit for one executable graph, at every launch.
inline constexpr std::size_t kMostSearchedMoves = 4096;

// A graph with these copies, and with the copies `beyond` the limit, is about to be launched. Pointers that its copies
// overwrite remain known until the memory is read (References::will_be_overwritten). They remain for good if the
// sources may have changed when the copies run, because the copies may then write the same pointers.
void search_moves(const EngineSet& engines, std::span<const Move> moves, std::span<const Move> beyond,
                  bool sources_may_change);

// Carries along what is stored in the sources of these copies by now, after the launch.
void carry_along(const EngineSet& engines, std::span<const Move> moves);

// Whether some of these copies write what others of them bring to the device.
bool write_their_sources(const EngineSet& engines, std::span<const Move> moves);

// For memory outside the engines, which is not read. Call these before search_moves and after the launch has succeeded.
// These copies certainly run before all other nodes, and nothing writes their sources any more.
void expect_moves_outside(const EngineSet& engines, std::span<const Move> moves);
void moved_outside(const EngineSet& engines, std::span<const Move> moves);

}  // namespace thermocline
