// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/graph_memory.h"

#include <atomic>
#include <map>
#include <utility>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/backoff.h"
#include "hooks/submit/each_engine.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {
namespace {

std::atomic<bool> allocate{false};
// Some memory could not be counted, because blocked streams use memory that would have to be evicted.
std::atomic<bool> is_late{false};

// The bytes that each engine has been told, and those that the driver reported then.
struct Counted {
  Bytes reserved = 0;
  Bytes told = 0;
  bool is_being_counted = false;
  bool once_more = false;  // another thread asked for a count during the current one
};
struct AllCounted {
  Mutex mutex{"memory of graphs", lock_level::kLeaf};
  std::map<const ActiveEngine*, Counted> by_engine THERMOCLINE_GUARDED_BY(mutex);
};
AllCounted& counted_so_far() { return process_lifetime<AllCounted>(); }

// If this memory cannot be counted because nothing more can be evicted, the budget is exceeded; that is reported like
// any refusal.
void tell(const ActiveEngine& active, Counted* counted) {
  cuuint64_t reserved = 0;
  if (real<Function::cuDeviceGetGraphMemAttribute>(active.device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) !=
          CUDA_SUCCESS ||
      reserved == counted->reserved) {
    return;
  }
  Status status;
  if (reserved < counted->told) {
    active.engine->remove_external(counted->told - reserved);
  } else if (reserved > counted->told) {
    // A launch must not wait here for blocked streams: another thread may need the engines, which this one holds, to
    // unblock them. The next launch or wait counts it.
    const auto add = [&] { return active.engine->add_external(reserved - counted->told); };
    status = any_stream_may_block() ? add() : with_backoff(add);
  }
  if (status == Status::not_ready()) is_late.store(true, std::memory_order_relaxed);
  if (status != Status::not_ready()) counted->reserved = reserved;
  if (status.ok()) counted->told = reserved;
}

// One thread at a time, without the lock: the engine may wait for the device.
void count_for(const ActiveEngine& active) {
  AllCounted& all = counted_so_far();
  MutexLock lock(all.mutex);
  Counted& counted = all.by_engine[&active];
  counted.once_more = true;
  if (std::exchange(counted.is_being_counted, true)) return;
  while (std::exchange(counted.once_more, false)) {
    Counted now = counted;
    lock.unlock();
    tell(active, &now);
    lock.lock();
    counted.reserved = now.reserved;
    counted.told = now.told;
  }
  counted.is_being_counted = false;
}

}  // namespace

void note_graph_allocates() { allocate.store(true, std::memory_order_relaxed); }
bool any_graph_allocates() { return allocate.load(std::memory_order_relaxed); }

void count_graph_memory() {
  if (!any_graph_allocates()) return;
  for_each_engine([](const EngineSet& engines, const ActiveEngine& active) {
    {
      AllCounted& all = counted_so_far();
      const MutexLock lock(all.mutex);
      std::erase_if(all.by_engine,
                    [&](const auto& entry) { return !engines.has(entry.first) && !entry.second.is_being_counted; });
    }
    count_for(active);
  });
}

void count_late_graph_memory() {
  if (is_late.load(std::memory_order_relaxed) && is_late.exchange(false)) count_graph_memory();
}

// The driver does not say whether it waits for the device meanwhile.
void trim_graph_memory(const ActiveEngine& active) {
  if (!any_graph_allocates() || any_capture() || any_stream_may_block()) return;
  if (real<Function::cuDeviceGraphMemTrim>(active.device) == CUDA_SUCCESS) count_for(active);
}

}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream), {
  return with_graph_memory([](Call call) { return call(); }, [&] { return real<kFunction>(hGraphExec, hStream); });
})

THERMOCLINE_HOOK_PAIR(cuGraphInstantiateWithParams, _ptsz,
                      (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams), {
                        return with_graph_memory(
                            [&](Call call) { return instantiated_with(phGraphExec, hGraph, instantiateParams, call); },
                            [&] { return real<kFunction>(phGraphExec, hGraph, instantiateParams); });
                      })

extern "C" {

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                        size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  using namespace thermocline;
  note_graph_allocates();
  return real<Function::cuGraphAddMemAllocNode>(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  using namespace thermocline;
  const CUresult result = real<Function::cuDeviceGraphMemTrim>(device);
  count_graph_memory();
  return result;
}

}  // extern "C"
