// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/memory/pool_cache.h"

namespace simulator::cuda {
namespace {

constexpr Bytes kGranule = 512;
constexpr Bytes kOwnPages = Bytes{1} << 20;  // from here on an allocation owns whole pages

using Kept = CUmemPoolHandle_st::Kept;

Bytes threshold(const CUmemPoolHandle_st& pool) {
  const auto found = pool.attributes.find(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  return found == pool.attributes.end() ? 0 : found->second;
}

}  // namespace

Bytes pool_block_bytes(Bytes requested) { return round_up(requested, requested < kOwnPages ? kGranule : kPageBytes); }

std::optional<PoolBlock> take_kept(Call& call, CUmemoryPool pool, Bytes requested, StreamId stream) {
  const Bytes wanted = pool_block_bytes(requested);
  for (auto block = pool->kept.lower_bound(wanted); block != pool->kept.end() && block->first - wanted <= wanted / 8;
       ++block) {
    const Kept& kept = block->second;
    if (kept.stream != stream && !call.machine().is_done(kept.freed)) continue;
    const PoolBlock taken{kept.address, block->first};
    pool->kept_bytes -= taken.bytes;
    pool->kept.erase(block);
    return taken;
  }
  return std::nullopt;
}

void keep(Call& call, CUmemoryPool pool, PoolBlock block, StreamId stream) {
  const OperationId freed = call.machine().submit(stream, Lifetime{block.address, block.bytes, false});
  pool->kept.emplace(block.bytes, Kept{block.address, freed, stream});
  pool->kept_bytes += block.bytes;
}

void trim_pool(Call& call, CUmemoryPool pool, Bytes bytes, TrimTo end) {
  const auto may_go = [&](Bytes block) {
    return end == TrimTo::kAtMost ? pool->kept_bytes > bytes : pool->kept_bytes - block >= bytes;
  };
  for (auto block = pool->kept.begin(); block != pool->kept.end() && may_go(block->first);) {
    if (!call.machine().is_done(block->second.freed)) {
      ++block;
      continue;
    }
    pool->kept_bytes -= block->first;
    call.machine().free(block->second.address);
    block = pool->kept.erase(block);
  }
}

void trim_pools_to_thresholds(Call& call) {
  call.state().pools.for_each(
      [&](CUmemPoolHandle_st& pool) { trim_pool(call, &pool, threshold(pool), TrimTo::kAtMost); });
}

void forget_stream(State& state, StreamId stream) {
  state.pools.for_each([&](CUmemPoolHandle_st& pool) {
    for (auto& [bytes, kept] : pool.kept) {
      if (kept.stream == stream) kept.stream = std::nullopt;
    }
  });
}

void empty_pool(Call& call, CUmemoryPool pool) {
  Machine* machine = &call.machine();
  const auto device = static_cast<DeviceId>(pool->properties.location.id);
  for (const auto& [bytes, kept] : pool->kept) {
    const OperationId after[] = {kept.freed};
    const Address at = kept.address;
    machine->submit(Machine::legacy_stream(device), Internal{[machine, at] { machine->free(at); }}, {after, true});
  }
  pool->kept.clear();
  pool->kept_bytes = 0;
}

CUresult with_room(Call& call, const std::function<CUresult()>& allocate) {
  const CUresult result = allocate();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  Bytes kept = 0;
  call.state().pools.for_each([&](CUmemPoolHandle_st& pool) {
    kept += pool.kept_bytes;
    trim_pool(call, &pool, 0, TrimTo::kAtMost);
  });
  return kept == 0 ? result : allocate();
}

}  // namespace simulator::cuda
