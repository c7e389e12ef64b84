// SPDX-License-Identifier: Apache-2.0
// Addresses of graphs, and mapping memory there.
#include "simulator/core/check.h"
#include "simulator/core/machine/machine.h"
#include "simulator/core/machine/machine_state.h"

namespace simulator {

// The reservation ends with an empty page of addresses, as those of heaps do.
CUresult Machine::keep_addresses(Bytes bytes, Address* out) {
  return device().addresses.reserve(bytes + kPageBytes, 0, 0, out);
}

void Machine::give_addresses(Address at, Bytes bytes) {
  const CUresult released = device().addresses.release(at, bytes + kPageBytes);
  SIMULATOR_CHECK(released == CUDA_SUCCESS, "addresses of graphs are given back without memory");
}

void Machine::place(Address at, Bytes bytes, PhysicalId physical) {
  const CUresult mapped = device().addresses.map(at, bytes, 0, physical);
  SIMULATOR_CHECK(mapped == CUDA_SUCCESS, "memory of graphs fits its addresses");
  charge(Cost::kMap);
  charge(Cost::kSetAccess);
}

void Machine::displace(Address at, Bytes bytes) {
  const CUresult unmapped = device().addresses.unmap(at, bytes);
  SIMULATOR_CHECK(unmapped == CUDA_SUCCESS, "addresses of graphs that have memory can lose it");
  charge(Cost::kUnmap);
}

void Machine::open(Address at, Bytes bytes, Rights rights) {
  const CUresult given = device().addresses.set_rights(at, bytes, rights, Rights::of_all(Access::kReadWrite));
  SIMULATOR_CHECK(given == CUDA_SUCCESS, "memory of graphs can be opened");
  device().contents->zero(at, bytes);
}

void Machine::close(Address at, Bytes bytes) {
  const CUresult taken = device().addresses.set_rights(at, bytes, Rights(), Rights::of_all(Access::kReadWrite));
  SIMULATOR_CHECK(taken == CUDA_SUCCESS, "memory of graphs can be closed");
}

}  // namespace simulator
