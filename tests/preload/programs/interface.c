/* SPDX-License-Identifier: Apache-2.0
 * Uses the C interface from C: looks for the library at run time, and uses all of it where it is there. Its output is
 * that of a program without the library where that is absent.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/thermocline/thermocline.h"

#define BYTES (4u << 20)
#define BUFFERS 6

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "interface: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

static struct {
  const char* (*version)(void);
  int (*is_active)(void);
  thermocline_result (*get_statistics)(thermocline_statistics*);
  thermocline_result (*pin)(uint64_t);
  thermocline_result (*step)(void);
  thermocline_result (*trim)(void);
  thermocline_result (*validate)(void);
} library;

static int find_library(void) {
  *(void**)&library.version = dlsym(RTLD_DEFAULT, "thermocline_version");
  if (library.version == NULL) return 0;
  *(void**)&library.is_active = dlsym(RTLD_DEFAULT, "thermocline_is_active");
  *(void**)&library.get_statistics = dlsym(RTLD_DEFAULT, "thermocline_get_statistics");
  *(void**)&library.pin = dlsym(RTLD_DEFAULT, "thermocline_pin");
  *(void**)&library.step = dlsym(RTLD_DEFAULT, "thermocline_step");
  *(void**)&library.trim = dlsym(RTLD_DEFAULT, "thermocline_trim");
  *(void**)&library.validate = dlsym(RTLD_DEFAULT, "thermocline_validate");
  return 1;
}

static void before_anything(void) {
  thermocline_statistics statistics = {.size = sizeof statistics};
  REQUIRE(library.version()[0] >= '0' && library.version()[0] <= '9');
  REQUIRE(library.is_active() == 0);
  REQUIRE(library.get_statistics(&statistics) == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.pin(4096) == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.step() == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.trim() == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.validate() == THERMOCLINE_NOT_ACTIVE);
}

static void with_memory(const CUdeviceptr* buffers) {
  /* As from a header with one more field, and from one with less than there ever was. */
  struct {
    thermocline_statistics known;
    uint64_t newer;
  } longer;
  thermocline_statistics shorter;
  memset(&longer, 0x5a, sizeof longer);
  longer.known.size = sizeof longer;
  shorter.size = sizeof shorter / 2;
  REQUIRE(library.is_active() == 1);
  REQUIRE(library.get_statistics(NULL) == THERMOCLINE_INVALID_VALUE);
  REQUIRE(library.get_statistics(&shorter) == THERMOCLINE_INVALID_VALUE);
  REQUIRE(library.get_statistics(&longer.known) == THERMOCLINE_OK);
  REQUIRE(longer.newer == 0x5a5a5a5a5a5a5a5au);
  REQUIRE(longer.known.size == sizeof longer);
  REQUIRE(longer.known.live_bytes == BUFFERS * BYTES);
  REQUIRE(longer.known.allocations == BUFFERS);
  REQUIRE(longer.known.device_bytes <= longer.known.budget_bytes);
  REQUIRE(library.pin(16) == THERMOCLINE_INVALID_VALUE);
  REQUIRE(library.pin(buffers[0] + 5) == THERMOCLINE_OK);
  REQUIRE(library.validate() == THERMOCLINE_OK);
  REQUIRE(library.get_statistics(&longer.known) == THERMOCLINE_OK);
  REQUIRE(longer.known.pinned_buffers == 1);
}

static void without_memory(void) {
  thermocline_statistics statistics = {.size = sizeof statistics};
  REQUIRE(library.step() == THERMOCLINE_OK);
  REQUIRE(library.trim() == THERMOCLINE_OK);
  REQUIRE(library.get_statistics(&statistics) == THERMOCLINE_OK);
  REQUIRE(statistics.live_bytes == 0);
  REQUIRE(statistics.device_bytes == 0);
  REQUIRE(statistics.peak_live_bytes == BUFFERS * BYTES);
}

int main(void) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr buffers[BUFFERS];
  unsigned value = 0;
  const int there = find_library();
  if (there) before_anything();
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  for (unsigned i = 0; i < BUFFERS; ++i) {
    REQUIRE(cuMemAlloc(&buffers[i], BYTES) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32(buffers[i], i, BYTES / 4) == CUDA_SUCCESS);
  }
  if (there) with_memory(buffers);
  for (unsigned i = 0; i < BUFFERS; ++i) {
    REQUIRE(cuMemcpyDtoH(&value, buffers[i] + BYTES - 4, 4) == CUDA_SUCCESS);
    printf("%u\n", value);
  }
  for (unsigned i = 0; i < BUFFERS; ++i) REQUIRE(cuMemFree(buffers[i]) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  if (there) without_memory();
  return 0;
}
