// SPDX-License-Identifier: Apache-2.0
// Physical memory, addresses, allocations, host memory, buffers.
#include <algorithm>

#include "simulator/core/machine/machine.h"
#include "simulator/core/machine/machine_state.h"

namespace simulator {
namespace {

Time creation_cost(const HostCosts& host, std::uint64_t pages) {
  const auto count = static_cast<Time>(pages);
  return count <= host.create_pages_limit.value ? count * host.create_page.value : host.create_many.value;
}

bool answer(const std::optional<Span>& span, Address* begin, Bytes* bytes) {
  if (!span) return false;
  *begin = span->begin;
  *bytes = span->bytes;
  return true;
}

}  // namespace

// Pending work may free memory when it completes: then the host waits for it, as drivers do under pressure.
CUresult Machine::create_physical(Bytes bytes, PhysicalId* out, PhysicalPlace place, DeviceId on) {
  Device& d = device();
  CUresult result = d.physical.create(bytes, out, place, on);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !d.timeline.idle()) {
    // Does not wait for blocked work: this thread may be the one that unblocks it.
    d.clock.wait_until(d.timeline.finish_all().value_or(0));
    if (error() != CUDA_SUCCESS) return error();
    result = d.physical.create(bytes, out, place, on);
  }
  if (result == CUDA_SUCCESS) d.clock.spend(creation_cost(profile().host, bytes / kPageBytes));
  return result;
}

CUresult Machine::retain_physical(PhysicalId physical) { return device().physical.retain(physical); }
CUresult Machine::release_physical(PhysicalId physical) { return device().physical.release(physical); }
bool Machine::physical_exists(PhysicalId physical) const { return device().physical.exists(physical); }
bool Machine::physical_is_mapped(PhysicalId physical) const { return device().physical.is_mapped(physical); }

Bytes Machine::physical_bytes(PhysicalId physical) const {
  const PageRun* const run = device().physical.find(physical);
  return run == nullptr ? 0 : run->bytes();
}

CUresult Machine::share_physical(PhysicalId physical) { return device().shared.share(physical); }
int Machine::shared_file(PhysicalId physical) const { return device().shared.file_of(physical); }
CUresult Machine::import_physical(int file, PhysicalId* out, DeviceId of) {
  return device().shared.import(file, out, of);
}

CUresult Machine::open_physical(const FilePlace& place, Bytes bytes, PhysicalId* out, DeviceId of) {
  return device().shared.open(place, bytes, out, of);
}

std::optional<FilePlace> Machine::show_to_others(Address at, Bytes bytes) {
  Device& d = device();
  const Address begin = round_down(at, kPageBytes);
  const auto pages = static_cast<std::uint32_t>((round_up(at + bytes, kPageBytes) - begin) / kPageBytes);
  const auto place = d.shared.place_of({PageTable::page(d.table.entry(begin)), pages});
  if (!place) return place;
  Buffers::Slots slots;
  d.buffers.hold_fresh(at, bytes, slots);
  for (const Buffers::Slot slot : slots) {
    if (const auto fresh = d.buffers.take_fresh(slot, true)) d.contents->zero(fresh->address, fresh->bytes);
    d.buffers.let_go(slot);
  }
  return place;
}

Bytes Machine::capacity() const { return device().physical.capacity(); }
Bytes Machine::free_bytes(DeviceId on) const { return device().physical.available(on); }

std::optional<DeviceId> Machine::owner_at(Address at) const {
  const std::optional<PhysicalId> physical = physical_at(at);
  if (!physical || device().physical.on_host(*physical)) return std::nullopt;
  return device().physical.device(*physical);
}

