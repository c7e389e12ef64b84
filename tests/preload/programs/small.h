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
#include <string.h>

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

static inline void set_pattern(uint32_t* words, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = (uint32_t)(i * 2654435761u) ^ (seed * 40503u);
}

// A different pattern for each seed; the caller frees it.
static inline void* pattern(size_t bytes, uint32_t seed) {
  uint32_t* words = (uint32_t*)malloc(bytes);
  set_pattern(words, bytes, seed);
  return words;
}

// At least so many bytes, the same ones each time in a thread: under sanitizers new memory costs more than what is done
// with it.
static inline void* scratch(size_t bytes) {
  static __thread void* memory;
  static __thread size_t there;
  if (bytes > there) {
    free(memory);
    memory = malloc(bytes);
    there = bytes;
  }
  return memory;
}

static inline void fill(CUdeviceptr to, size_t bytes, uint32_t seed) {
  uint32_t* words = (uint32_t*)scratch(bytes);
  set_pattern(words, bytes, seed);
  CHECK(cuMemcpyHtoD(to, words, bytes));
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

static inline uint64_t digest_with(uint64_t digest, uint64_t word) {
  digest = (digest ^ word) * 0x100000001b3u;
  return digest << 29 | digest >> 35;
}

// Every bit counts. Words in four chains: byte by byte it was a quarter of a program's time, and more under sanitizers.
static inline void show_bytes(const char* name, const void* data, size_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  uint64_t chains[4] = {1, 2, 3, 4}, digest = 0xcbf29ce484222325u;
  size_t i = 0;
  for (; i + sizeof chains <= bytes; i += sizeof chains) {
    for (size_t chain = 0; chain < 4; ++chain) {
      uint64_t word;
      memcpy(&word, at + i + 8 * chain, sizeof word);
      chains[chain] = digest_with(chains[chain], word);
    }
  }
  for (; i < bytes; ++i) digest = digest_with(digest, at[i]);
  for (size_t chain = 0; chain < 4; ++chain) digest = digest_with(digest, chains[chain]);
  printf("%s %016llx\n", name, (unsigned long long)digest);
}

static inline void show(const char* name, CUdeviceptr from, size_t bytes) {
  void* data = scratch(bytes);
  CHECK(cuMemcpyDtoH(data, from, bytes));
  show_bytes(name, data, bytes);
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
