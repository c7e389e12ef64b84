// SPDX-License-Identifier: Apache-2.0
// Copies whose source is read from its host copy, so that it needs no room on the device: copies of evicted memory to
// the host; and copies within the device, if source and target do not fit there together.
#include <algorithm>

#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

// The unit's contents are its host copy, or will be when the copy out has completed. A copy from pageable memory would make
// the host wait in the program's stream.
bool is_evicted(const EvictionUnit& unit) {
  return unit.host != nullptr && !unit.is_pageable && (unit.state == ResidencyState::kEvicted || unit.hollow);
}

// The part of the range that begins there that the host copy has.
Bytes host_bytes_from(const EvictionUnit& unit, DeviceAddress at) {
  const DeviceAddress end = unit.begin() + unit.host_bytes;
  return is_evicted(unit) && at < end ? end - at : 0;
}

EvictionUnit* unit_at(Residency& residency, const Block& block, DeviceAddress at) {
  for (EvictionUnit& unit : residency.state_of(block).units()) {
    if (unit.begin() <= at && at < unit.begin() + unit.bytes()) return &unit;
  }
  return nullptr;
}

}  // namespace

EvictionUnit* Engine::State::evicted_at(AddressRange range) {
  if (range.bytes == 0 || !residency.any_nonresident()) return nullptr;
  const Block* const block = heap.block_at(range.at);
  EvictionUnit* const unit = block == nullptr ? nullptr : unit_at(residency, *block, range.at);
  return unit != nullptr && range.bytes <= host_bytes_from(*unit, range.at) ? unit : nullptr;
}

Bytes Engine::State::host_copy_run(AddressRange range) {
  if (!residency.any_nonresident()) return range.bytes;
  note_cache_changes();
  for (DeviceAddress at = range.at; at < range.end();) {
    const Block* const block = heap.block_at(at);
    const EvictionUnit* const unit = block == nullptr ? nullptr : unit_at(residency, *block, at);
    if (unit == nullptr) return range.bytes;
    if (const Bytes bytes = host_bytes_from(*unit, at); bytes > 0) {
      return at == range.at ? std::min(bytes, range.bytes) : at - range.at;
    }
    at = unit->begin() + unit->bytes();
  }
  return range.bytes;
}

bool Engine::State::is_on_host(AddressRange range) {
  return host_copy_run(range) != range.bytes || evicted_at(range) != nullptr;
}

Status Engine::State::leave_source_on_host(std::span<const MemoryAccess> list) {
  if (list.size() != 2 || versions != nullptr || host_mappings.full()) return {};
  const bool reads_last = list[1].access == Access::kRead;
  const MemoryAccess source = list[reads_last ? 1 : 0], target = list[reads_last ? 0 : 1];
  const Block* const block = heap.block_at(source.address);
  EvictionUnit* const unit = block == nullptr ? nullptr : unit_at(residency, *block, source.address);
  const bool can = unit != nullptr && source.access == Access::kRead && target.access != Access::kRead &&
                   source.bytes <= unit->begin() + unit->bytes() - source.address && unit->whole->pins == 0 &&
                   unit->pins == 0;
  if (!can) return {};
  // If host memory is short, the request is refused as if this had not been tried.
  if (Status status = residency.make_host_copy(*unit); !status.ok())
    return status.is_out_of_memory() ? Status() : status;
  // A copy that is only in the spill file is of no use here.
  if (unit->host == nullptr || unit->is_pageable) return {};
  begin_operands({&target, 1});
  const bool is_target_too = unit->whole->listed == resolution && unit->whole->wants(*unit);
  if (is_target_too || source.address + source.bytes > unit->begin() + unit->host_bytes) {
    begin_operands(list);
    return {};
  }
  host_read = unit;
  migration.keep(unit);
  host_read_at = source.address;
  return {};
}

const void* Engine::State::host_copy() const {
  if (host_read == nullptr) return nullptr;
  return static_cast<const char*>(host_read->host) + (host_read_at - host_read->begin());
}

// A copy out in flight comes first. A later writer of the unit makes its own copy.
Status Engine::State::read_host_copy(StreamHandle handle) {
  stream = clock.index_of(handle);
  if (migration.has_left(*host_read)) return {};
  return clock.wait(stream, host_read->copy_out);
}

}  // namespace thermocline
