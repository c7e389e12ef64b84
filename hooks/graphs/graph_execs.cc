// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/graph_execs.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/pointers/uploads.h"
#include "hooks/runtime/counters.h"

namespace thermocline {
namespace {

std::atomic<bool> device_updatable{false};

// The union over all nodes, recomputed when they have changed.
struct Summary {
  bool is_known = true;
  bool may_write_host = false;
  std::vector<MemoryAccess> accesses;
  std::vector<Move> moves, first;
  std::vector<std::uint64_t> words_in_place;
  std::vector<GraphKernel> kernels;
  GraphAllocation largest;
};

struct Executable {
  GraphContents nodes;
  bool device_launches = false;
  // Two nodes were given child graphs with the same nodes, so it cannot be determined which of these has changed.
  bool is_ambiguous = false;
  // Nodes that have other handles now may be disabled.
  bool has_lost_disabled = false;
  bool is_summed = false;
  bool is_new = true;  // not launched since the last change
  Summary summary;
};

struct Executables {
  Mutex mutex{"executable graphs", lock_level::kLeaf};
  std::unordered_map<CUgraphExec, Executable> all THERMOCLINE_GUARDED_BY(mutex);
};
Executables& executables() { return process_lifetime<Executables>(); }

auto key_of(const MemoryAccess& memory_access) {
  return std::make_tuple(memory_access.address.value, memory_access.bytes, memory_access.access);
}
std::uint64_t key_of(std::uint64_t word) { return word; }
auto key_of(const Move& m) {
  return std::make_tuple(m.to, m.from, m.bytes, m.rows, m.layers, m.to_pitch, m.from_pitch, m.to_layer, m.from_layer);
}

// Addresses come first, because they are the same in every run of the program; names may lie at any address.
std::vector<std::uint64_t> key_of(const GraphKernel& kernel) {
  std::vector<std::uint64_t> key;
  key.reserve(kernel.accesses.size() + 1);
  for (const MemoryAccess& memory_access : kernel.accesses) key.push_back(memory_access.address.value);
  key.push_back(reinterpret_cast<std::uintptr_t>(kernel.name));
  return key;
}

template <class Of>
void sort_each_once(std::vector<Of>* list) {
  std::ranges::sort(*list, {}, [](const Of& one) { return key_of(one); });
  const auto is_same = [](const Of& one, const Of& other) { return key_of(one) == key_of(other); };
  list->erase(std::unique(list->begin(), list->end(), is_same), list->end());
}

// A node may run after others or not at all, so none of its writes counts as overwriting a whole range.
MemoryAccess as_of_a_graph(MemoryAccess memory_access) {
  if (memory_access.access == Access::kWrite) memory_access.access = Access::kUnknown;
  return memory_access;
}

bool is_disabled(const GraphContents& nodes, const NodeContents& contents) {
  for (const NodeContents* at = &contents;;) {
    if (!at->is_enabled) return true;
    const auto parent = at->parent == nullptr ? nodes.end() : nodes.find(at->parent);
    if (parent == nodes.end()) return false;
    at = &parent->second;
  }
}

const Summary& summary_of(Executable& exec) {
  if (exec.is_summed) return exec.summary;
  Summary sum;
  sum.is_known = !exec.is_ambiguous;
  for (const auto& [node, contents] : exec.nodes) {
    if (is_disabled(exec.nodes, contents)) continue;
    sum.is_known = sum.is_known && contents.is_known;
    sum.may_write_host |= contents.may_write_host || !contents.is_known;
    if (contents.allocates.bytes > sum.largest.bytes) sum.largest = contents.allocates;
    for (const MemoryAccess& memory_access : contents.accesses) sum.accesses.push_back(as_of_a_graph(memory_access));
    sum.moves.insert(sum.moves.end(), contents.moves.begin(), contents.moves.end());
    if (contents.comes_first) sum.first.insert(sum.first.end(), contents.moves.begin(), contents.moves.end());
    sum.words_in_place.insert(sum.words_in_place.end(), contents.words_in_place.begin(), contents.words_in_place.end());
    if (contents.is_kernel && contents.accesses.size() > 1)
      sum.kernels.push_back({contents.name, contents.stores_pointers, contents.accesses});
  }
  sort_each_once(&sum.accesses);
  sort_each_once(&sum.moves);
  sort_each_once(&sum.kernels);
  sort_each_once(&sum.words_in_place);
  exec.summary = std::move(sum);
  exec.is_summed = true;
  return exec.summary;
}

bool has_disabled(const GraphContents& nodes) {
  return std::ranges::any_of(nodes, [](const auto& one) { return !one.second.is_enabled; });
}

// Whether some of what lies within was disabled.
bool forget_within(GraphContents* nodes, CUgraphNode parent) {
  bool were_disabled = false;
  std::vector<CUgraphNode> within;
  for (const auto& [node, contents] : *nodes) {
    if (contents.parent == parent) within.push_back(node);
  }
  for (const CUgraphNode node : within) {
    were_disabled |= !nodes->at(node).is_enabled;
    were_disabled |= forget_within(nodes, node);
    nodes->erase(node);
  }
  return were_disabled;
}

template <class Change>
void change(CUgraphExec exec, Change change) {
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(exec);
  if (found == known.all.end()) return;
  change(found->second);
  found->second.is_summed = false;
  found->second.is_new = true;
}

}  // namespace

void graph_instantiated(CUgraphExec exec, GraphContents contents, bool device_launches) {
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  known.all[exec] = {.nodes = std::move(contents), .device_launches = device_launches, .summary = {}};
}

void graph_updated(CUgraphExec exec, GraphContents contents) {
  change(exec, [&](Executable& changed) {
    changed.has_lost_disabled |= has_disabled(changed.nodes);
    changed.nodes = std::move(contents);
    changed.is_ambiguous = false;
  });
}

void graph_node_set(CUgraphExec exec, CUgraphNode node, NodeContents contents, const GraphContents& children) {
  change(exec, [&](Executable& changed) {
    // Other nodes may have come after what the node was before.
    for (auto& [other, other_contents] : changed.nodes) other_contents.comes_first = false;
    contents.comes_first = false;
    if (const auto found = changed.nodes.find(node); found != changed.nodes.end()) {
      contents.parent = found->second.parent;
      contents.is_enabled = found->second.is_enabled;
    }
    changed.has_lost_disabled |= forget_within(&changed.nodes, node);
    changed.nodes[node] = std::move(contents);
    for (const auto& [inner, inner_contents] : children) {
      if (changed.nodes.contains(inner)) changed.is_ambiguous = true;
      NodeContents& placed = changed.nodes[inner] = inner_contents;
      if (placed.parent == nullptr) placed.parent = node;
    }
  });
}

void graph_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) {
  change(exec, [&](Executable& changed) {
    if (const auto found = changed.nodes.find(node); found != changed.nodes.end()) {
      found->second.is_enabled = enabled;
    } else if (enabled) {
      // The node had another handle when it was disabled.
      for (auto& [other, contents] : changed.nodes) contents.is_enabled = true;
    } else {
      changed.has_lost_disabled = true;
    }
  });
}