CUresult Machine::reserve(Bytes bytes, Bytes alignment, Address hint, Address* out) {
  Device& d = device();
  ++d.reserves;
  const auto bits = d.settings.faults.address_bits;
  if (bits && bytes > (Bytes{1} << *bits) - d.reserved_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = d.addresses.reserve(bytes, alignment, hint, out);
  if (result != CUDA_SUCCESS) return result;
  ++d.reservations;
  d.reserved_bytes += bytes;
  return result;
}

CUresult Machine::release_addresses(Address at, Bytes bytes) {
  const CUresult result = device().addresses.release(at, bytes);
  if (result != CUDA_SUCCESS) return result;
  --device().reservations;
  device().reserved_bytes -= bytes;
  return result;
}

std::size_t Machine::reservations() const { return device().reservations; }

CUresult Machine::map(Address at, Bytes bytes, Bytes offset, PhysicalId physical) {
  const CUresult result = device().addresses.map(at, bytes, offset, physical);
  if (result != CUDA_SUCCESS) return result;
  charge(Cost::kMap);
  ++device().maps;
  return result;
}

CUresult Machine::set_access(Address at, Bytes bytes, Access access, DeviceId of) {
  Device& d = device();
  if (d.checker && access != Access::kReadWrite && d.addresses.is_mapped(at, bytes)) {
    d.checker->unmaps("cuMemSetAccess", at, bytes, d.timeline.newest());
  }
  const CUresult result =
      d.addresses.set_rights(at, bytes, Rights().with(of, access), Rights().with(of, Access::kReadWrite));
  if (result != CUDA_SUCCESS) return result;
  charge(Cost::kSetAccess);
  charge(Cost::kSetAccessNext, further_mappings(at, bytes, profile().host.set_access_next.value));
  ++device().set_accesses;
  return result;
}

// Operations that have ended by now ended before the unmapping; others may find the memory missing.
CUresult Machine::unmap(Address at, Bytes bytes) {
  if (driver().unmap_waits) {
    if (const CUresult fault = wait_to_free("cuMemUnmap", at, bytes, true); fault != CUDA_SUCCESS) return fault;
  }
  poll();
  Device& d = device();
  if (d.checker && d.addresses.is_mapped(at, bytes)) d.checker->unmaps("cuMemUnmap", at, bytes, d.timeline.newest());
  const std::vector<PhysicalId> mapped = driver().remap_forgets ? physical_in(at, bytes) : std::vector<PhysicalId>();
  const std::uint64_t further = further_mappings(at, bytes, profile().host.unmap_next.value);
  const CUresult result = d.addresses.unmap(at, bytes);
  if (result != CUDA_SUCCESS) return result;
  for (const PhysicalId physical : mapped) {
    const PageRun* const run = d.physical.find(physical);
    if (run != nullptr && !d.physical.is_mapped(physical)) d.contents->discard(*run);
  }
  charge(Cost::kUnmap);
  charge(Cost::kUnmapNext, further);
  ++device().unmaps;
  return result;
}

// The number of mappings in a range after the first one; 0 if they cost nothing.
std::uint64_t Machine::further_mappings(Address at, Bytes bytes, Time cost) const {
  return cost == 0 ? 0 : std::max<std::uint64_t>(physical_in(at, bytes).size(), 1) - 1;
}

std::optional<PhysicalId> Machine::physical_at(Address at) const { return device().addresses.physical_at(at); }

std::vector<PhysicalId> Machine::physical_in(Address at, Bytes bytes) const {
  return device().addresses.physical_in(at, bytes);
}

bool Machine::is_host_physical_at(Address at) const {
  const std::optional<PhysicalId> physical = physical_at(at);
  return physical && device().physical.on_host(*physical);
}

bool Machine::mapping_at(Address at, Address* begin, Bytes* bytes) const {
  return answer(device().addresses.mapping_at(at), begin, bytes);
}

bool Machine::reservation_at(Address at, Address* begin, Bytes* bytes) const {
  return answer(device().addresses.reservation_at(at), begin, bytes);
}

Access Machine::access_at(Address at, DeviceId of) const { return device().table.access(at, of); }

// The driver makes the same calls for itself as a program with handles would, so it costs the same.
CUresult Machine::allocate(Bytes bytes, bool own_pages, Address* out, std::size_t heap) {
  Device& d = device();
  DeviceHeap& from = *d.heaps[heap];
  Bytes new_pages = 0;
  CUresult result = from.allocate(bytes, own_pages, out, &new_pages);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !d.timeline.idle()) {
    if (const CUresult error = finish_all(); error != CUDA_SUCCESS) return error;
    result = from.allocate(bytes, own_pages, out, &new_pages);
  }
  if (result != CUDA_SUCCESS) return result;
  if (d.checker) d.checker->handed_out(*out, bytes);
  if (d.checker && own_pages) d.checker->host_may_access(*out);
  charge(Cost::kStreamCall);
  if (new_pages > 0) {
    d.clock.spend(creation_cost(profile().host, new_pages));
    charge(Cost::kMap);
    charge(Cost::kSetAccess);
  }
  return result;
}

