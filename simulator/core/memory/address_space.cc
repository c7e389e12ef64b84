// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/address_space.h"

#include <sys/mman.h>

#include <bit>
#include <iterator>

#include "simulator/core/check.h"

namespace simulator {
namespace {

// The entry of an address-ordered map that contains `at`; `size` returns the size of an entry.
template <typename Map, typename Size>
auto covering(Map& map, Address at, Size size) {
  auto entry = map.upper_bound(at);
  if (entry == map.begin()) return map.end();
  --entry;
  return at - entry->first < size(entry->second) ? entry : map.end();
}

Bytes bytes_of(Bytes bytes) { return bytes; }

// Reserved, inaccessible, aligned; 0 when there is no room. Uses the hint if it is free and aligned.
Address reserve_addresses(Bytes bytes, Bytes alignment, Address hint) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hint != 0 && hint % alignment == 0) {
    void* const at = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == reinterpret_cast<void*>(hint)) return hint;
    if (at != MAP_FAILED) munmap(at, bytes);
  }
  const Bytes slack = bytes + alignment;
  if (slack < bytes) return 0;
  void* const raw = mmap(nullptr, slack, PROT_NONE, kFlags, -1, 0);
  if (raw == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<Address>(raw);
  const Address at = round_up(begin, alignment);
  if (at > begin) munmap(raw, at - begin);
  const Address end = at + bytes;
  if (begin + slack > end) munmap(reinterpret_cast<void*>(end), begin + slack - end);
  return at;
}

}  // namespace

AddressSpace::~AddressSpace() {
  for (const auto& [at, mapping] : mappings_) {
    for (Bytes done = 0; done < mapping.bytes; done += kPageBytes) table_.clear(at + done);
  }
  for (const auto& [at, bytes] : reservations_) munmap(reinterpret_cast<void*>(at), bytes);
}

