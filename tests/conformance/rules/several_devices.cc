// SPDX-License-Identifier: Apache-2.0
// Two devices in one process. The rules begin in the context of device 0.
#include <cstring>
#include <iterator>

#include "tests/conformance/kernels.h"
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "several devices";
constexpr int kMappings = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
constexpr int kPools = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
constexpr std::uint32_t kFew = 1024;  // words
constexpr std::size_t kMuch = std::size_t{64} << 20;
#define GUIDE "Programming Guide: Multi-Device System, "

// Both primary contexts; that of device 0 is current.
struct Two {
  CUcontext contexts[2] = {};

  explicit Two(Session& session) {
    const Driver& cu = session.driver();
    OK(cu.cuCtxGetCurrent(&contexts[0]));
    OK(cu.cuDevicePrimaryCtxRetain(&contexts[1], 1));
  }
  void use(Session& session, int device) const {
    const Driver& cu = session.driver();
    OK(cu.cuCtxSetCurrent(contexts[device]));
  }
};

void need_peers(Session& session, CUdevice device, CUdevice peer) {
  const Driver& cu = session.driver();
  int can = 0;
  OK(cu.cuDeviceCanAccessPeer(&can, device, peer));
  if (can == 0) throw NotSupported{"the two devices can not be peers"};
}

// at[i] += value, by the device of the current context, which loads the kernel.
void add_here(Session& session, CUdeviceptr at, std::uint32_t value, CUstream in) {
  const Driver& cu = session.driver();
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  OK(cu.cuModuleLoadData(&module, kKernels));
  OK(cu.cuModuleGetFunction(&function, module, "conformance_add"));
  std::uint32_t words = kFew;
  session.launch(function, words, in, {&at, &words, &value});
}

// Accessible to that device alone.
CUdeviceptr mapped_on(Session& session, int device) {
  const Driver& cu = session.driver();
  const std::size_t bytes = session.granule();
  CUmemAllocationProp wanted = session.properties();
  wanted.location.id = device;
  CUmemAccessDesc access = {wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  const CUdeviceptr at = session.reserve(bytes);
  OK(cu.cuMemCreate(&handle, bytes, &wanted, 0));
  session.map(at, bytes, handle);
  OK(cu.cuMemSetAccess(at, bytes, &access, 1));
  return at;
}

RULE(devices_have_uuids_of_their_own, "Two devices have different identifiers", "Device Management: cuDeviceGetUuid",
     .start = Start::kDriver, .devices = 2) {
  CUuuid first = {}, second = {};
  OK(cu.cuDeviceGetUuid(&first, 0));
  OK(cu.cuDeviceGetUuid(&second, 1));
  HOLDS(std::memcmp(&first, &second, sizeof first) != 0, "they differ");
}

RULE(primary_contexts_are_of_devices, "Each device has a primary context of its own, which returns the device",
     "Primary Context Management: cuDevicePrimaryCtxRetain", .devices = 2) {
  const Two two(session);
  HOLDS(two.contexts[0] != two.contexts[1], "two contexts");
  CUdevice device = -1;
  two.use(session, 1);
  OK(cu.cuCtxGetDevice(&device));
  HOLDS(device == 1, "the second device");
}

RULE(memory_info_is_of_the_current_device, "Free memory is that of the current context's device",
     "Memory Management: cuMemGetInfo", .devices = 2) {
  const Two two(session);
  const std::size_t first = session.free_memory();
  two.use(session, 1);
  session.allocate(1);  // what a context takes by itself is taken before
  const std::size_t second = session.free_memory();
  session.allocate(kMuch);
  HOLDS(session.free_memory() + kMuch <= second, "the second device has less");
  two.use(session, 0);
  HOLDS(session.free_memory() + kMuch > first, "the first device has what it had");
}

RULE(handle_is_of_the_device_it_names,
     "Physical memory is taken from the device that its properties name, whatever context is current",
     "Virtual Memory Management: cuMemCreate", .needs = kMappings, .devices = 2) {
  const Two two(session);
  two.use(session, 1);
  session.allocate(1);
  const std::size_t before = session.free_memory();
  two.use(session, 0);
  CUmemAllocationProp wanted = session.properties();
  wanted.location.id = 1;
  CUmemGenericAllocationHandle handle = 0;
  OK(cu.cuMemCreate(&handle, kMuch, &wanted, 0));
  CUmemAllocationProp found = {};
  OK(cu.cuMemGetAllocationPropertiesFromHandle(&found, handle));
  HOLDS(found.location.id == 1, "its properties name the device");
  two.use(session, 1);
  HOLDS(session.free_memory() + kMuch <= before, "the second device has less");
}

RULE(access_is_of_one_device, "Access to mapped memory is given to the named device, and to no other",
     "Virtual Memory Management: cuMemSetAccess", .needs = kMappings, .devices = 2) {
  const CUdeviceptr at = mapped_on(session, 0);
  CUmemLocation other = {};
  other.type = CU_MEM_LOCATION_TYPE_DEVICE;
  other.id = 1;
  unsigned long long flags = ~0ull;
  OK(cu.cuMemGetAccess(&flags, &other, at));
  HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the other device has none");
  HOLDS(session.access_of(at) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "the named one has it");
}

RULE(access_reaches_the_other_device, "A device that was given access to another's mapped memory reads and writes it",
     "Virtual Memory Management: cuMemSetAccess", .needs = kMappings, .devices = 2) {
  need_peers(session, 1, 0);
  const Two two(session);
  const CUdeviceptr at = mapped_on(session, 0);
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 1;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cu.cuMemSetAccess(at, session.granule(), &access, 1));
  session.write(at, std::vector<std::uint32_t>(kFew, 3));
  two.use(session, 1);
  add_here(session, at, 4, nullptr);
  session.synchronize();
  two.use(session, 0);
  HOLDS(session.holds(at, kFew, 7), "what the other device wrote is there");
}

