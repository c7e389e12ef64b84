// SPDX-License-Identifier: Apache-2.0
// Every kind of copy and set, each between buffers that a small budget has evicted by then.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kPitch = 2048;
constexpr std::size_t kRows = 1024;
constexpr std::size_t kBytes = kPitch * kRows;
constexpr int kBuffers = 8;

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", call, static_cast<int>(result));
  std::exit(2);
}
#define CHECK(call) check(call, #call)

CUdeviceptr buffers[kBuffers];
std::vector<unsigned char> host(kBytes);
int step = 0;

// Cycles through the buffers, so that the next one is the least recently used.
CUdeviceptr next() { return buffers[step++ % kBuffers]; }

void say(const char* what) {
  unsigned long long digest = 0xcbf29ce484222325u;
  for (const CUdeviceptr buffer : buffers) {
    CHECK(cuMemcpyDtoH(host.data(), buffer, kBytes));
    for (const unsigned char byte : host) digest = (digest ^ byte) * 0x100000001b3u;
  }
  std::printf("%s %016llx\n", what, digest);
}

CUDA_MEMCPY2D rows(CUmemorytype from, CUmemorytype to) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = from;
  copy.dstMemoryType = to;
  copy.srcHost = copy.dstHost = host.data();
  copy.srcDevice = next();
  copy.dstDevice = next();
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcXInBytes = 3;
  copy.dstXInBytes = 70;
  copy.dstY = 5;
  copy.WidthInBytes = 901;
  copy.Height = kRows - 10;
  return copy;
}

CUDA_MEMCPY3D layers() {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = next();
  copy.dstDevice = next();
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcHeight = copy.dstHeight = 64;
  copy.srcZ = 1;
  copy.dstY = 2;
  copy.WidthInBytes = 500;
  copy.Height = 60;
  copy.Depth = kRows / 64 - 1;
  return copy;
}

void copy_lines(CUstream stream) {
  CHECK(cuMemcpy(next(), next(), kBytes / 2));
  for (std::size_t i = 0; i < kBytes; ++i) host[i] = static_cast<unsigned char>(i * 7 + static_cast<unsigned>(step));
  CHECK(cuMemcpy(next(), reinterpret_cast<CUdeviceptr>(host.data()), kBytes / 3));
  CHECK(cuMemcpyHtoD(next() + 11, host.data(), kBytes / 4));
  CHECK(cuMemcpyDtoD(next() + 5, next() + 9, kBytes / 5));
  CHECK(cuMemcpyDtoH(host.data() + 1000, next(), kBytes / 2));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoDAsync(next(), next() + 1, kBytes - 1, stream));
  CHECK(cuMemcpyAsync(next(), next(), 12345, stream));
  CHECK(cuMemcpyHtoDAsync(next(), host.data(), kBytes, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoHAsync(host.data(), next(), kBytes / 2, stream));
  CHECK(cuStreamSynchronize(stream));
  say("lines");
}

void copy_shapes(CUstream stream) {
  CUDA_MEMCPY2D on_device = rows(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
  CHECK(cuMemcpy2D(&on_device));
  CUDA_MEMCPY2D upload = rows(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
  CHECK(cuMemcpy2DUnaligned(&upload));
  CUDA_MEMCPY2D download = rows(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
  CHECK(cuMemcpy2D(&download));
  CUDA_MEMCPY3D deep = layers();
  CHECK(cuMemcpy3D(&deep));
  CHECK(cuCtxSynchronize());
  CUDA_MEMCPY2D in_order = rows(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
  CHECK(cuMemcpy2DAsync(&in_order, stream));
  CUDA_MEMCPY3D deep_in_order = layers();
  CHECK(cuMemcpy3DAsync(&deep_in_order, stream));
  CHECK(cuStreamSynchronize(stream));
  say("shapes");
}

void set_all(CUstream stream) {
  CHECK(cuMemsetD8(next() + 1, 0x11, kBytes / 2));
  CHECK(cuMemsetD16(next() + 2, 0x2233, kBytes / 4));
  CHECK(cuMemsetD32(next() + 4, 0x44556677, kBytes / 8));
  CHECK(cuMemsetD2D8(next(), kPitch, 0x88, 33, kRows));
  CHECK(cuMemsetD2D16(next(), kPitch, 0x99aa, 33, kRows));
  CHECK(cuMemsetD2D32(next(), kPitch, 0xbbccddee, 33, kRows));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemsetD8Async(next(), 0x12, 1000, stream));
  CHECK(cuMemsetD16Async(next(), 0x1234, 1000, stream));
  CHECK(cuMemsetD32Async(next(), 0x12345678, 1000, stream));
  CHECK(cuMemsetD2D8Async(next(), kPitch, 0x34, 10, 10, stream));
  CHECK(cuMemsetD2D16Async(next(), kPitch, 0x3456, 10, 10, stream));
  CHECK(cuMemsetD2D32Async(next(), kPitch, 0x3456789a, 10, 10, stream));
  CHECK(cuStreamSynchronize(stream));
  say("sets");
}

void use_pitched_memory() {
  CUdeviceptr at = 0;
  std::size_t pitch = 0;
  CHECK(cuMemAllocPitch(&at, &pitch, 1000, 300, 4));
  std::printf("pitch %s\n", pitch >= 1000 && pitch % 32 == 0 ? "fits" : "does not fit");
  CHECK(cuMemsetD2D8(at, pitch, 9, 1000, 300));
  unsigned char last = 0;
  CHECK(cuMemcpyDtoH(&last, at + 299 * pitch + 999, 1));
  std::printf("last %d\n", last);
  CHECK(cuMemFree(at));
  std::printf("elements of 5 bytes: %s\n",
              cuMemAllocPitch(&at, &pitch, 10, 10, 5) == CUDA_SUCCESS ? "done" : "refused");
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cuMemAlloc(&buffers[i], kBytes));
    CHECK(cuMemsetD8(buffers[i], static_cast<unsigned char>(i), kBytes));
  }
  CHECK(cuCtxSynchronize());
  copy_lines(stream);
  copy_shapes(stream);
  set_all(stream);
  use_pitched_memory();
  CHECK(cuStreamDestroy(stream));
  for (const CUdeviceptr buffer : buffers) CHECK(cuMemFree(buffer));
}
