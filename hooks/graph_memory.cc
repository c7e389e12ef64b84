// SPDX-License-Identifier: Apache-2.0
#include "hooks/graph_memory.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "hooks/macros.h"

namespace thermocline {
namespace {

constexpr Bytes kLeastRoom = Bytes{2} << 20;  // the driver takes no less (cuMemGetAllocationGranularity)

std::atomic<bool> allocate{false};

// What each engine has been told of, and what the driver said then.
struct Counted {
  Bytes reserved = 0;
  Bytes told = 0;
};
struct AllCounted {
  std::mutex mutex;
  std::map<const ActiveEngine*, Counted> by_engine;
};
AllCounted& counted_so_far() {
  static auto* const one = new AllCounted;
  return *one;
}

// What can not be counted, since nothing more can leave, is beyond the budget, and is said as any refusal is.
void tell(const ActiveEngine& active, Counted* counted) {
  cuuint64_t reserved = 0;
  if (real<Function::cuDeviceGetGraphMemAttribute>(active.device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) !=
          CUDA_SUCCESS ||
      reserved == counted->reserved) {
    return;
  }
  counted->reserved = reserved;
  if (reserved < counted->told) {
    active.engine->remove_foreign(counted->told - reserved);
  } else if (reserved == counted->told || !active.engine->add_foreign(reserved - counted->told).ok()) {
    return;
  }
  counted->told = reserved;
}

// Calls visit(engine) under its context.
template <class Visit>
void for_each_engine(Visit visit) {
  if (Inside::now() || Runtime::get().broken()) return;
  static_cast<void>(guarded([&] {
    const HeldEngines engines;
    if (engines.none()) return CUDA_SUCCESS;
    const Inside inside;
    const CaptureTruce truce;
    for (const ActiveEngine* active : *engines) {
      const CurrentContext context(*active);
      if (!context.is_refused()) visit(*engines, *active);
    }
    return CUDA_SUCCESS;
  }));
}

}  // namespace

void graphs_allocate() { allocate.store(true, std::memory_order_relaxed); }
bool any_graph_allocates() { return allocate.load(std::memory_order_relaxed); }

void count_graph_memory() {
  if (!any_graph_allocates()) return;
  for_each_engine([](const EngineSet& engines, const ActiveEngine& active) {
    AllCounted& all = counted_so_far();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.by_engine, [&](const auto& entry) { return !engines.has(entry.first); });
    tell(active, &all.by_engine[&active]);
  });
}

GraphRoom::~GraphRoom() {
  if (!began_) return;
  for_each_engine([this](const EngineSet&, const ActiveEngine& active) {
    Bytes& held = held_[active.device];
    if (held > 0) active.engine->remove_foreign(held);
    held = 0;
  });
}

// Twice as much each time, as far as buffers may leave.
bool GraphRoom::grow_on(const ActiveEngine& active) {
  const EngineStatistics now = active.engine->statistics();
  const Bytes taken = now.pinned_bytes + now.foreign_bytes;
  const Bytes most = now.budget_bytes > taken ? now.budget_bytes - taken : 0;
  Bytes& held = held_[active.device];
  const Bytes more = std::min(std::max({held, kLeastRoom, now.budget_bytes / 32}), most);
  if (more < kLeastRoom || !active.engine->add_foreign(more).ok()) return false;
  held += more;
  return active.engine->trim().ok();
}

// Pages that we hold and do not use may be all that is missing.
bool GraphRoom::grow() {
  bool grew = false;
  const bool is_first = !began_;
  began_ = true;
  for_each_engine([&](const EngineSet&, const ActiveEngine& active) {
    grew |= is_first ? active.engine->trim().ok() : grow_on(active);
  });
  return grew;
}

}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream), {
  return with_graph_memory([](Call call) { return call(); }, [&] { return real<kFunction>(hGraphExec, hStream); });
})

THERMOCLINE_HOOK_PAIR(cuGraphInstantiateWithParams, _ptsz,
                      (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams), {
                        return with_graph_memory(
                            [](Call call) { return call(); },
                            [&] { return real<kFunction>(phGraphExec, hGraph, instantiateParams); });
                      })

extern "C" {

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                        size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  using namespace thermocline;
  graphs_allocate();
  return real<Function::cuGraphAddMemAllocNode>(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  using namespace thermocline;
  const CUresult result = real<Function::cuDeviceGraphMemTrim>(device);
  count_graph_memory();
  return result;
}

}  // extern "C"
