// SPDX-License-Identifier: Apache-2.0
// Memory in stream order, and the pools behind it.
#include <limits>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "pools";
constexpr int kPools = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
constexpr std::size_t kMebi = std::size_t{1} << 20;
constexpr std::uint32_t kWordCount = 1024;
#define ORDERED "Stream Ordered Memory Allocator: "

CUmemoryPool make_pool(Session& session, std::size_t most = 0) {
  const Driver& cu = session.driver();
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.maxSize = most;
  CUmemoryPool pool = nullptr;
  OK(cu.cuMemPoolCreate(&pool, &properties));
  return pool;
}

cuuint64_t number(Session& session, CUmemoryPool pool, CUmemPool_attribute attribute) {
  const Driver& cu = session.driver();
  cuuint64_t value = 0;
  OK(cu.cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

CUdeviceptr take(Session& session, CUmemoryPool pool, std::size_t bytes, CUstream in) {
  const Driver& cu = session.driver();
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocFromPoolAsync(&at, bytes, pool, in));
  return at;
}

void keep_freed(Session& session, CUmemoryPool pool) {
  const Driver& cu = session.driver();
  cuuint64_t all = std::numeric_limits<cuuint64_t>::max();
  OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

RULE(ordered_memory_serves_its_stream, "Memory allocated in a stream is usable by later work in that stream",
     ORDERED "cuMemAllocAsync", .needs = kPools) {
  const CUstream in = session.stream();
  session.function("conformance_add");
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, 4 * kWordCount, in));
  OK(cu.cuMemsetD32Async(at, 3, kWordCount, in));
  session.add(at, kWordCount, 4, in);
  std::vector<std::uint32_t> found(kWordCount);
  OK(cu.cuMemcpyDtoHAsync(found.data(), at, 4 * kWordCount, in));
  OK(cu.cuMemFreeAsync(at, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(found == std::vector<std::uint32_t>(kWordCount, 7), "every word");
}

RULE(ordered_memory_serves_others_by_event,
     "Another stream may use the memory after an event recorded after the allocation, and the owner may free it after "
     "an event of that stream",
     ORDERED "cuMemAllocAsync, cuMemFreeAsync", .needs = kPools) {
  const CUdeviceptr out = session.allocate(4 * kWordCount);
  const CUstream owner = session.stream(), user = session.stream();
  const CUevent ready = session.event(), used = session.event();
  session.prepare_busy();
  session.function("conformance_add");
  session.keep_busy(owner);
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, 4 * kWordCount, owner));
  OK(cu.cuMemsetD32Async(at, 1, kWordCount, owner));
  OK(cu.cuEventRecord(ready, owner));
  OK(cu.cuStreamWaitEvent(user, ready, 0));
  session.add(at, kWordCount, 1, user);
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, user));
  OK(cu.cuEventRecord(used, user));
  OK(cu.cuStreamWaitEvent(owner, used, 0));
  OK(cu.cuMemFreeAsync(at, owner));
  session.synchronize();
  HOLDS(session.holds(out, kWordCount, 2), "both wrote before it was read");
}

RULE(freed_memory_is_used_after_the_free,
     "Work submitted before a free in the same stream has exclusive use of the memory, whoever gets it next",
     ORDERED "cuMemFreeAsync", .needs = kPools) {
  const CUdeviceptr out = session.allocate(8 * 4 * kWordCount);
  const CUstream in = session.stream();
  session.prepare_busy();
  session.keep_busy(in);
  for (std::uint32_t i = 0; i < 8; ++i) {
    CUdeviceptr at = 0;
    OK(cu.cuMemAllocAsync(&at, 4 * kWordCount, in));
    OK(cu.cuMemsetD32Async(at, 50 + i, kWordCount, in));
    OK(cu.cuMemcpyDtoDAsync(out + i * 4 * kWordCount, at, 4 * kWordCount, in));
    OK(cu.cuMemFreeAsync(at, in));
  }
  OK(cu.cuStreamSynchronize(in));
  for (std::uint32_t i = 0; i < 8; ++i)
    HOLDS(session.holds(out + i * 4 * kWordCount, kWordCount, 50 + i), "each round read what it wrote");
}

