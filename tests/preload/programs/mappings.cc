// SPDX-License-Identifier: Apache-2.0
// A program that maps physical memory itself, as the expandable segments of a framework do, in addition to plain
// allocations. Its mappings are never moved; the other allocations have to make room.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPart = 4 * kMiB;
constexpr int kParts = 3;
constexpr int kBuffers = 6;

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", call, static_cast<int>(result));
  std::exit(2);
}
#define CHECK(call) check(call, #call)

CUmemGenericAllocationHandle create(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemCreate(&handle, kPart, &properties, 0));
  return handle;
}

void say(const char* name, CUdeviceptr at, std::size_t bytes) {
  std::vector<unsigned char> host(bytes);
  CHECK(cuMemcpyDtoH(host.data(), at, bytes));
  unsigned long long digest = 0xcbf29ce484222325u;
  for (const unsigned char byte : host) digest = (digest ^ byte) * 0x100000001b3u;
  std::printf("%s %016llx\n", name, digest);
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr buffers[kBuffers] = {};
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cuMemAlloc(&buffers[i], kPart));
    CHECK(cuMemsetD8(buffers[i], static_cast<unsigned char>(i + 1), kPart));
  }
  CUdeviceptr range = 0;
  CHECK(cuMemAddressReserve(&range, kParts * kPart, 0, 0, 0));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (int i = 0; i < kParts; ++i) {
    const CUmemGenericAllocationHandle handle = create(device);
    CHECK(cuMemMap(range + i * kPart, kPart, 0, handle, 0));
    // The mapping keeps the memory.
    CHECK(cuMemRelease(handle));
    CHECK(cuMemSetAccess(range + i * kPart, kPart, &access, 1));
    CHECK(cuMemsetD8(range + i * kPart, static_cast<unsigned char>(100 + i), kPart));
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kBuffers; ++i) CHECK(cuMemcpyDtoD(buffers[i], range + (i % kParts) * kPart, kPart / 2));
    for (int i = 0; i < kParts; ++i) CHECK(cuMemcpyDtoD(range + i * kPart + kPart / 2, buffers[i + round], kPart / 4));
  }
  say("mapped", range, kParts * kPart);
  for (const CUdeviceptr buffer : buffers) say("buffer", buffer, kPart);
  CHECK(cuMemUnmap(range, kParts * kPart));
  CHECK(cuMemAddressFree(range, kParts * kPart));
  for (const CUdeviceptr buffer : buffers) CHECK(cuMemFree(buffer));
}
