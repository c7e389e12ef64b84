// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/session.h"

#include <algorithm>

#include "tests/conformance/kernels.h"

namespace conformance {
namespace {

constexpr std::size_t kBusyBytes = std::size_t{32} << 20;
constexpr int kBusyCopies = 12;  // at 50 GB/s some 8 ms: thousands of calls long

}  // namespace

// Lets the macros be used in members, too.
#define session (*this)

void Session::begin(const Rule& rule) {
  if (rule.start == Start::kNothing) return;
  OK(cu_.cuInit(0));
  if (rule.needs != 0 && attribute(static_cast<CUdevice_attribute>(rule.needs)) == 0)
    throw NotSupported{"device attribute " + std::to_string(rule.needs) + " is 0"};
  int devices = 0;
  OK(cu_.cuDeviceGetCount(&devices));
  if (devices < rule.devices) throw NotSupported{"there are not " + std::to_string(rule.devices) + " devices"};
  if (rule.start == Start::kDriver) return;
  CUcontext context = nullptr;
  OK(cu_.cuDevicePrimaryCtxRetain(&context, 0));
  OK(cu_.cuCtxSetCurrent(context));
}

void Session::require(CUresult result, const char* call, std::initializer_list<CUresult> allowed) {
  const std::string name = name_of(cu_, result);
  const bool is_allowed = std::ranges::find(allowed, result) != allowed.end();
  if (allowed.size() > 1) note(std::string(call) + ": " + name);
  if (is_allowed) return;
  if (result == CUDA_ERROR_NOT_SUPPORTED) throw NotSupported{std::string(call) + " answered " + name};
  std::string expected;
  for (const CUresult one : allowed) expected += (expected.empty() ? "" : " or ") + name_of(cu_, one);
  throw Disagreement{std::string(call) + " answered " + name + "; expected was " + expected};
}

void Session::require_failure(CUresult result, const char* call) {
  note(std::string(call) + ": " + name_of(cu_, result));
  if (result == CUDA_ERROR_NOT_SUPPORTED) throw NotSupported{std::string(call) + " answered CUDA_ERROR_NOT_SUPPORTED"};
  if (result == CUDA_SUCCESS) throw Disagreement{std::string(call) + " succeeded; expected was an error"};
}

void Session::require_refusal(CUresult result, const char* call) {
  if (!failed(result, call)) throw Disagreement{std::string(call) + " succeeded; expected was an error"};
}

bool Session::failed(CUresult result, const char* call) {
  note(std::string(call) + ": " + name_of(cu_, result));
  return result != CUDA_SUCCESS;
}

void Session::require_that(bool holds, const char* sentence) {
  if (!holds) throw Disagreement{std::string("this does not hold: ") + sentence};
}

int Session::attribute(CUdevice_attribute attribute) {
  int value = 0;
  OK(cu_.cuDeviceGetAttribute(&value, attribute, 0));
  return value;
}

CUdeviceptr Session::allocate(std::size_t bytes) {
  CUdeviceptr at = 0;
  OK(cu_.cuMemAlloc(&at, bytes));
  return at;
}

void* Session::pinned(std::size_t bytes) {
  void* at = nullptr;
  OK(cu_.cuMemHostAlloc(&at, bytes, 0));
  return at;
}

void Session::write(CUdeviceptr to, const std::vector<std::uint32_t>& words) {
  OK(cu_.cuMemcpyHtoD(to, words.data(), words.size() * sizeof(words[0])));
}

std::vector<std::uint32_t> Session::read(CUdeviceptr from, std::size_t words) {
  std::vector<std::uint32_t> result(words);
  OK(cu_.cuMemcpyDtoH(result.data(), from, words * sizeof(result[0])));
  return result;
}

bool Session::holds(CUdeviceptr at, std::size_t words, std::uint32_t value) {
  return std::ranges::all_of(read(at, words), [=](std::uint32_t word) { return word == value; });
}

std::size_t Session::free_memory() {
  std::size_t free = 0, total = 0;
  OK(cu_.cuMemGetInfo(&free, &total));
  return free;
}

CUmemAllocationProp Session::properties() {
  CUmemAllocationProp result = {};
  result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  result.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  result.location.id = 0;
  return result;
}

std::size_t Session::granule() {
  const CUmemAllocationProp wanted = properties();
  std::size_t bytes = 0;
  OK(cu_.cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return bytes;
}

CUdeviceptr Session::reserve(std::size_t bytes) {
  CUdeviceptr at = 0;
  OK(cu_.cuMemAddressReserve(&at, bytes, 0, 0, 0));
  return at;
}

CUmemGenericAllocationHandle Session::create(std::size_t bytes) {
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  OK(cu_.cuMemCreate(&handle, bytes, &wanted, 0));
  return handle;
}

void Session::map(CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  OK(cu_.cuMemMap(at, bytes, 0, handle, 0));
}

void Session::grant(CUdeviceptr at, std::size_t bytes, CUmemAccess_flags flags) { OK(set_access(at, bytes, flags)); }

CUresult Session::set_access(CUdeviceptr at, std::size_t bytes, CUmemAccess_flags flags) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = flags;
  return cu_.cuMemSetAccess(at, bytes, &access, 1);
}

unsigned long long Session::access_of(CUdeviceptr at) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = 0;
  unsigned long long flags = ~0ull;
  OK(cu_.cuMemGetAccess(&flags, &location, at));
  return flags;
}

CUdeviceptr Session::mapped(std::size_t bytes) {
  const CUdeviceptr at = reserve(bytes);
  map(at, bytes, create(bytes));
  grant(at, bytes);
  return at;
}

CUstream Session::stream(unsigned flags) {
  CUstream result = nullptr;
  OK(cu_.cuStreamCreate(&result, flags));
  return result;
}

CUevent Session::event(unsigned flags) {
  CUevent result = nullptr;
  OK(cu_.cuEventCreate(&result, flags));
  return result;
}

void Session::prepare_busy() {
  if (busy_from_ != nullptr) return;
  busy_from_ = pinned(kBusyBytes);
  busy_to_ = allocate(kBusyBytes);
}

void Session::keep_busy(CUstream in) {
  prepare_busy();
  for (int i = 0; i < kBusyCopies; ++i) OK(cu_.cuMemcpyHtoDAsync(busy_to_, busy_from_, kBusyBytes, in));
}

void Session::synchronize() { OK(cu_.cuCtxSynchronize()); }

CUfunction Session::function(const char* name) {
  if (module_ == nullptr) OK(cu_.cuModuleLoadData(&module_, kKernels));
  CUfunction result = nullptr;
  OK(cu_.cuModuleGetFunction(&result, module_, name));
  return result;
}

void Session::launch(CUfunction function, unsigned threads, CUstream in, std::initializer_list<void*> parameters) {
  std::vector<void*> list(parameters);
  OK(cu_.cuLaunchKernel(function, (threads + 127) / 128, 1, 1, 128, 1, 1, 0, in, list.data(), nullptr));
}

void Session::add(CUdeviceptr at, std::uint32_t words, std::uint32_t value, CUstream in) {
  launch(function("conformance_add"), words, in, {&at, &words, &value});
}

#undef session

}  // namespace conformance
