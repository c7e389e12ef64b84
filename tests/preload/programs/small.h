// SPDX-License-Identifier: Apache-2.0
// Shared by the small programs of the subfolders: a context, kernels without a host implementation (they run their PTX,
// or with made-up results the simulated device mixes what their parameters name), buffers that together are larger than
// the budget of the tests, and printing them. A driver call that fails ends the program with status 2.
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers,modernize-use-nullptr,modernize-redundant-void-arg): C reads it, too.
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/preload/programs/small_kernels.h"

#define BUFFERS 8
#define BYTES ((size_t)4 << 20)

#define CHECK(call)                                                       \
  do {                                                                    \
    const CUresult check_result = (call);                                 \
    if (check_result != CUDA_SUCCESS) {                                   \
      fprintf(stderr, "program: %d from %s\n", (int)check_result, #call); \
      exit(2);                                                            \
    }                                                                     \
  } while (0)

// For calls that the driver may refuse: the result is printed, so it must be the same under the library.
#define TELL(call) printf("%s: %d\n", #call, (int)(call))

static CUcontext context;
static CUmodule image;
static CUfunction mix;
static CUdeviceptr buffers[BUFFERS];

static inline CUfunction kernel(const char* name) {
  CUfunction found = NULL;
  CHECK(cuModuleGetFunction(&found, image, name));
  return found;
}

static inline void begin(void) {
  CUdevice device = 0;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&image, kKernels));
  mix = kernel("mix");
}

static inline void end(void) {
  CHECK(cuCtxSynchronize());
  CHECK(cuModuleUnload(image));
  CHECK(cuDevicePrimaryCtxRelease(0));
}

// A different pattern for each seed; the caller frees it.
static inline void* pattern(size_t bytes, uint32_t seed) {
  uint32_t* words = (uint32_t*)malloc(bytes);
  for (size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = (uint32_t)(i * 2654435761u) ^ (seed * 40503u);
  return words;
}

static inline void fill(CUdeviceptr to, size_t bytes, uint32_t seed) {
  void* words = pattern(bytes, seed);
  CHECK(cuMemcpyHtoD(to, words, bytes));
  free(words);
}

static inline void make_buffers(void) {
  for (uint32_t i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemAlloc(&buffers[i], BYTES));
    fill(buffers[i], BYTES, i);
  }
  // A copy from pageable memory returns when it has been staged; streams that do not wait for stream 0 may run before
  // it.
  CHECK(cuCtxSynchronize());
}

// The first `bytes` of both buffers. The grid of BYTES: 64 blocks of 128 threads.
static inline void launch_mix(CUfunction function, CUstream stream, CUdeviceptr out, CUdeviceptr in, size_t bytes) {
  const unsigned threads = (unsigned)(bytes / BYTES_PER_THREAD), block = threads < 128 ? threads : 128;
  void* parameters[] = {&out, &in};
  CHECK(cuLaunchKernel(function, threads / block, 1, 1, block, 1, 1, 0, stream, parameters, NULL));
}

static inline void mix_on(CUstream stream, CUdeviceptr out, CUdeviceptr in) { launch_mix(mix, stream, out, in, BYTES); }

// Each buffer once as target, so that all of them are evicted and fetched.
static inline void mix_all(CUstream stream) {
  for (int i = 0; i < BUFFERS; ++i) mix_on(stream, buffers[i], buffers[(i + 3) % BUFFERS]);
}

static inline void show_bytes(const char* name, const void* data, size_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  uint64_t digest = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; ++i) digest = (digest ^ at[i]) * 0x100000001b3u;
  printf("%s %016llx\n", name, (unsigned long long)digest);
}

static inline void show(const char* name, CUdeviceptr from, size_t bytes) {
  void* data = malloc(bytes);
  CHECK(cuMemcpyDtoH(data, from, bytes));
  show_bytes(name, data, bytes);
  free(data);
}

static inline void show_buffers(void) {
  for (int i = 0; i < BUFFERS; ++i) show("buffer", buffers[i], BYTES);
}

static inline void free_buffers(void) {
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(buffers[i]));
}

// The common end of the programs.
static inline int finish(void) {
  show_buffers();
  free_buffers();
  end();
  return 0;
}
// NOLINTEND(modernize-deprecated-headers,modernize-use-nullptr,modernize-redundant-void-arg)
