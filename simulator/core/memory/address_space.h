// SPDX-License-Identifier: Apache-2.0
// Reservations and mappings, by the rules that CUDA documents for cuMemAddressReserve, cuMemMap, cuMemSetAccess,
// cuMemUnmap and cuMemAddressFree. Wrong use changes nothing and returns the documented error.
//
// Invariants (validate()): reservations and mappings do not overlap; each mapping lies in one reservation; the page
// table has, for each address of a mapping, the page of its run with its access, and nothing for all other addresses of
// a reservation.
#pragma once

#include <cuda.h>

#include <map>
#include <optional>
#include <vector>

#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/page_table.h"
#include "simulator/core/memory/physical.h"

namespace simulator {

struct Span {
  Address begin = 0;
  Bytes bytes = 0;
};

class AddressSpace {
 public:
  AddressSpace(PageTable& table, PhysicalMemory& physical, Contents& contents)
      : table_(table), physical_(physical), contents_(contents) {}
  ~AddressSpace();  // returns all reservations to the system

  CUresult reserve(Bytes bytes, Bytes alignment, Address hint, Address* out);
  CUresult release(Address at, Bytes bytes);
  CUresult map(Address at, Bytes bytes, Bytes offset, PhysicalId id);
  // For the devices whose bits are set in `mask`; the others keep their rights.
  CUresult set_rights(Address at, Bytes bytes, Rights rights, Rights mask);
  CUresult unmap(Address at, Bytes bytes);

  bool is_mapped(Address at, Bytes bytes) { return whole_mappings(at, bytes) != mappings_.end(); }
  std::optional<Span> reservation_at(Address at) const;
  std::optional<Span> mapping_at(Address at) const;
  std::optional<PhysicalId> physical_at(Address at) const;
  // The runs that are mapped from `at` on, up to the first gap and at most `bytes` further.
  std::vector<PhysicalId> physical_in(Address at, Bytes bytes) const;
  bool is_reserved(Address at) const { return reservation_at(at).has_value(); }

  // Calls visit(address, bytes, rights) for each mapping of device memory.
  template <typename Visit>
  void for_device_mappings(Visit visit) const {
    for (const auto& [at, mapping] : mappings_) {
      if (!physical_.on_host(mapping.id)) visit(at, mapping.bytes, mapping.rights);
    }
  }

  void validate() const;

 private:
  struct Mapping {
    Bytes bytes = 0;
    PhysicalId id = 0;
    PageRun run;
    Rights rights;
  };
  using Mappings = std::map<Address, Mapping>;

  // The first mapping of [at, at + bytes) if that range consists of whole adjacent mappings, else end().
  Mappings::iterator whole_mappings(Address at, Bytes bytes);
  // The device has no access, and the system's mapping is inaccessible.
  void set_entries(Address at, const Mapping& mapping);

  PageTable& table_;
  PhysicalMemory& physical_;
  Contents& contents_;
  std::map<Address, Bytes> reservations_;
  Mappings mappings_;
};

}  // namespace simulator