CUresult Machine::wait_to_free(const char* call, Address at, Bytes bytes, bool promised) {
  Device& d = device();
  const std::optional<DeviceId> owner = devices() > 1 && bytes > 0 ? owner_at(at) : std::nullopt;
  if (owner) wait_until([&] { return device().timeline.finish_device(*owner); });
  const CUresult result = owner ? error() : finish_all();
  if (!d.checker) return result;
  if (!promised || d.settings.check == Checking::kStrict) d.checker->frees(call, at, bytes);
  // Not in strict mode: a driver that waits here has waited, whether or not it had to.
  if (d.settings.check != Checking::kStrict) {
    if (owner) {
      d.checker->order().host_knows_device(*owner);
    } else {
      d.checker->order().host_knows_everything();
    }
  }
  return result;
}

CUresult Machine::free(Address at) {
  poll();
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  for (const auto& heap : device().heaps) {
    result = heap->free(at);
    if (result != CUDA_ERROR_INVALID_VALUE) break;
  }
  if (result == CUDA_SUCCESS) charge(Cost::kUnmap);
  return result;
}

bool Machine::allocation_at(Address at, Address* begin, Bytes* bytes) const {
  for (const auto& heap : device().heaps) {
    if (answer(heap->find(at), begin, bytes)) return true;
  }
  return false;
}

std::size_t Machine::create_heap(DeviceId on) { return devices() == 1 ? on : device().add_heap(on); }

void Machine::set_heap_access(std::size_t heap, DeviceId of, Access access) {
  device().heaps[heap]->set_access(of, access);
}

Access Machine::heap_access(std::size_t heap, DeviceId of) const { return device().heaps[heap]->access(of); }

CUresult Machine::allocate_host(Bytes bytes, void** out) { return device().host.allocate(bytes, out); }
CUresult Machine::free_host(void* at) { return device().host.free(at); }
CUresult Machine::register_host(void* at, Bytes bytes) { return device().host.pin(at, bytes); }
CUresult Machine::unregister_host(void* at) { return device().host.unpin(at); }

bool Machine::pinned_at(const void* at, Address* begin, Bytes* bytes) const {
  return answer(device().host.find(reinterpret_cast<Address>(at)), begin, bytes);
}

CUresult Machine::register_buffer(Address at, Bytes bytes, Fresh fresh) {
  return device().buffers.add(at, bytes, fresh) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Machine::unregister_buffer(Address at) {
  return device().buffers.remove(at) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

std::uint64_t Machine::add_texture(const Fetch& fetch, bool writes) { return device().textures.add(fetch, writes); }
void Machine::remove_texture(std::uint64_t handle) { device().textures.remove(handle); }

void Machine::register_heap(Address at, Bytes bytes) { device().buffers.add_heap(at, bytes); }
void Machine::unregister_heap(Address at) { device().buffers.remove_heap(at); }
bool Machine::is_heap(Address at) const { return device().buffers.in_heap(at); }
std::uint64_t Machine::digest(Address at, Bytes bytes) const { return device().contents->digest(at, bytes); }
std::optional<Buffer> Machine::buffer_at(Address at) const { return device().buffers.find(at); }

}  // namespace simulator
