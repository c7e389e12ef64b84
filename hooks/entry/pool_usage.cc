// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/pool_usage.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <unordered_map>
#include <vector>

#include "driver/hash.h"
#include "driver/locks.h"
#include "driver/page_size.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

struct Usage {
  Bytes used = 0, most_used = 0;
  Bytes reserved = 0, most_reserved = 0;
  Bytes threshold = 0;  // release threshold: up to this much freed memory stays reserved
  Bytes limit = 0;

  Bytes needed() const { return round_up(used, kDefaultPageBytes); }
  void take(Bytes bytes) {
    used += bytes;
    most_used = std::max(most_used, used);
    reserved = std::max(reserved, needed());
    most_reserved = std::max(most_reserved, reserved);
  }
  void give(Bytes bytes) {
    used -= std::min(bytes, used);
    keep(threshold);
  }
  void keep(Bytes bytes) { reserved = std::max(needed(), std::min(reserved, bytes)); }
};

struct Pools {
  Mutex mutex{"usage of pools", lock_level::kLeaf};
  std::map<CUmemoryPool, Usage> all THERMOCLINE_GUARDED_BY(mutex);
};
Pools& pools() { return process_lifetime<Pools>(); }

// Buffers by address, in several tables, so that threads seldom contend for the same lock.
struct Shard {
  Mutex mutex{"memory of pools", lock_level::kLeaf};
  std::unordered_map<std::uint64_t, PoolMemory> buffers THERMOCLINE_GUARDED_BY(mutex);
};
constexpr std::size_t kShards = 16;
std::array<Shard, kShards>& shards() { return process_lifetime<std::array<Shard, kShards>>(); }
// Fibonacci hashing, as in layouts.cc.
Shard& shard_of(DeviceAddress at) { return shards()[hash_bits(at.value, 4)]; }

// Number of buffers in all shards: most programs have none, and then a free need not search.
std::atomic<std::uint64_t> buffers{0};

void give_back(const PoolMemory& memory) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  all.all[memory.pool].give(memory.bytes);
}

}  // namespace

bool pool_has_room(CUmemoryPool pool, Bytes bytes) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  const auto found = all.all.find(pool);
  if (found == all.all.end() || found->second.limit == 0) return true;
  const Usage& usage = found->second;
  return bytes <= usage.limit - std::min(usage.used, usage.limit);
}

void allocated_from_pool(CUmemoryPool pool, DeviceAddress at, Bytes bytes) {
  {
    Shard& shard = shard_of(at);
    const MutexLock lock(shard.mutex);
    shard.buffers.insert_or_assign(at.value, PoolMemory{pool, bytes});
  }
  buffers.fetch_add(1, std::memory_order_relaxed);
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  all.all[pool].take(bytes);
}

std::optional<PoolMemory> freeing(DeviceAddress at) {
  if (buffers.load(std::memory_order_relaxed) == 0) return std::nullopt;
  PoolMemory memory;
  {
    Shard& shard = shard_of(at);
    const MutexLock lock(shard.mutex);
    const auto found = shard.buffers.find(at.value);
    if (found == shard.buffers.end()) return std::nullopt;
    memory = found->second;
    shard.buffers.erase(found);
  }
  buffers.fetch_sub(1, std::memory_order_relaxed);
  give_back(memory);
  return memory;
}

void freeing_failed(DeviceAddress at, const PoolMemory& memory) { allocated_from_pool(memory.pool, at, memory.bytes); }

void forget_pool_memory(OwnRange range) {
  for (Shard& shard : shards()) {
    std::vector<PoolMemory> gone;
    {
      const MutexLock lock(shard.mutex);
      std::erase_if(shard.buffers, [&](const auto& buffer) {
        if (!range(DeviceAddress{buffer.first})) return false;
        gone.push_back(buffer.second);
        return true;
      });
    }
    buffers.fetch_sub(gone.size(), std::memory_order_relaxed);
    for (const PoolMemory& memory : gone) give_back(memory);
  }
}

CUmemoryPool pool_of(DeviceAddress at) {
  if (buffers.load(std::memory_order_relaxed) == 0) return nullptr;
  Shard& shard = shard_of(at);
  const MutexLock lock(shard.mutex);
  const auto found = shard.buffers.find(at.value);
  return found == shard.buffers.end() ? nullptr : found->second.pool;
}

void pool_made(CUmemoryPool pool, Bytes most) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  Usage usage;
  usage.limit = most;
  all.all.insert_or_assign(pool, usage);
}

cuuint64_t of_pool(CUmemoryPool pool, CUmemPool_attribute attribute) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  const auto found = all.all.find(pool);
  if (found == all.all.end()) return 0;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return found->second.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return found->second.most_used;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return found->second.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return found->second.most_reserved;
    default:
      return 0;
  }
}

void set_of_pool(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  Usage& usage = all.all[pool];
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      usage.most_used = usage.used;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      usage.most_reserved = usage.reserved;
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      usage.threshold = *static_cast<const cuuint64_t*>(value);
      usage.keep(usage.threshold);
      break;
    default:
      break;
  }
}

void trim_pool_to(CUmemoryPool pool, Bytes keep) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  if (const auto found = all.all.find(pool); found != all.all.end()) found->second.keep(keep);
}

}  // namespace thermocline
