// SPDX-License-Identifier: Apache-2.0
// Queries about memory in every possible way, with and without pointers for the results; prints the results relative to
// the buffers, so that they do not depend on addresses.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

constexpr std::size_t kBytes = 5 << 20;

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", call, static_cast<int>(result));
  std::exit(2);
}
#define CHECK(call) check(call, #call)

void say_range(const char* name, CUdeviceptr buffer, CUdeviceptr address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult result = cuMemGetAddressRange(&base, &bytes, address);
  std::printf("%s: %d", name, static_cast<int>(result));
  if (result == CUDA_SUCCESS) std::printf(" base %lld bytes %zu", static_cast<long long>(base - buffer), bytes);
  std::printf("\n");
  std::printf("  base alone %d, bytes alone %d\n", static_cast<int>(cuMemGetAddressRange(&base, nullptr, address)),
              static_cast<int>(cuMemGetAddressRange(nullptr, &bytes, address)));
}

template <class T>
void say_attribute(const char* name, CUpointer_attribute attribute, CUdeviceptr address, T minus) {
  T value{};
  const CUresult result = cuPointerGetAttribute(&value, attribute, address);
  std::printf("  %s: %d", name, static_cast<int>(result));
  if (result == CUDA_SUCCESS) std::printf(" %lld", static_cast<long long>(value - minus));
  std::printf("\n");
}

void say_attributes(CUdeviceptr buffer, CUdeviceptr address) {
  say_attribute<unsigned>("memory type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, 0);
  say_attribute<CUdeviceptr>("device pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address, buffer);
  say_attribute<int>("device", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address, 0);
  say_attribute<unsigned>("managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, address, false);
  say_attribute<CUdeviceptr>("range begin", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address, buffer);
  say_attribute<std::size_t>("range bytes", CU_POINTER_ATTRIBUTE_RANGE_SIZE, address, 0);
  say_attribute<unsigned>("mapped", CU_POINTER_ATTRIBUTE_MAPPED, address, false);
  void* host = nullptr;
  std::printf("  host pointer: %d\n",
              static_cast<int>(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address)));
  CUcontext context = nullptr;
  CUcontext current = nullptr;
  CHECK(cuCtxGetCurrent(&current));
  if (cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address) == CUDA_SUCCESS) {
    std::printf("  context is %s\n", context == current ? "current" : "another");
  }
}

void say_many(CUdeviceptr buffer, CUdeviceptr address) {
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  unsigned type = 99;
  std::size_t bytes = 99;
  CUdeviceptr begin = 99;
  void* data[] = {&type, &bytes, &begin};
  const CUresult result = cuPointerGetAttributes(3, attributes, data, address);
  std::printf("  many: %d type %u bytes %zu begin %s\n", static_cast<int>(result), type, bytes,
              begin == 0        ? "none"
              : begin == buffer ? "the buffer's"
                                : "another");
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr buffers[8] = {};
  for (CUdeviceptr& buffer : buffers) CHECK(cuMemAlloc(&buffer, kBytes));
  // With a small budget the first ones have been evicted by now.
  for (const CUdeviceptr buffer : buffers) CHECK(cuMemsetD8(buffer, 1, kBytes));
  CHECK(cuCtxSynchronize());
  for (const CUdeviceptr buffer : {buffers[0], buffers[7]}) {
    say_range("begin", buffer, buffer);
    say_range("inside", buffer, buffer + kBytes - 1);
    say_attributes(buffer, buffer + 12345);
    say_many(buffer, buffer + 1);
  }
  unsigned char byte = 0;
  say_many(0, reinterpret_cast<CUdeviceptr>(&byte));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  CHECK(cuMemGetInfo(&free_bytes, &total_bytes));
  std::printf("free <= total: %d\n", free_bytes <= total_bytes ? 1 : 0);
  std::fprintf(stderr, "queries: free=%zu total=%zu\n", free_bytes, total_bytes);
  CHECK(cuMemcpyDtoH(&byte, buffers[0] + kBytes - 1, 1));
  std::printf("last byte %d\n", byte);
  // Attributes of a buffer end with it, even if the next one has the same address.
  unsigned on = 1;
  CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffers[7]));
  say_attribute<unsigned>("synchronous", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffers[7], 0);
  CHECK(cuMemFree(buffers[7]));
  CHECK(cuMemAlloc(&buffers[7], kBytes));
  say_attribute<unsigned>("synchronous again", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffers[7], 0);
  for (const CUdeviceptr buffer : buffers) CHECK(cuMemFree(buffer));
  // A double free: programs can not rely on the error code, but it is an error.
  std::printf("twice: %s\n", cuMemFree(buffers[0]) == CUDA_SUCCESS ? "done" : "refused");
  CUdeviceptr none = 0;
  std::printf("nothing: %d nowhere: %s\n", static_cast<int>(cuMemFree(none)),
              cuMemAlloc(nullptr, 100) == CUDA_SUCCESS ? "done" : "refused");
  std::printf("no bytes: %s\n", cuMemAlloc(&none, 0) == CUDA_SUCCESS ? "done" : "refused");
}
