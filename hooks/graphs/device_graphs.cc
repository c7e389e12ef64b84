// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/device_graphs.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "driver/locks.h"
#include "hooks/graphs/graph_execs.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/operands/escaped.h"
#include "hooks/pointers/tables_in_place.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {
namespace {

constexpr const char* kDeviceLaunches = "a graph names it that the device launches";

struct DeviceGraphs {
  Mutex mutex{"graphs of the device", lock_level::kLeaf};
  std::unordered_map<CUgraphExec, std::vector<PinnedBuffer>> pinned THERMOCLINE_GUARDED_BY(mutex);
};
DeviceGraphs& device_graphs() { return process_lifetime<DeviceGraphs>(); }

std::vector<PinnedBuffer> exchange(CUgraphExec exec, std::vector<PinnedBuffer> now) {
  const MutexLock lock(device_graphs().mutex);
  return std::exchange(device_graphs().pinned[exec], std::move(now));
}

// Each buffer is pinned once for `before` and once for `now`: buffers in both can be unpinned at once.
void let_go(const std::vector<PinnedBuffer>& before, const std::vector<PinnedBuffer>& now) {
  std::set<std::pair<const ActiveEngine*, std::uint64_t>> still;
  for (const PinnedBuffer& buffer : now) still.insert({buffer.active, buffer.number});
  std::vector<PinnedBuffer> later;
  for (const PinnedBuffer& buffer : before) {
    if (still.contains({buffer.active, buffer.number})) {
      buffer.unpin();
    } else {
      later.push_back(buffer);
    }
  }
  unpin_later(later);
}

}  // namespace

CUresult pin_for_device(const GraphContents& contents, Call call, PinnedBuffers* pinned) {
  THERMOCLINE_LOG_ONCE(LogLevel::kInfo, "a graph is launched by the device; what it names stays on the device");
  AccessList accesses;
  for (const auto& [node, one] : contents) {
    if (!one.is_known) {
      THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                           "a graph that the device launches has a node that can not be read; it is refused");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (const MemoryAccess& access : one.accesses) accesses.add(access);
  }
  const HeldEngines engines;
  if (engines.none()) return call();
  // The tables as they are now: nobody can read them again when the device launches the graph.
  for (const auto& [node, one] : contents) add_tables_in_place(*engines, one.words_in_place, &accesses);
  accesses.filter([&](DeviceAddress at) { return engines->owner(at) != nullptr; });
  if (accesses.empty()) return call();
  if (Runtime::get().broken()) return CUDA_ERROR_UNKNOWN;
  if (CUresult result = pinned->pin(*engines, accesses, kDeviceLaunches); result != CUDA_SUCCESS) return result;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  for (const ActiveEngine* active : *engines) {
    if (const AccessList part = part_of(accesses, *active); !part.empty()) remember_kept(*active->engine, part);
  }
  return result;
}

void device_graph_changed(CUgraphExec exec, PinnedBuffers& pinned) {
  const std::vector<PinnedBuffer> now = pinned.take();
  let_go(exchange(exec, now), now);
}

// If anything fails here, no buffer that the graph names is unpinned.
void device_graph_changed_in_part(CUgraphExec exec, PinnedBuffers& pinned) {
  const std::vector<PinnedBuffer> part = pinned.take();
  const GraphNames names = names_of(exec);
  const HeldEngines engines;
  PinnedBuffers all;
  const bool known =
      names.are_all && !engines.none() && all.pin(*engines, names.accesses, kDeviceLaunches) == CUDA_SUCCESS;
  std::vector<PinnedBuffer> now = known ? all.take() : std::vector<PinnedBuffer>{};
  std::vector<PinnedBuffer> before = exchange(exec, now);
  before.insert(before.end(), part.begin(), part.end());
  if (known) {
    let_go(before, now);
  } else {
    exchange(exec, std::move(before));
  }
}

CUresult destroy_device_graph(CUgraphExec exec, Call call) {
  std::vector<PinnedBuffer> before;
  {
    const MutexLock lock(device_graphs().mutex);
    if (const auto found = device_graphs().pinned.find(exec); found != device_graphs().pinned.end()) {
      before = std::move(found->second);
      device_graphs().pinned.erase(found);
    }
  }
  const CUresult result = call();
  if (before.empty()) return result;
  return guarded([&] {
    if (result == CUDA_SUCCESS) {
      unpin_later(before);
    } else {
      exchange(exec, std::move(before));
    }
    return result;
  });
}

}  // namespace thermocline
