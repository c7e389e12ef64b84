// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/grid.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "simulator/ptx/cluster.h"
#include "simulator/ptx/independent_blocks.h"
#include "simulator/ptx/kernel.h"

namespace simulator::ptx {
namespace {

// Calls `body` with each position in this shape, until it returns false.
template <typename Body>
bool for_each(const std::uint32_t (&shape)[3], Body body) {
  std::uint32_t at[3] = {};
  for (at[2] = 0; at[2] < shape[2]; ++at[2]) {
    for (at[1] = 0; at[1] < shape[1]; ++at[1]) {
      for (at[0] = 0; at[0] < shape[0]; ++at[0]) {
        if (!body(at)) return false;
      }
    }
  }
  return true;
}

// Blocks that may wait for one another, and their clusters.
class Company {
 public:
  Company(GridRun& grid, Stacks& stacks, const std::uint32_t (&shape)[3]) : grid_(grid), stacks_(stacks) {
    std::copy(std::begin(shape), std::end(shape), std::begin(shape_));
  }

  // False: a fault.
  bool add_cluster(const std::uint32_t (&number)[3]) {
    clusters_.push_back(std::make_unique<ClusterRun>());
    return for_each(shape_, [&](const std::uint32_t(&within)[3]) {
      std::uint32_t at[3];
      for (std::size_t i = 0; i < 3; ++i) at[i] = number[i] * shape_[i] + within[i];
      const std::size_t first = blocks_.empty() ? 0 : blocks_.size() * blocks_[0]->stacks();
      blocks_.push_back(std::make_unique<BlockRun>(grid_, stacks_, first, true, clusters_.back().get()));
      return blocks_.back()->begin(at);
    });
  }

  // Each block runs until all of its threads wait, then the next. False: a fault.
  bool run() {
    std::size_t live = blocks_.size();
    while (live > 0) {
      bool moved = false;
      for (std::unique_ptr<BlockRun>& block : blocks_) {
        if (block == nullptr) continue;
        const BlockRun::Progress progress = block->go_on();
        moved = moved || block->has_moved();
        if (progress == BlockRun::Progress::kFailed) return false;
        if (progress == BlockRun::Progress::kPaused) continue;
        block->take_counts();
        block.reset();
        --live;
        moved = true;
      }
      if (moved || live == 0) continue;
      (*std::ranges::find_if(blocks_, [](const auto& block) { return block != nullptr; }))->report_stuck();
      return false;
    }
    return true;
  }

 private:
  GridRun& grid_;
  Stacks& stacks_;
  std::uint32_t shape_[3];
  std::vector<std::unique_ptr<ClusterRun>> clusters_;
  std::vector<std::unique_ptr<BlockRun>> blocks_;  // in a cluster, in order of rank
};

}  // namespace

void cluster_shape(const Kernel& kernel, const Launch& launch, std::uint32_t (&shape)[3]) {
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint32_t given = launch.cluster[i] != 0 ? launch.cluster[i] : kernel.cluster[i];
    shape[i] = std::max(given, 1u);
  }
}

void run_grid(GridRun& grid, StackPools& stacks_of) {
  Stacks& stacks = stacks_of.of(0);
  const Emitted& emitted = grid.kernel.emitted;
  std::uint32_t shape[3], clusters[3];
  cluster_shape(grid.kernel, grid.launch, shape);
  for (std::size_t i = 0; i < 3; ++i) clusters[i] = grid.launch.grid[i] / shape[i];
  if (grid.launch.is_cooperative && emitted.needs_fibers) {
    Company all(grid, stacks, shape);
    if (for_each(clusters, [&](const std::uint32_t(&at)[3]) { return all.add_cluster(at); })) all.run();
  } else if (emitted.uses_clusters && emitted.needs_fibers) {
    for_each(clusters, [&](const std::uint32_t(&at)[3]) {
      Company cluster(grid, stacks, shape);
      return cluster.add_cluster(at) && cluster.run();
    });
  } else {
    run_independent_blocks(grid, stacks_of);
  }
}

}  // namespace simulator::ptx
