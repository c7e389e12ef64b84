// SPDX-License-Identifier: Apache-2.0
// The facts for the report that an engine makes when it refuses something.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "allocator/host_account.h"
#include "driver/page_size.h"
#include "offload/engine/engine_state.h"
#include "offload/engine/operation_name.h"
#include "offload/engine/report.h"
#include "offload/engine/too_large.h"
#include "offload/residency/unit_size.h"

namespace thermocline {
namespace {

constexpr std::size_t kLargestShown = 5;

constinit thread_local bool was_too_large = false;

using Holders = std::vector<RefusalFacts::Holder>;

template <class Key>
using Sums = std::map<Key, RefusalFacts::Holder>;

template <class Key>
void add(Sums<Key>* sums, const Key& key, Bytes bytes) {
  RefusalFacts::Holder& holder = (*sums)[key];
  holder.bytes += bytes;
  ++holder.buffers;
}

template <class Key, class Name>
Holders sorted(Sums<Key> sums, Name name) {
  Holders all;
  for (auto& [key, holder] : sums) {
    holder.name = name(key);
    all.push_back(holder);
  }
  std::ranges::stable_sort(all, std::greater<>(), &RefusalFacts::Holder::bytes);
  return all;
}

std::string name_of(const StreamClock& clock, StreamIndex stream) {
  if (!clock.is_alive(stream)) return "a stream that is gone";
  const auto handle = static_cast<std::uintptr_t>(clock.handle_of(stream));
  if (handle == 0) return "the default stream, or no stream named";
  char text[64];
  std::snprintf(text, sizeof text, "stream 0x%zx", handle);
  return text;
}

std::vector<RefusalFacts::LargeBlock> largest_of(const Heap& heap) {
  std::vector<RefusalFacts::LargeBlock> all;
  heap.for_each_block([&all](const Block& block) {
    all.push_back({block.begin(), block.live_bytes(), block.live_buffers(), block.mapped()});
  });
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kLargestShown));
  std::ranges::partial_sort(
      all, end, [](const auto& a, const auto& b) { return a.live != b.live ? a.live > b.live : a.at < b.at; });
  all.erase(end, all.end());
  return all;
}

Bytes in_smallest_pages(const Block& block) {
  return round_up(block.is_slab() ? block.bytes() : block.contents_end(), kDefaultPageBytes);
}

}  // namespace

// Adds those buffers that the operation was given or can reach and that share their pages.
void Engine::State::add_small_buffers(RefusalFacts* facts) const {
  std::set<const Buffer*> buffers;
  std::set<const Block*> blocks;
  const auto add_buffer = [&](const Buffer* buffer) {
    if (buffer == nullptr || !buffer->block().is_slab() || !buffers.insert(buffer).second) return;
    facts->small_bytes += buffer->requested();
    if (blocks.insert(&buffer->block()).second) facts->shared_bytes += buffer->block().bytes();
  };
  const auto add_meant = [&](DeviceAddress at) {
    const MeantBuffers meant = heap.meant_by(at);
    add_buffer(meant.within);
    add_buffer(meant.behind);
  };
  for (const MemoryAccess& access : given) {
    if (access.bytes == 0) {
      add_meant(access.address);
    } else if (access.address.value - heap.range_begin().value < heap.range_bytes()) {
      add_buffer(heap.find(access.address));
    }
  }
  for (const DeviceAddress at : reachable) add_meant(at);
  facts->small_buffers = buffers.size();
  facts->shared_blocks = blocks.size();
}

// How the operation accesses the block, if known.
const char* Engine::State::direction_of(const Block& block) const {
  bool reads = false, writes = false;
  for (const MemoryAccess& access : given) {
    const DeviceAddress end = access.address + access.bytes;
    const bool is_in = access.bytes == 0 ? heap.block_meant_by(access.address) == &block
                                         : access.address < block.end() && block.begin() < end;
    if (!is_in) continue;
    if (access.access == Access::kUnknown) return "";
    (access.access == Access::kRead ? reads : writes) = true;
  }
  return reads == writes ? "" : reads ? "read" : "written";
}

// Lists the buffers with pages of their own that the operation was given.
void Engine::State::list_operands(RefusalFacts* facts) const {
  for (std::size_t i = 0; i < named_operands; ++i) {
    const Block& block = *operands[i]->block;
    const Bytes in_pages = operands[i]->wanted_bytes();
    if (block.is_slab()) continue;
    facts->operands.push_back({std::min(block.live_bytes(), in_pages), in_pages, direction_of(block)});
  }
  std::ranges::stable_sort(facts->operands, std::greater<>(), &RefusalFacts::Operand::bytes);
}

// Adds facts about an operation that does not fit by itself.
void Engine::State::add_operands(RefusalFacts* facts) const {
  facts->operation = operation_name(info);
  if (!given_everything) add_small_buffers(facts);
  if (!given_everything) list_operands(facts);
  facts->in_smallest_pages = 0;
  facts->wanted_blocks = operands.size();
  for (std::size_t i = named_operands; i < operands.size() && !given_everything; ++i) {
    ++facts->followed_blocks;
    facts->followed += operands[i]->wanted_bytes();
  }
  for (const BlockState* operand : operands) facts->in_smallest_pages += in_smallest_pages(*operand->block);
  // Blocks that it uses itself may stay.
  for (const BlockState* operand : operands) {
    const bool stays = operand->pins > 0 || operand->block->bytes() < options.min_offload_bytes;
    for (const EvictionUnit& unit : operand->parts()) {
      if (operand->wants(unit) && (stays || unit.pins > 0)) facts->stays -= unit.bytes();
    }
  }
}

