// SPDX-License-Identifier: Apache-2.0
// Starting the driver, devices, contexts, error names, and finding entry points.
#include <bit>
#include <cstring>
#include <string_view>
#include <thread>

#include "tests/conformance/session.h"

namespace conformance {
namespace start {

constexpr const char* kSubject = "start";

RULE(calls_before_init_fail, "Before cuInit every other call returns that the driver is not initialized",
     "Initialization: cuInit", .start = Start::kNothing) {
  int count = 0;
  ANSWERS(cu.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAlloc(&at, 4096), CUDA_ERROR_NOT_INITIALIZED);
  CUcontext context = nullptr;
  ANSWERS(cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
}

RULE(init_flags_are_zero, "cuInit takes no flags", "Initialization: cuInit", .start = Start::kNothing) {
  ANSWERS(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

RULE(init_may_be_repeated, "cuInit may be called again", "Initialization: cuInit",
     .open = "the page says only that it comes first", .start = Start::kNothing) {
  OK(cu.cuInit(0));
  OK(cu.cuInit(0));
}

RULE(version_needs_no_init,
     "The driver returns its version before cuInit, as 1000 times the major and 10 times the minor number",
     "Version Management: cuDriverGetVersion", .start = Start::kNothing) {
  int version = 0;
  OK(cu.cuDriverGetVersion(&version));
  HOLDS(version >= 11000 && version % 10 == 0, "a version since 11.0");
  ANSWERS(cu.cuDriverGetVersion(nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace start

namespace devices {

constexpr const char* kSubject = "devices";

RULE(devices_are_numbered_from_zero, "Devices are numbered from 0; a higher number is refused",
     "Device Management: cuDeviceGet", .start = Start::kDriver) {
  int count = 0;
  OK(cu.cuDeviceGetCount(&count));
  HOLDS(count >= 1, "there is one");
  CUdevice device = -1;
  for (int i = 0; i < count; ++i) OK(cu.cuDeviceGet(&device, i));
  ANSWERS(cu.cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
  ANSWERS(cu.cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

RULE(device_attributes_are_checked, "An unknown attribute, or a null pointer for its value, is refused",
     "Device Management: cuDeviceGetAttribute", .start = Start::kDriver) {
  int value = 0;
  ANSWERS(cu.cuDeviceGetAttribute(&value, std::bit_cast<CUdevice_attribute>(1u << 20), 0), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000), CUDA_ERROR_INVALID_DEVICE);
}

RULE(device_limits_are_in_range, "A device's limits are at least those of every device since compute capability 5.0",
     "Programming Guide: Compute Capabilities, Technical Specifications", .start = Start::kDriver) {
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 5, "compute capability 5.0");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32, "32 threads a warp");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024, "1024 threads a block");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) == 64, "64 of them in z");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) == 0x7fffffff, "2^31 - 1 blocks in x");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) == 65535, "65535 in y");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) == 48 << 10,
        "48 KiB of shared memory a block");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) >= 48 << 10, "on request no less");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1, "one address space with the host");
  HOLDS(session.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) >= 1, "a multiprocessor");
}

RULE(device_name_is_cut, "A device's name ends with a zero within the length given",
     "Device Management: cuDeviceGetName", .start = Start::kDriver) {
  char name[8];
  std::memset(name, 'x', sizeof name);
  OK(cu.cuDeviceGetName(name, 4, 0));
  HOLDS(std::memchr(name, 0, 4) != nullptr, "a zero among the first four");
  HOLDS(name[4] == 'x', "nothing behind them was written");
}

RULE(device_has_memory, "A device has memory, and a context has no more of it available",
     "Device Management: cuDeviceTotalMem") {
  std::size_t of_device = 0, free = 0, of_context = 0;
  OK(cu.cuDeviceTotalMem(&of_device, 0));
  OK(cu.cuMemGetInfo(&free, &of_context));
  HOLDS(of_device > 0 && of_context <= of_device, "0 < context's <= device's");
}

}  // namespace devices

namespace contexts {

constexpr const char* kSubject = "contexts";

RULE(calls_need_a_context, "If the driver is initialized and no context is current, memory cannot be allocated",
     "Context Management: cuCtxSetCurrent", .start = Start::kDriver) {
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAlloc(&at, 4096), CUDA_ERROR_INVALID_CONTEXT);
  CUdevice device = 0;
  ANSWERS(cu.cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(no_context_is_null, "If no context is current, the driver returns null for the current context",
     "Context Management: cuCtxGetCurrent", .start = Start::kDriver) {
  auto context = reinterpret_cast<CUcontext>(1);
  OK(cu.cuCtxGetCurrent(&context));
  HOLDS(context == nullptr, "null");
}

RULE(primary_context_is_one, "Each retain of a device's primary context returns the same handle",
     "Primary Context Management: cuDevicePrimaryCtxRetain", .start = Start::kDriver) {
  CUcontext one = nullptr, two = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&one, 0));
  OK(cu.cuDevicePrimaryCtxRetain(&two, 0));
  HOLDS(one != nullptr && one == two, "one handle");
}

