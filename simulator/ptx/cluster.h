// SPDX-License-Identifier: Apache-2.0
// The blocks of a running cluster: their shared memory, and the barrier at which all of their threads meet. Blocks of a
// cluster run in turns, on one host thread (grid.cc).
//
// An address in the cluster's shared memory is an offset, with the block's rank plus one from bit 24 on; without that
// it is the block's own. Shared memory has less than 2^24 bytes. Its generic address is the one in this process.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace simulator::ptx {

class BlockRun;

inline constexpr unsigned kRankShift = 24;
inline constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kRankShift) - 1;
inline constexpr std::uint32_t kMostClusterBlocks = 16;

class ClusterRun {
 public:
  // Adds the blocks in order of rank, before any of them runs.
  void add(BlockRun* block, std::uint32_t threads);
  // The block has ended: its shared memory is no longer there.
  void leave(const BlockRun* block);

  struct Place {
    std::uint32_t rank;
    std::uint64_t offset;
  };
  // The place of a generic address; nothing if it is outside of the cluster's shared memory.
  std::optional<Place> find(std::uint64_t address) const;
  // nullptr if there is no such block, or if it has ended.
  const BlockRun* block(std::uint64_t rank) const { return rank < blocks_.size() ? blocks_[rank] : nullptr; }

  // A thread arrives. Returns the number of the phase at whose end the barrier opens for it.
  std::uint64_t arrive();
  bool is_over(std::uint64_t phase) const { return phases_ > phase; }
  // A thread has ended. `phase`: the last result that it got from arrive().
  void end_thread(std::optional<std::uint64_t> phase);

 private:
  void open_if_due();

  std::vector<BlockRun*> blocks_;  // by rank; nullptr when they have ended
  std::uint64_t phases_ = 0;       // the number that are over
  std::uint32_t live_ = 0;         // threads
  std::uint32_t missing_ = 0;      // of these, those that have not arrived
};

}  // namespace simulator::ptx