// Adds how much others hold under shared limits of host memory.
void Engine::State::add_other_holders(RefusalFacts* facts) const {
  const Bytes own = std::max(host.taken_bytes(), host_claim);
  facts->own_host_limit = options.host_limit_bytes;
  if (const HostAccount* const account = options.host_account; account != nullptr) {
    facts->other_devices = account->limit() - account->left_for(own);
    facts->devices = account->devices();
  }
  const EngineStatistics& now = facts->now;
  facts->other_processes_shared = now.host_shared_bytes - std::min(now.host_shared_bytes, now.host_claimed_bytes);
  facts->other_devices_shared = now.host_claimed_bytes - std::min(now.host_claimed_bytes, own);
}

RefusalFacts Engine::State::facts_of(const char* what, Bytes wanted, bool one_operation) const {
  RefusalFacts facts;
  facts.what = what;
  facts.one_operation = one_operation;
  facts.wanted = wanted;
  facts.page_bytes = heap.page_bytes();
  facts.page_setting = options.page_bytes;
  facts.wanted_pages = round_up(wanted, facts.page_bytes);
  facts.in_smallest_pages = round_up(wanted, kDefaultPageBytes);
  facts.device_total = device_total;
  facts.has_stopped = residency.has_stopped();
  facts.evicts = options.policy->evicts() && !facts.has_stopped;
  facts.min_offload_bytes = options.min_offload_bytes;
  facts.now = collect();
  facts.free_pages = heap.free_bytes();
  facts.address_bytes = heap.address_bytes();
  facts.largest_addresses = heap.largest_free_addresses();
  facts.has_host_fallback = host_mappings.on();
  facts.has_full_fallback = host_mappings.full();
  facts.spills = migration.files() != nullptr;
  facts.largest_unit = largest_unit;
  if (!one_operation) {
    const std::uint64_t pages = facts.wanted_pages / heap.page_bytes();
    facts.largest_unit = std::max(largest_unit, largest_unit_of(pages, heap.page_bytes()));
  }
  facts.host_refused = migration.host_refused();
  add_other_holders(&facts);
  facts.largest_hole = heap.largest_hole();
  facts.largest = largest_of(heap);

  Sums<StreamIndex> streams;
  heap.for_each_block([&](const Block& block) {
    ++facts.blocks;
    facts.live_in_smallest_pages += in_smallest_pages(block);
    if (block.is_slab()) ++facts.slabs;
    const bool is_pinned = residency.pins_of(block) != 0, is_too_small = block.bytes() < options.min_offload_bytes;
    if (is_too_small && !is_pinned) facts.small_stay += block.bytes();
    if (is_too_small || is_pinned) ++facts.staying_blocks;
    heap.for_each_buffer(block, [&](const Buffer& buffer) {
      if (ThreadCache::is_cached(buffer)) return;
      if (block.is_slab()) ++facts.slab_buffers;
      add(&streams, buffer.hint(), buffer.requested());
    });
  });
  facts.stays = pinned_block_bytes + facts.small_stay;
  if (one_operation) add_operands(&facts);
  facts.streams = sorted(std::move(streams), [this](StreamIndex index) { return name_of(clock, index); });
  Sums<std::string> reasons;
  for (const auto& [buffer, pin] : pinned) add(&reasons, std::string(pin.reason), buffer->requested());
  facts.pins = sorted(std::move(reasons), [](const std::string& reason) { return reason; });
  return facts;
}

Status Engine::State::refuse(const char* what, Bytes bytes, bool one_operation) {
  return refuse(facts_of(what, bytes, one_operation));
}

bool take_was_too_large() noexcept { return std::exchange(was_too_large, false); }
void note_too_large() noexcept { was_too_large = true; }

Status Engine::State::refuse_operation(Bytes allocates) {
  Bytes wanted = allocates;
  for (const BlockState* state : operands) wanted += state->wanted_bytes();
  RefusalFacts facts = facts_of("one operation's memory", wanted, true);
  facts.is_its_memory = true;
  facts.allocates = allocates;
  // Others could release all that stays.
  if (allocates == 0 && operand_bytes() - pinned_block_bytes - external_bytes > budget_bytes) note_too_large();
  return refuse(facts);
}

Status Engine::State::refuse(const RefusalFacts& facts) {
  const Bytes held = held_by_other_threads(facts.one_operation);
  const Bytes stays = facts.stays - std::min(held, facts.stays);
  // It fits when the calls of other threads have returned.
  if (held > 0 && stays + facts.wanted_pages + external_bytes <= budget_bytes) return Status::not_ready();
  ++counters.out_of_memory;
  const std::string report = out_of_memory_report(facts);
  if (report_handler != nullptr) {
    report_handler(report);
  } else {
    write_report(report);
  }
  return Status::out_of_memory();
}

}  // namespace thermocline