RULE(free_joined_by_event_in_another_stream, "Memory may be freed in another stream than its own, after an event",
     ORDERED "cuMemFreeAsync", .needs = kPools) {
  const CUdeviceptr out = session.allocate(4 * kWordCount);
  const CUstream one = session.stream(), two = session.stream();
  const CUevent used = session.event();
  session.prepare_busy();
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, 4 * kWordCount, one));
  session.keep_busy(one);
  OK(cu.cuMemsetD32Async(at, 15, kWordCount, one));
  OK(cu.cuMemcpyDtoDAsync(out, at, 4 * kWordCount, one));
  OK(cu.cuEventRecord(used, one));
  OK(cu.cuStreamWaitEvent(two, used, 0));
  OK(cu.cuMemFreeAsync(at, two));
  CUdeviceptr next = 0;
  OK(cu.cuMemAllocAsync(&next, 4 * kWordCount, two));
  OK(cu.cuMemsetD32Async(next, 16, kWordCount, two));
  session.synchronize();
  HOLDS(session.holds(out, kWordCount, 15), "the next owner did not disturb the first");
}

RULE(plain_free_takes_ordered_memory, "cuMemFree accepts memory that was allocated in stream order",
     "Memory Management: cuMemFree", .needs = kPools) {
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, 4096, nullptr));
  session.synchronize();
  OK(cu.cuMemFree(at));
}

RULE(ordered_beyond_memory, "An allocation larger than the device's memory is out of memory", ORDERED "cuMemAllocAsync",
     .needs = kPools) {
  std::size_t total = 0;
  OK(cu.cuDeviceTotalMem(&total, 0));
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAllocAsync(&at, 2 * total, session.stream()), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.cuMemAllocAsync(&at, 4096, session.stream()));
}

RULE(default_pool_is_current, "A device's default pool is its current one until another is set",
     ORDERED "cuDeviceGetMemPool", .needs = kPools) {
  CUmemoryPool standard = nullptr, current = nullptr;
  OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
  OK(cu.cuDeviceGetMemPool(&current, 0));
  HOLDS(standard == current, "one pool");
}

RULE(current_pool_serves, "An allocation that names no pool comes from the current one",
     ORDERED "cuDeviceSetMemPool, cuMemAllocAsync", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  OK(cu.cuDeviceSetMemPool(0, pool));
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, 4096, nullptr));
  CUmemoryPool found = nullptr;
  OK(cu.cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
  HOLDS(found == pool, "the pointer tells that pool");
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 4096, "which counts it");
}

RULE(default_pool_stays, "The default pool cannot be destroyed", ORDERED "cuMemPoolDestroy", .open = "which error",
     .needs = kPools) {
  CUmemoryPool pool = nullptr;
  OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
  FAILS(cu.cuMemPoolDestroy(pool));
}

RULE(destroying_the_current_pool_sets_the_default, "When the current pool is destroyed, the default one is current",
     ORDERED "cuMemPoolDestroy", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  OK(cu.cuDeviceSetMemPool(0, pool));
  OK(cu.cuMemPoolDestroy(pool));
  CUmemoryPool standard = nullptr, current = nullptr;
  OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
  OK(cu.cuDeviceGetMemPool(&current, 0));
  HOLDS(standard == current, "the default pool");
}

RULE(destroyed_pool_leaves_memory, "Memory of a destroyed pool is usable until it is freed", ORDERED "cuMemPoolDestroy",
     .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  const CUdeviceptr at = take(session, pool, 4 * kWordCount, nullptr);
  OK(cu.cuMemPoolDestroy(pool));
  OK(cu.cuMemsetD32Async(at, 18, kWordCount, nullptr));
  HOLDS(session.holds(at, kWordCount, 18), "it holds what is written");
  OK(cu.cuMemFreeAsync(at, nullptr));
  session.synchronize();
}

RULE(pool_starts_with_its_defaults,
     "By default a pool keeps nothing at synchronization and allows all three kinds of reuse",
     ORDERED "cuMemPoolSetAttribute", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0, "the release threshold is 0");
  for (const auto attribute :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int value = -1;
    OK(cu.cuMemPoolGetAttribute(pool, attribute, &value));
    HOLDS(value == 1, "the switch is on");
  }
}

RULE(pool_settings_come_back, "Settings of a pool read back as they were set", ORDERED "cuMemPoolSetAttribute",
     .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  cuuint64_t threshold = 123 * kMebi;
  OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 123 * kMebi, "the threshold");
  int off = 0, found = 1;
  OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off));
  OK(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &found));
  HOLDS(found == 0, "the switch");
}