void graph_exec_destroyed(CUgraphExec exec) {
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  known.all.erase(exec);
}

bool may_have_disabled(CUgraphExec exec) {
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(exec);
  return found == known.all.end() || found->second.has_lost_disabled || has_disabled(found->second.nodes);
}

bool device_launches(CUgraphExec exec) {
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(exec);
  return found != known.all.end() && found->second.device_launches;
}

GraphNames names_of(CUgraphExec exec) {
  GraphNames names;
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(exec);
  if (found == known.all.end()) return names;
  names.are_all = !found->second.is_ambiguous;
  for (const auto& [node, contents] : found->second.nodes) {
    names.are_all = names.are_all && contents.is_known;
    for (const MemoryAccess& memory_access : contents.accesses) names.accesses.add(memory_access);
  }
  return names;
}

GraphAccess access_of(CUgraphExec exec) {
  GraphAccess access;
  Executables& known = executables();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(exec);
  if (found == known.all.end()) return access;
  const Summary& sum = summary_of(found->second);
  access.is_known = sum.is_known;
  access.may_write_host = sum.may_write_host;
  access.sources_may_change = sum.may_write_host || found->second.has_lost_disabled;
  access.largest = sum.largest;
  for (const MemoryAccess& memory_access : sum.accesses) access.accesses.add(memory_access);
  const auto searched = static_cast<std::ptrdiff_t>(std::min(sum.moves.size(), kMostSearchedMoves));
  access.moves.assign(sum.moves.begin(), sum.moves.begin() + searched);
  access.beyond.assign(sum.moves.begin() + searched, sum.moves.end());
  if (access.beyond.empty()) access.first = sum.first;
  access.kernels = sum.kernels;
  access.words_in_place = sum.words_in_place;
  if (!std::exchange(found->second.is_new, false)) return access;
  for (std::size_t i = 0; i < access.beyond.size(); ++i) count(Counter::kUntrackedUploads);
  return access;
}

void nodes_change_on_the_device() { device_updatable.store(true, std::memory_order_relaxed); }
bool any_node_changes_on_the_device() { return device_updatable.load(std::memory_order_relaxed); }

}  // namespace thermocline