RULE(pointer_tells_its_device, "A pointer's device is the one that owns the memory, whatever context is current",
     "Unified Addressing: cuPointerGetAttribute", .devices = 2) {
  const Two two(session);
  two.use(session, 1);
  const CUdeviceptr at = session.allocate(4 * kFew);
  two.use(session, 0);
  int device = -1;
  CUcontext context = nullptr;
  OK(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
  OK(cu.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
  HOLDS(device == 1 && context == two.contexts[1], "the second device's");
}

RULE(peer_copy_needs_no_peer_access, "Memory of one device is copied to another without access between the contexts",
     "Memory Management: cuMemcpyPeer", .devices = 2) {
  const Two two(session);
  const CUdeviceptr from = session.allocate(4 * kFew);
  session.write(from, std::vector<std::uint32_t>(kFew, 5));
  two.use(session, 1);
  const CUdeviceptr to = session.allocate(4 * kFew);
  OK(cu.cuMemcpyPeer(to, two.contexts[1], from, two.contexts[0], 4 * kFew));
  HOLDS(session.holds(to, kFew, 5), "the copy is there");
}

RULE(peer_copy_of_mapped_memory, "Mapped memory is copied between devices if each device has access only to its own",
     "Memory Management: cuMemcpyPeer", .needs = kMappings, .devices = 2) {
  const Two two(session);
  const CUdeviceptr from = mapped_on(session, 0), to = mapped_on(session, 1);
  session.write(from, std::vector<std::uint32_t>(kFew, 6));
  OK(cu.cuMemcpyPeer(to, two.contexts[1], from, two.contexts[0], 4 * kFew));
  two.use(session, 1);
  HOLDS(session.holds(to, kFew, 6), "the copy is there");
}

RULE(plain_copy_between_devices, "A copy that names no contexts goes between allocations of two devices, too",
     "Unified Addressing", .devices = 2) {
  const Two two(session);
  const CUdeviceptr from = session.allocate(4 * kFew);
  session.write(from, std::vector<std::uint32_t>(kFew, 7));
  two.use(session, 1);
  const CUdeviceptr to = session.allocate(4 * kFew);
  OK(cu.cuMemcpy(to, from, 4 * kFew));
  HOLDS(session.holds(to, kFew, 7), "the copy is there");
}

RULE(default_stream_copy_waits_for_both_devices,
     "A copy between two devices in the default stream runs after the earlier work of both",
     GUIDE "Peer-to-Peer Memory Copy", .devices = 2) {
  const Two two(session);
  const CUdeviceptr to = session.allocate(4 * kFew);
  two.use(session, 1);
  const CUdeviceptr from = session.allocate(4 * kFew);
  const CUstream there = session.stream(CU_STREAM_DEFAULT);
  session.keep_busy(there);
  OK(cu.cuMemsetD32Async(from, 8, kFew, there));
  two.use(session, 0);
  OK(cu.cuMemcpyDtoD(to, from, 4 * kFew));
  HOLDS(session.holds(to, kFew, 8), "what the other device was to write");
}

RULE(event_orders_streams_of_two_devices, "A stream waits for an event that another device records",
     GUIDE "Stream and Event Behavior", .devices = 2) {
  const Two two(session);
  const CUdeviceptr from = session.allocate(4 * kFew);
  const CUstream here = session.stream();
  const CUevent written = session.event();
  two.use(session, 1);
  const CUdeviceptr to = session.allocate(4 * kFew);
  const CUstream there = session.stream();
  two.use(session, 0);
  session.keep_busy(here);
  OK(cu.cuMemsetD32Async(from, 9, kFew, here));
  OK(cu.cuEventRecord(written, here));
  two.use(session, 1);
  OK(cu.cuStreamWaitEvent(there, written, 0));
  OK(cu.cuMemcpyPeerAsync(to, two.contexts[1], from, two.contexts[0], 4 * kFew, there));
  OK(cu.cuStreamSynchronize(there));
  HOLDS(session.holds(to, kFew, 9), "the copy is there");
}

RULE(event_is_recorded_in_its_own_context, "An event cannot be recorded in a stream of another context",
     "Event Management: cuEventRecord", .open = "which error", .devices = 2) {
  const Two two(session);
  const CUevent event = session.event();
  two.use(session, 1);
  FAILS(cu.cuEventRecord(event, session.stream()));
}

RULE(no_time_between_two_devices, "There is no elapsed time between events of two devices",
     GUIDE "Stream and Event Behavior", .open = "which error", .devices = 2) {
  const Two two(session);
  const CUevent first = session.event(CU_EVENT_DEFAULT);
  OK(cu.cuEventRecord(first, nullptr));
  OK(cu.cuEventSynchronize(first));
  two.use(session, 1);
  const CUevent second = session.event(CU_EVENT_DEFAULT);
  OK(cu.cuEventRecord(second, nullptr));
  OK(cu.cuEventSynchronize(second));
  float milliseconds = 0;
  FAILS(cu.cuEventElapsedTime(&milliseconds, first, second));
}

RULE(kernel_needs_a_stream_of_its_device, "A kernel is refused in a stream of another device than the current one",
     GUIDE "Stream and Event Behavior", .open = "which error", .devices = 2) {
  const Two two(session);
  const CUfunction function = session.function("conformance_nothing");
  two.use(session, 1);
  const CUstream there = session.stream();
  two.use(session, 0);
  FAILS(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, there, nullptr, nullptr));
}

RULE(copy_takes_any_devices_stream, "A copy may be given to a stream of another device than the current one",
     GUIDE "Stream and Event Behavior", .devices = 2) {
  const Two two(session);
  two.use(session, 1);
  const CUdeviceptr at = session.allocate(4 * kFew);
  const CUstream there = session.stream();
  two.use(session, 0);
  auto* const words = static_cast<std::uint32_t*>(session.pinned(4 * kFew));
  for (std::uint32_t i = 0; i < kFew; ++i) words[i] = 10;
  OK(cu.cuMemcpyHtoDAsync(at, words, 4 * kFew, there));
  OK(cu.cuStreamSynchronize(there));
  two.use(session, 1);
  HOLDS(session.holds(at, kFew, 10), "the copy is there");
}

RULE(stream_keeps_its_context, "A stream returns the context that it was created in, whatever context is current",
     "Stream Management: cuStreamGetCtx", .devices = 2) {
  const Two two(session);
  two.use(session, 1);
  const CUstream there = session.stream();
  two.use(session, 0);
  CUcontext context = nullptr;
  OK(cu.cuStreamGetCtx(there, &context));
  HOLDS(context == two.contexts[1], "the second device's");
}

RULE(peer_access_is_enabled_once, "Access to a peer is enabled once, and disabled only where it was enabled",
     "Peer Context Memory Access: cuCtxEnablePeerAccess", .devices = 2) {
  need_peers(session, 0, 1);
  const Two two(session);
  ANSWERS(cu.cuCtxDisablePeerAccess(two.contexts[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  OK(cu.cuCtxEnablePeerAccess(two.contexts[1], 0));
  ANSWERS(cu.cuCtxEnablePeerAccess(two.contexts[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  OK(cu.cuCtxDisablePeerAccess(two.contexts[1]));
}

RULE(peer_access_opens_all_allocations, "Once enabled, peer access holds for the peer's earlier and later allocations",
     "Peer Context Memory Access: cuCtxEnablePeerAccess", .devices = 2) {
  need_peers(session, 1, 0);
  const Two two(session);
  const CUdeviceptr before = session.allocate(4 * kFew);
  two.use(session, 1);
  OK(cu.cuCtxEnablePeerAccess(two.contexts[0], 0));
  two.use(session, 0);
  const CUdeviceptr later = session.allocate(4 * kFew);
  for (const CUdeviceptr at : {before, later}) {
    session.write(at, std::vector<std::uint32_t>(kFew, 11));
    two.use(session, 1);
    add_here(session, at, 1, nullptr);
    session.synchronize();
    two.use(session, 0);
    HOLDS(session.holds(at, kFew, 12), "what the peer wrote is there");
  }
}

RULE(pool_access_is_given_by_the_pool,
     "Only the pool's own device can access its memory until the pool gives access to another",
     "Stream Ordered Memory Allocator: cuMemPoolSetAccess", .needs = kPools, .devices = 2) {
  need_peers(session, 1, 0);
  CUmemoryPool pool = nullptr;
  OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 1;
  auto flags = CU_MEM_ACCESS_FLAGS_PROT_MAX;
  OK(cu.cuMemPoolGetAccess(&flags, pool, &access.location));
  HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "none");
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cu.cuMemPoolSetAccess(pool, &access, 1));
  OK(cu.cuMemPoolGetAccess(&flags, pool, &access.location));
  HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "to read and write");
}

RULE(ordered_memory_is_of_the_streams_device, "Memory allocated in a stream is of the stream's device",
     "Stream Ordered Memory Allocator: cuMemAllocAsync", .needs = kPools, .devices = 2) {
  const Two two(session);
  two.use(session, 1);
  const CUstream there = session.stream();
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, 4 * kFew, there));
  OK(cu.cuStreamSynchronize(there));
  int device = -1;
  OK(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
  HOLDS(device == 1, "the second device's");
}

RULE(library_variables_are_each_contexts, "A library's variable is a different one in the context of another device",
     "Library Management: cuLibraryGetGlobal", .devices = 2) {
  const Two two(session);
  CUlibrary library = nullptr;
  OK(cu.cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUdeviceptr at[2] = {};
  for (int device = 0; device < 2; ++device) {
    two.use(session, device);
    std::size_t bytes = 0;
    OK(cu.cuLibraryGetGlobal(&at[device], &bytes, library, "conformance_words"));
    HOLDS(session.read(at[device], 4) == std::vector<std::uint32_t>(std::begin(kWords), std::end(kWords)),
          "it holds what it begins with");
  }
  HOLDS(at[0] != at[1], "two variables");
}

}  // namespace
}  // namespace conformance
