/* SPDX-License-Identifier: Apache-2.0
 * misuse HOW: does one thing wrong with a buffer, or nothing (clean). What the driver says to it does not matter.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector_types.h>

#define BYTES 5000u

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "misuse: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

static const char* const kScribble =
    ".version 8.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry scribble(.param .u64 at, .param .u64 offset)\n{\n  ret;\n}\n";

/* Writes to memory that only the kernel knows. */
__attribute__((visibility("default"))) void simulated_scribble(void** arguments, dim3 grid, dim3 block) {
  char* at = *(char**)arguments[0];
  (void)grid;
  (void)block;
  at[*(unsigned long long*)arguments[1]] ^= 0x55;
}

static CUfunction scribble;

static void launch(CUdeviceptr at, unsigned long long offset) {
  void* arguments[] = {&at, &offset};
  REQUIRE(cuLaunchKernel(scribble, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
}

/* Frees enough for kept buffers to be really freed. */
static void come_and_go(void) {
  for (int i = 0; i < 300; ++i) {
    CUdeviceptr buffer;
    REQUIRE(cuMemAlloc(&buffer, 512) == CUDA_SUCCESS && cuMemFree(buffer) == CUDA_SUCCESS);
  }
}

__attribute__((noinline, visibility("default"))) void allocates(CUdeviceptr* out, size_t bytes) {
  REQUIRE(cuMemAlloc(out, bytes) == CUDA_SUCCESS);
}
__attribute__((noinline, visibility("default"))) void frees(CUdeviceptr buffer) {
  REQUIRE(cuMemFree(buffer) == CUDA_SUCCESS);
}

int main(int count, char** arguments) {
  static char host[BYTES];
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUdeviceptr a, b, c;
  const char* how = count > 1 ? arguments[1] : "";
  REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
  REQUIRE(cuModuleLoadData(&module, kScribble) == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&scribble, module, "scribble") == CUDA_SUCCESS);
  allocates(&a, BYTES);
  allocates(&b, BYTES);
  allocates(&c, 1004);
  REQUIRE(cuMemsetD8(a, 7, BYTES) == CUDA_SUCCESS && cuMemsetD8(b, 8, BYTES) == CUDA_SUCCESS);
  launch(a, BYTES - 1);
  if (strcmp(how, "past") == 0) cuMemsetD8(a, 7, BYTES + 3);
  if (strcmp(how, "past-by-2") == 0) cuMemsetD16(a, 7, BYTES / 2 + 1);
  if (strcmp(how, "past-by-4") == 0) cuMemsetD32(a, 7, BYTES / 4 + 1);
  if (strcmp(how, "past-in-rows") == 0) cuMemsetD2D32(a, 1000, 7, 251, BYTES / 1000);
  if (strcmp(how, "past-by-half-a-value") == 0) cuStreamWriteValue64(NULL, c + 1000, 7, 0);
  if (strcmp(how, "past-by-half-a-value-waited-for") == 0) cuStreamWaitValue64(NULL, c + 1000, 0, 0);
  if (strcmp(how, "inside") == 0) cuMemFree(a + 16);
  if (strcmp(how, "kernel-past") == 0) launch(a, BYTES);
  if (strcmp(how, "recorded") == 0) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr d;
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    allocates(&d, BYTES);
    REQUIRE(cuMemsetD8Async(d, 9, BYTES, stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && cuGraphDestroy(graph) == CUDA_SUCCESS);
    frees(d);
  }
  if (strcmp(how, "new") == 0) {
    allocates(&a, BYTES);
    launch(a, 0);
  }
  REQUIRE(cuMemcpyDtoH(host, a, BYTES) == CUDA_SUCCESS);
  if (strcmp(how, "kernel-after-many") == 0) {
    /* More than is kept with a budget of 24 MiB. */
    for (int i = 0; i < 12; ++i) {
      CUdeviceptr large;
      REQUIRE(cuMemAlloc(&large, 1u << 20) == CUDA_SUCCESS && cuMemFree(large) == CUDA_SUCCESS);
    }
  }
  printf("%d %d\n", host[0], host[BYTES - 1]);
  frees(a);
  if (strcmp(how, "twice") == 0) REQUIRE(cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
  if (strcmp(how, "after") == 0) cuMemcpyDtoH(host, a, BYTES);
  if (strncmp(how, "kernel-after", 12) == 0) launch(a, 100);
  come_and_go();
  frees(b);
  frees(c);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  return 0;
}