RULE(retaining_does_not_make_current, "Retaining the primary context does not make it current",
     "Primary Context Management: cuDevicePrimaryCtxRetain", .start = Start::kDriver) {
  CUcontext primary = nullptr, current = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cu.cuCtxGetCurrent(&current));
  HOLDS(current == nullptr, "none is current");
}

RULE(primary_context_tells_its_state, "The primary context is active while it is retained",
     "Primary Context Management: cuDevicePrimaryCtxGetState", .start = Start::kDriver) {
  unsigned flags = 0;
  int active = -1;
  OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
  HOLDS(active == 0, "inactive before");
  CUcontext context = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
  OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
  HOLDS(active == 1, "active after");
  OK(cu.cuDevicePrimaryCtxRelease(0));
  OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
  HOLDS(active == 0, "inactive at the end");
}

RULE(releasing_what_is_not_retained_fails, "A primary context that was not retained cannot be released",
     "Primary Context Management: cuDevicePrimaryCtxRelease", .start = Start::kDriver) {
  ANSWERS(cu.cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(contexts_are_a_stack, "Contexts are pushed and popped; a pop returns the one that was current",
     "Context Management: cuCtxPushCurrent, cuCtxPopCurrent") {
  CUcontext first = nullptr, second = nullptr, found = nullptr;
  OK(cu.cuCtxGetCurrent(&first));
  OK(cu.cuCtxCreate(&second, nullptr, 0, 0));
  OK(cu.cuCtxGetCurrent(&found));
  HOLDS(found == second, "a new context is current");
  OK(cu.cuCtxPushCurrent(first));
  OK(cu.cuCtxPopCurrent(&found));
  HOLDS(found == first, "the first was on top");
  OK(cu.cuCtxPopCurrent(&found));
  HOLDS(found == second, "then the second");
  OK(cu.cuCtxGetCurrent(&found));
  HOLDS(found == first, "the first is left");
}

RULE(empty_stack_can_not_be_popped, "If no context is current, none can be popped",
     "Context Management: cuCtxPopCurrent", .start = Start::kDriver) {
  CUcontext context = nullptr;
  ANSWERS(cu.cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(setting_null_pops, "Setting the null context removes the current one; if there is none it does nothing",
     "Context Management: cuCtxSetCurrent") {
  CUcontext context = reinterpret_cast<CUcontext>(1);
  OK(cu.cuCtxSetCurrent(nullptr));
  OK(cu.cuCtxGetCurrent(&context));
  HOLDS(context == nullptr, "none is current");
  OK(cu.cuCtxSetCurrent(nullptr));
}

RULE(threads_have_their_own_context, "A new thread has no current context; setting one there changes nothing elsewhere",
     "Context Management: cuCtxSetCurrent") {
  CUcontext mine = nullptr, at_first = reinterpret_cast<CUcontext>(1);
  OK(cu.cuCtxGetCurrent(&mine));
  CUresult asked = CUDA_ERROR_UNKNOWN, set = CUDA_ERROR_UNKNOWN;
  std::thread thread([&] {
    asked = cu.cuCtxGetCurrent(&at_first);
    set = cu.cuCtxSetCurrent(mine);
    if (set == CUDA_SUCCESS) set = cu.cuCtxSetCurrent(nullptr);
  });
  thread.join();
  OK(asked);
  OK(set);
  HOLDS(at_first == nullptr, "none at first");
  CUcontext after = nullptr;
  OK(cu.cuCtxGetCurrent(&after));
  HOLDS(after == mine, "this thread's is what it was");
}

RULE(memory_is_seen_from_every_context, "Memory of one context can be used in another one of the device",
     "Unified Addressing") {
  const CUdeviceptr at = session.allocate(4096);
  session.write(at, {33});
  session.synchronize();
  CUcontext other = nullptr;
  OK(cu.cuCtxCreate(&other, nullptr, 0, 0));
  HOLDS(session.holds(at, 1, 33), "the other context reads it");
}

}  // namespace contexts

namespace errors {

constexpr const char* kSubject = "errors";

RULE(errors_have_names, "An error's name is that of its constant", "Error Handling: cuGetErrorName",
     .start = Start::kNothing) {
  const char* name = nullptr;
  OK(cu.cuGetErrorName(CUDA_SUCCESS, &name));
  HOLDS(std::string_view(name) == "CUDA_SUCCESS", "CUDA_SUCCESS");
  OK(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
  HOLDS(std::string_view(name) == "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_OUT_OF_MEMORY");
  OK(cu.cuGetErrorName(CUDA_ERROR_NOT_READY, &name));
  HOLDS(std::string_view(name) == "CUDA_ERROR_NOT_READY", "CUDA_ERROR_NOT_READY");
}

RULE(unknown_errors_have_no_name, "For a number that is no error both functions fail and return null",
     "Error Handling: cuGetErrorName, cuGetErrorString", .start = Start::kNothing) {
  const auto unknown = std::bit_cast<CUresult>(123456);
  const char* text = "something";
  ANSWERS(cu.cuGetErrorName(unknown, &text), CUDA_ERROR_INVALID_VALUE);
  HOLDS(text == nullptr, "no name");
  text = "something";
  ANSWERS(cu.cuGetErrorString(unknown, &text), CUDA_ERROR_INVALID_VALUE);
  HOLDS(text == nullptr, "no sentence");
}

RULE(errors_have_sentences, "An error has a description", "Error Handling: cuGetErrorString",
     .start = Start::kNothing) {
  const char* text = nullptr;
  OK(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  HOLDS(text != nullptr && *text != '\0', "it is not empty");
}

}  // namespace errors

namespace lookups {

constexpr const char* kSubject = "lookups";
#define LOOKUPS "Driver Entry Point Access: cuGetProcAddress"

// Version 0 stands for the driver's own.
CUresult find(const Driver& cu, const char* name, void** out, CUdriverProcAddressQueryResult* status, int version = 0,
              cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  if (version == 0) cu.cuDriverGetVersion(&version);
  return cu.cuGetProcAddress(name, out, version, flags, status);
}

RULE(lookup_finds, "A function is found by its plain name, and the returned address can be called", LOOKUPS,
     .start = Start::kNothing) {
  void* found = nullptr;
  auto status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  OK(find(cu, "cuDriverGetVersion", &found, &status));
  HOLDS(found != nullptr && status == CU_GET_PROC_ADDRESS_SUCCESS, "found");
  int direct = 0, by_address = 0;
  OK(cu.cuDriverGetVersion(&direct));
  OK(reinterpret_cast<CUresult (*)(int*)>(found)(&by_address));
  HOLDS(direct == by_address, "it is the same function");
}

RULE(lookup_of_unknown_name,
     "A look-up of a name that is no function succeeds with null and reports that there is no such symbol", LOOKUPS,
     .start = Start::kNothing) {
  void* found = &found;
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  OK(find(cu, "cuNoSuchFunction", &found, &status));
  HOLDS(found == nullptr, "null");
  HOLDS(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, "no such symbol");
}

RULE(lookup_takes_base_names, "A name with a version suffix is no base name, and is not found", LOOKUPS,
     .start = Start::kNothing) {
  void* found = &found;
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  OK(find(cu, "cuMemAlloc_v2", &found, &status));
  HOLDS(found == nullptr && status != CU_GET_PROC_ADDRESS_SUCCESS, "not found");
}

RULE(lookup_of_later_function,
     "A look-up of a function newer than the requested version succeeds with null and reports that", LOOKUPS,
     .start = Start::kNothing) {
  void* found = &found;
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  OK(find(cu, "cuMemAllocAsync", &found, &status, 10000));
  HOLDS(found == nullptr, "null");
  HOLDS(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, "the version is not sufficient");
}

RULE(lookup_beyond_the_driver, "A version newer than the driver is refused", LOOKUPS, .start = Start::kNothing) {
  void* found = nullptr;
  int version = 0;
  OK(cu.cuDriverGetVersion(&version));
  ANSWERS(cu.cuGetProcAddress("cuInit", &found, version + 1000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr),
          CUDA_ERROR_INVALID_VALUE);
}

RULE(lookup_needs_no_status, "The pointer for the status may be null", LOOKUPS, .start = Start::kNothing) {
  void* found = nullptr;
  OK(find(cu, "cuInit", &found, nullptr));
  HOLDS(found != nullptr, "found");
}

RULE(lookup_per_thread_falls_back,
     "If per-thread forms are requested, a function without one is found in its plain form", LOOKUPS,
     .start = Start::kNothing) {
  void *plain = nullptr, *per_thread = nullptr;
  OK(find(cu, "cuDeviceGetCount", &plain, nullptr, 0, CU_GET_PROC_ADDRESS_LEGACY_STREAM));
  OK(find(cu, "cuDeviceGetCount", &per_thread, nullptr, 0, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  HOLDS(plain != nullptr && per_thread != nullptr, "both are found");
}

RULE(lookup_per_thread_means_own_stream,
     "In a per-thread form the null stream is the thread's own, in a legacy form the legacy one", LOOKUPS) {
  using GetId = CUresult (*)(CUstream, unsigned long long*);
  void *legacy = nullptr, *per_thread = nullptr;
  OK(find(cu, "cuStreamGetId", &legacy, nullptr, 0, CU_GET_PROC_ADDRESS_LEGACY_STREAM));
  OK(find(cu, "cuStreamGetId", &per_thread, nullptr, 0, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  unsigned long long null_there = 0, null_here = 0, own = 0, shared = 0;
  OK(reinterpret_cast<GetId>(legacy)(nullptr, &null_there));
  OK(reinterpret_cast<GetId>(per_thread)(nullptr, &null_here));
  OK(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &own));
  OK(cu.cuStreamGetId(CU_STREAM_LEGACY, &shared));
  HOLDS(null_there == shared, "the legacy form means the legacy stream");
  HOLDS(null_here == own, "the per-thread form the thread's");
}

}  // namespace lookups
}  // namespace conformance