RULE(pool_counts_what_is_used,
     "A pool counts the bytes in use, and none once they are freed and the stream has reached the free",
     ORDERED "cuMemPoolGetAttribute", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  const CUdeviceptr at = take(session, pool, 4 * kMebi, nullptr);
  const cuuint64_t used = number(session, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  HOLDS(used >= 4 * kMebi, "at least what was asked for");
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= used, "backed by as much at least");
  OK(cu.cuMemFreeAsync(at, nullptr));
  session.synchronize();
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0, "none in use");
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= used, "the highest is remembered");
}

RULE(high_water_is_set_back_to_zero_only, "The high water mark can be reset by setting 0, and not set to anything else",
     ORDERED "cuMemPoolSetAttribute", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  OK(cu.cuMemFreeAsync(take(session, pool, 8 * kMebi, nullptr), nullptr));
  session.synchronize();
  cuuint64_t value = 1;
  ANSWERS(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value), CUDA_ERROR_INVALID_VALUE);
  value = 0;
  OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) < 8 * kMebi, "the old mark is gone");
}

RULE(counters_are_read_only, "The current usage of a pool cannot be set", ORDERED "cuMemPoolSetAttribute",
     .open = "which error", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  cuuint64_t value = 0;
  FAILS(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
}

RULE(threshold_keeps_memory,
     "Below its release threshold a pool keeps freed memory across synchronization; trimming returns it",
     ORDERED "cuMemPoolSetAttribute, cuMemPoolTrimTo", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  keep_freed(session, pool);
  OK(cu.cuMemFreeAsync(take(session, pool, 64 * kMebi, nullptr), nullptr));
  session.synchronize();
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 64 * kMebi, "kept");
  OK(cu.cuMemPoolTrimTo(pool, 0));
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0, "given back");
}

RULE(trim_keeps_what_it_is_told, "Trimming leaves a pool at least the bytes that it is told to keep",
     ORDERED "cuMemPoolTrimTo", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  keep_freed(session, pool);
  CUdeviceptr at[4] = {};
  for (CUdeviceptr& one : at) one = take(session, pool, 32 * kMebi, nullptr);
  for (const CUdeviceptr one : at) OK(cu.cuMemFreeAsync(one, nullptr));
  session.synchronize();
  OK(cu.cuMemPoolTrimTo(pool, 40 * kMebi));
  HOLDS(number(session, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 40 * kMebi, "40 MiB are there");
}

RULE(trim_leaves_what_is_used, "Trimming returns nothing that is allocated", ORDERED "cuMemPoolTrimTo",
     .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  const CUdeviceptr at = take(session, pool, 4 * kWordCount, nullptr);
  OK(cu.cuMemsetD32Async(at, 19, kWordCount, nullptr));
  session.synchronize();
  OK(cu.cuMemPoolTrimTo(pool, 0));
  HOLDS(session.holds(at, kWordCount, 19), "the memory is as it was");
}

RULE(synchronising_gives_back,
     "Above its release threshold a pool tries to return memory when the context is synchronized",
     ORDERED "cuMemPoolSetAttribute", .open = "how much: it is an attempt", .needs = kPools) {
  const CUmemoryPool pool = make_pool(session);
  OK(cu.cuMemFreeAsync(take(session, pool, 64 * kMebi, nullptr), nullptr));
  session.synchronize();
  const cuuint64_t left = number(session, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  session.note("reserved afterwards: " + std::to_string(left));
  HOLDS(left <= 64 * kMebi, "no more than there was");
}

RULE(pool_has_a_limit, "A pool created with a maximum size serves no more than that", ORDERED "cuMemPoolCreate",
     .needs = kPools) {
  const CUmemoryPool pool = make_pool(session, 64 * kMebi);
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAllocFromPoolAsync(&at, 256 * kMebi, pool, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  take(session, pool, 16 * kMebi, nullptr);
}

RULE(pool_is_open_to_its_device, "A pool's memory is readable and writable by the device it lies on",
     ORDERED "cuMemPoolCreate, cuMemPoolGetAccess", .needs = kPools) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = 0;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  OK(cu.cuMemPoolGetAccess(&flags, make_pool(session), &location));
  HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "reading and writing");
}

}  // namespace
}  // namespace conformance