CUresult AddressSpace::reserve(Bytes bytes, Bytes alignment, Address hint, Address* out) {
  if (bytes == 0 || bytes % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && !std::has_single_bit(alignment)) return CUDA_ERROR_INVALID_VALUE;
  const Address at = reserve_addresses(bytes, std::max(alignment, kPageBytes), hint);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations_.emplace(at, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::release(Address at, Bytes bytes) {
  const auto reservation = reservations_.find(at);
  if (reservation == reservations_.end() || reservation->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = mappings_.lower_bound(at);
  if (mapping != mappings_.end() && mapping->first < at + bytes) return CUDA_ERROR_INVALID_VALUE;
  reservations_.erase(reservation);
  munmap(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::map(Address at, Bytes bytes, Bytes offset, PhysicalId id) {
  const PageRun* const run = physical_.find(id);
  if (run == nullptr || offset != 0 || bytes != run->bytes() || at % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto reservation = reservation_at(at);
  if (!reservation || at + bytes > reservation->begin + reservation->bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto next = mappings_.lower_bound(at);
  if (next != mappings_.end() && next->first < at + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (mapping_at(at)) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = mappings_.emplace_hint(next, at, Mapping{bytes, id, *run, Rights()});
  physical_.mapped(id);
  set_entries(at, mapping->second);
  return CUDA_SUCCESS;
}

void AddressSpace::set_entries(Address at, const Mapping& mapping) {
  for (std::uint32_t page = 0; page < mapping.run.count; ++page) {
    table_.set_device(at + page * kPageBytes, mapping.run.first + page, mapping.rights);
  }
}

AddressSpace::Mappings::iterator AddressSpace::whole_mappings(Address at, Bytes bytes) {
  const auto first = mappings_.find(at);
  if (bytes == 0) return mappings_.end();
  Address expected = at;
  for (auto mapping = first; mapping != mappings_.end() && mapping->first == expected && expected < at + bytes;
       ++mapping) {
    expected += mapping->second.bytes;
  }
  return expected == at + bytes ? first : mappings_.end();
}

// Runs that are contiguous in the store and have the same access are mapped with one call.
CUresult AddressSpace::set_rights(Address at, Bytes bytes, Rights rights, Rights mask) {
  const auto changed = [&](Rights before) {
    return Rights{static_cast<std::uint16_t>((before.bits & ~mask.bits) | (rights.bits & mask.bits))};
  };
  auto mapping = whole_mappings(at, bytes);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  while (mapping != mappings_.end() && mapping->first < at + bytes) {
    const Address begin = mapping->first;
    PageRun joined{mapping->second.run.first, 0};
    const Access shown = changed(mapping->second.rights).of_any();
    while (mapping != mappings_.end() && mapping->first < at + bytes &&
           mapping->second.run.first == joined.first + joined.count &&
           changed(mapping->second.rights).of_any() == shown) {
      joined.count += mapping->second.run.count;
      mapping->second.rights = changed(mapping->second.rights);
      set_entries(mapping->first, mapping->second);
      ++mapping;
    }
    if (!contents_.show(begin, joined, shown)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult AddressSpace::unmap(Address at, Bytes bytes) {
  auto mapping = whole_mappings(at, bytes);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  contents_.hide(at, bytes);
  while (mapping != mappings_.end() && mapping->first < at + bytes) {
    for (Bytes done = 0; done < mapping->second.bytes; done += kPageBytes) table_.clear(mapping->first + done);
    physical_.unmapped(mapping->second.id);
    mapping = mappings_.erase(mapping);
  }
  return CUDA_SUCCESS;
}

std::optional<Span> AddressSpace::reservation_at(Address at) const {
  const auto entry = covering(reservations_, at, bytes_of);
  if (entry == reservations_.end()) return std::nullopt;
  return Span{entry->first, entry->second};
}

std::optional<Span> AddressSpace::mapping_at(Address at) const {
  const auto entry = covering(mappings_, at, [](const Mapping& mapping) { return mapping.bytes; });
  if (entry == mappings_.end()) return std::nullopt;
  return Span{entry->first, entry->second.bytes};
}

std::optional<PhysicalId> AddressSpace::physical_at(Address at) const {
  const auto entry = covering(mappings_, at, [](const Mapping& mapping) { return mapping.bytes; });
  if (entry == mappings_.end()) return std::nullopt;
  return entry->second.id;
}

std::vector<PhysicalId> AddressSpace::physical_in(Address at, Bytes bytes) const {
  std::vector<PhysicalId> found;
  auto entry = covering(mappings_, at, [](const Mapping& mapping) { return mapping.bytes; });
  for (Address next = at; entry != mappings_.end() && entry->first <= next && next - at < bytes; ++entry) {
    found.push_back(entry->second.id);
    next = entry->first + entry->second.bytes;
  }
  return found;
}

void AddressSpace::validate() const {
  Address end = 0;
  for (const auto& [at, bytes] : reservations_) {
    SIMULATOR_CHECK(at >= end, "reservations do not overlap");
    end = at + bytes;
    for (Address page = at; page < end; page += kPageBytes) {
      const PageTable::Entry entry = table_.entry(page);
      const auto mapping = covering(mappings_, page, [](const Mapping& m) { return m.bytes; });
      SIMULATOR_CHECK(PageTable::is_device(entry) == (mapping != mappings_.end()),
                      "mapped addresses have pages, others none");
      if (mapping == mappings_.end()) continue;
      const auto index = static_cast<std::uint32_t>((page - mapping->first) / kPageBytes);
      SIMULATOR_CHECK(PageTable::page(entry) == mapping->second.run.first + index,
                      "the page table shows the mapping's pages");
      SIMULATOR_CHECK(PageTable::access(entry) == mapping->second.rights.of_any(),
                      "the page table shows the mapping's access");
    }
  }
  for (const auto& [at, mapping] : mappings_) {
    const auto reservation = reservation_at(at);
    SIMULATOR_CHECK(reservation && at + mapping.bytes <= reservation->begin + reservation->bytes,
                    "a mapping lies in one reservation");
  }
}

}  // namespace simulator
