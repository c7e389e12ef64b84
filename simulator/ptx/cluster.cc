// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/cluster.h"

#include <string>

#include "simulator/ptx/block.h"
#include "simulator/ptx/helpers.h"

namespace simulator::ptx {

void ClusterRun::add(BlockRun* block, std::uint32_t threads) {
  blocks_.push_back(block);
  live_ += threads;
  missing_ += threads;
}

void ClusterRun::leave(const BlockRun* block) {
  for (BlockRun*& one : blocks_) {
    if (one == block) one = nullptr;
  }
}

std::optional<ClusterRun::Place> ClusterRun::find(std::uint64_t address) const {
  for (std::uint32_t rank = 0; rank < blocks_.size(); ++rank) {
    if (blocks_[rank] == nullptr) continue;
    const std::uint64_t offset = address - blocks_[rank]->shared_begin();
    if (offset < blocks_[rank]->shared_bytes()) return Place{rank, offset};
  }
  return std::nullopt;
}

std::uint64_t ClusterRun::arrive() {
  const std::uint64_t phase = phases_;
  --missing_;
  open_if_due();
  return phase;
}

void ClusterRun::end_thread(std::optional<std::uint64_t> phase) {
  --live_;
  if (phase == phases_) return;  // the thread has arrived already
  --missing_;
  open_if_due();
}

void ClusterRun::open_if_due() {
  if (missing_ != 0) return;
  ++phases_;
  missing_ = live_;
  for (BlockRun* const block : blocks_) {
    if (block != nullptr) block->open_cluster_barrier();
  }
}

namespace {

[[noreturn]] void fail(ThreadContext* thread, std::uint64_t address, const std::string& what, std::uint32_t site) {
  thread->block->fail(*thread, Fault::kIllegalAddress, address, what, static_cast<int>(site));
}

const BlockRun& block_of(ThreadContext* thread, std::uint64_t rank, std::uint64_t address, std::uint32_t site) {
  const BlockRun* const block = thread->block->cluster().block(rank);
  if (block == nullptr)
    fail(thread, address, "shared memory of block " + std::to_string(rank) + " of the cluster, which is not running",
         site);
  return *block;
}

std::uint32_t rank_in_cluster(ThreadContext* thread, std::uint64_t address, std::uint32_t) {
  const std::uint64_t tag = address >> kRankShift;
  return tag == 0 ? thread->cluster_ctarank : static_cast<std::uint32_t>(tag - 1);
}

std::uint64_t address_in_cluster(ThreadContext* thread, std::uint64_t address, std::uint32_t site) {
  const BlockRun& block = block_of(thread, rank_in_cluster(thread, address, site), address, site);
  const std::uint64_t offset = address & kOffsetMask;
  if (offset >= block.shared_bytes())
    fail(thread, address,
         "address outside of the block's shared memory, offset " + std::to_string(offset) + " of " +
             std::to_string(block.shared_bytes()) + " bytes",
         site);
  return block.shared_begin() + offset;
}

// All ones if the address is not a generic one in the cluster's shared memory.
std::uint64_t offset_in_cluster(ThreadContext* thread, std::uint64_t address) {
  const auto place = thread->block->cluster().find(address);
  if (!place) return ~std::uint64_t{0};
  return place->offset | static_cast<std::uint64_t>(place->rank + 1) << kRankShift;
}

ClusterRun::Place place_of(ThreadContext* thread, std::uint64_t address, std::uint32_t site) {
  const auto place = thread->block->cluster().find(address);
  if (!place) fail(thread, address, "the address is not in the cluster's shared memory", site);
  return *place;
}

std::uint32_t rank_of_generic(ThreadContext* thread, std::uint64_t address, std::uint32_t site) {
  return place_of(thread, address, site).rank;
}

std::uint64_t mapa(ThreadContext* thread, std::uint64_t address, std::uint32_t rank, std::uint32_t site) {
  const std::uint64_t offset = place_of(thread, address, site).offset;
  return block_of(thread, rank, address, site).shared_begin() + offset;
}

void arrive(ThreadContext* thread) { thread->block->arrive_at_cluster(*thread); }
void wait(ThreadContext* thread) { thread->block->wait_for_cluster(*thread); }

}  // namespace

void add_cluster_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_address_in_cluster", reinterpret_cast<const void*>(address_in_cluster)});
  to->push_back({"ptx_offset_in_cluster", reinterpret_cast<const void*>(offset_in_cluster)});
  to->push_back({"ptx_rank_in_cluster", reinterpret_cast<const void*>(rank_in_cluster)});
  to->push_back({"ptx_rank_of_generic", reinterpret_cast<const void*>(rank_of_generic)});
  to->push_back({"ptx_mapa", reinterpret_cast<const void*>(mapa)});
  to->push_back({"ptx_cluster_arrive", reinterpret_cast<const void*>(arrive)});
  to->push_back({"ptx_cluster_wait", reinterpret_cast<const void*>(wait)});
}

}  // namespace simulator::ptx
