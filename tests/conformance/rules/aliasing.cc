// SPDX-License-Identifier: Apache-2.0
// One handle mapped at several addresses. Operations through one address see what operations that have ended before
// wrote through another one; the rules require no more than that.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "aliasing";
constexpr int kMapping = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
#define ALIASING "Programming Guide: Virtual Memory Management, Virtual Aliasing Support"

struct Pair {
  std::size_t bytes;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr a, b;
};

// One handle at two addresses of different reservations, both accessible.
Pair alias(Session& session) {
  Pair pair{session.granule(), 0, 0, 0};
  pair.handle = session.create(pair.bytes);
  for (CUdeviceptr* at : {&pair.a, &pair.b}) {
    *at = session.reserve(pair.bytes);
    session.map(*at, pair.bytes, pair.handle);
    session.grant(*at, pair.bytes);
  }
  return pair;
}

RULE(alias_shows_copies, "Data copied in through one address is copied out through the other", ALIASING,
     .needs = kMapping) {
  const Pair pair = alias(session);
  session.write(pair.a, {1, 2, 3});
  session.synchronize();
  HOLDS((session.read(pair.b, 3) == std::vector<std::uint32_t>{1, 2, 3}), "the second address shows them");
  session.write(pair.b, {4});
  session.synchronize();
  HOLDS(session.holds(pair.a, 1, 4), "and the first what is written through the second");
}

RULE(alias_shows_sets,
     "Data that a set wrote through one address is read through the other once the stream is synchronized", ALIASING,
     .needs = kMapping) {
  const Pair pair = alias(session);
  const CUstream in = session.stream();
  OK(cu.cuMemsetD32Async(pair.a, 0x5a5a, pair.bytes / 4, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(pair.b, pair.bytes / 4, 0x5a5a), "every word");
}

RULE(alias_shows_kernels_in_a_stream,
     "A kernel reads through one address what the kernel before it wrote through the other", ALIASING,
     .needs = kMapping) {
  const Pair pair = alias(session);
  const CUdeviceptr out = session.allocate(4096);
  const CUstream in = session.stream();
  OK(cu.cuMemsetD32Async(pair.a, 5, 1024, in));
  for (int i = 0; i < 4; ++i) {
    session.add(pair.a, 1024, 1, in);
    session.add(pair.b, 1024, 10, in);
  }
  CUdeviceptr to = out, from = pair.a;
  std::uint32_t words = 1024;
  session.launch(session.function("conformance_copy"), words, in, {&to, &from, &words});
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(out, 1024, 5 + 4 + 40), "all eight steps are in it");
}

RULE(alias_across_streams,
     "An event orders a write through one address before a read through the other in another stream", ALIASING,
     .needs = kMapping) {
  const Pair pair = alias(session);
  const CUdeviceptr out = session.allocate(4096);
  const CUstream writer = session.stream(), reader = session.stream();
  const CUevent written = session.event();
  OK(cu.cuMemsetD32(pair.a, 0, 1024));
  OK(cu.cuMemsetD32(out, 0, 1024));
  session.synchronize();
  session.keep_busy(writer);
  session.function("conformance_add");
  session.add(pair.a, 1024, 77, writer);
  OK(cu.cuEventRecord(written, writer));
  OK(cu.cuStreamWaitEvent(reader, written, 0));
  OK(cu.cuMemcpyDtoDAsync(out, pair.b, 4096, reader));
  OK(cu.cuStreamSynchronize(reader));
  HOLDS(session.holds(out, 1024, 77), "the reader has what the writer wrote");
}

RULE(alias_within_a_reservation, "Both addresses may lie in one reservation", ALIASING, .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr at = session.reserve(4 * bytes);
  session.map(at, bytes, handle);
  session.map(at + 3 * bytes, bytes, handle);
  session.grant(at, bytes);
  session.grant(at + 3 * bytes, bytes);
  session.write(at, {8});
  session.synchronize();
  HOLDS(session.holds(at + 3 * bytes, 1, 8), "the other end shows it");
}

RULE(alias_access_is_each_mappings_own, "Access given at one address does not apply at the other", ALIASING,
     .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr a = session.reserve(bytes), b = session.reserve(bytes);
  session.map(a, bytes, handle);
  session.map(b, bytes, handle);
  session.grant(a, bytes);
  HOLDS(session.access_of(b) == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the second has none");
}

RULE(alias_goes_alone, "Unmapping one address does not change the other", ALIASING, .needs = kMapping) {
  const Pair pair = alias(session);
  OK(cu.cuMemRelease(pair.handle));
  session.write(pair.a, {12});
  session.synchronize();
  OK(cu.cuMemUnmap(pair.a, pair.bytes));
  session.mapped(pair.bytes);
  HOLDS(session.holds(pair.b, 1, 12), "the memory is there");
  session.write(pair.b, {13});
  HOLDS(session.holds(pair.b, 1, 13), "and can be written");
}

RULE(alias_takes_memory_once, "A second mapping of a handle takes no memory",
     "Virtual Memory Management: cuMemCreate, cuMemMap", .open = "memory for the driver's own records; up to 32 MiB",
     .needs = kMapping) {
  const std::size_t bytes = (std::size_t{64} << 20);
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const std::size_t before = session.free_memory();
  for (int i = 0; i < 4; ++i) {
    const CUdeviceptr at = session.reserve(bytes);
    session.map(at, bytes, handle);
    session.grant(at, bytes);
  }
  HOLDS(session.free_memory() + (std::size_t{32} << 20) > before, "as much is free as before");
}

RULE(alias_two_handles_change_places, "Two handles can be exchanged between two addresses: contents go with the handle",
     ALIASING, .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle one = session.create(bytes), two = session.create(bytes);
  const CUdeviceptr a = session.reserve(bytes), b = session.reserve(bytes);
  session.map(a, bytes, one);
  session.map(b, bytes, two);
  session.grant(a, bytes);
  session.grant(b, bytes);
  session.write(a, {1});
  session.write(b, {2});
  session.synchronize();
  OK(cu.cuMemUnmap(a, bytes));
  OK(cu.cuMemUnmap(b, bytes));
  session.map(a, bytes, two);
  session.map(b, bytes, one);
  session.grant(a, bytes);
  session.grant(b, bytes);
  HOLDS(session.holds(a, 1, 2) && session.holds(b, 1, 1), "each address shows the other's contents");
}

RULE(alias_copy_onto_itself, "A copy from one address to the other of the same memory changes nothing", ALIASING,
     .open = "whether such a copy, whose ends overlap, is allowed; it may be refused", .needs = kMapping) {
  const Pair pair = alias(session);
  session.write(pair.a, {64, 65});
  session.synchronize();
  const CUresult result = cu.cuMemcpyDtoD(pair.b, pair.a, 8);
  ANSWERS(result, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  session.synchronize();
  HOLDS((session.read(pair.a, 2) == std::vector<std::uint32_t>{64, 65}), "the contents are the same");
}

}  // namespace
}  // namespace conformance
