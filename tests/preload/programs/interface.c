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
  thermocline_result (*visit_statistics)(int, thermocline_statistic_visitor, void*);
  thermocline_result (*reset_peaks)(void);
  thermocline_result (*set_callback)(thermocline_out_of_memory_callback, void*);
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
  *(void**)&library.visit_statistics = dlsym(RTLD_DEFAULT, "thermocline_visit_statistics");
  *(void**)&library.reset_peaks = dlsym(RTLD_DEFAULT, "thermocline_reset_peaks");
  *(void**)&library.set_callback = dlsym(RTLD_DEFAULT, "thermocline_set_out_of_memory_callback");
  *(void**)&library.pin = dlsym(RTLD_DEFAULT, "thermocline_pin");
  *(void**)&library.step = dlsym(RTLD_DEFAULT, "thermocline_step");
  *(void**)&library.trim = dlsym(RTLD_DEFAULT, "thermocline_trim");
  *(void**)&library.validate = dlsym(RTLD_DEFAULT, "thermocline_validate");
  return 1;
}

struct wanted {
  const char* name;
  uint64_t value;
  int found;
};

static void look_for(const char* name, uint64_t value, void* user) {
  struct wanted* wanted = user;
  if (strcmp(name, wanted->name) != 0) return;
  wanted->value = value;
  ++wanted->found;
}

static uint64_t visited(int names, const char* name) {
  struct wanted wanted = {name, 0, 0};
  REQUIRE(library.visit_statistics(names, &look_for, &wanted) == THERMOCLINE_OK);
  REQUIRE(wanted.found == 1);
  return wanted.value;
}

static void before_anything(void) {
  thermocline_statistics statistics = {.size = sizeof statistics};
  REQUIRE(library.version()[0] >= '0' && library.version()[0] <= '9');
  REQUIRE(library.is_active() == 0);
  REQUIRE(library.get_statistics(&statistics) == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.visit_statistics(THERMOCLINE_NAMES, &look_for, NULL) == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.reset_peaks() == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.pin(4096) == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.step() == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.trim() == THERMOCLINE_NOT_ACTIVE);
  REQUIRE(library.validate() == THERMOCLINE_NOT_ACTIVE);
}

/* May use the interface and CUDA. */
static void on_refusal(const char* report, void* user) {
  thermocline_statistics statistics = {.size = sizeof statistics};
  CUdeviceptr another = 0;
  REQUIRE(strstr(report, "and the device has 64.00 GiB") != NULL);
  REQUIRE(library.get_statistics(&statistics) == THERMOCLINE_OK && statistics.out_of_memory > 0);
  REQUIRE(cuMemAlloc(&another, 4096) == CUDA_SUCCESS && cuMemFree(another) == CUDA_SUCCESS);
  /* Refused as well, without another call of this. */
  REQUIRE(cuMemAlloc(&another, (size_t)80 << 30) == CUDA_ERROR_OUT_OF_MEMORY);
  ++*(int*)user;
}

static void refused(void) {
  CUdeviceptr none = 0;
  int calls = 0;
  REQUIRE(library.set_callback(&on_refusal, &calls) == THERMOCLINE_OK);
  REQUIRE(cuMemAlloc(&none, (size_t)80 << 30) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(calls == 1);
  REQUIRE(library.set_callback(NULL, NULL) == THERMOCLINE_OK);
  REQUIRE(cuMemAlloc(&none, (size_t)80 << 30) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(calls == 1);
  REQUIRE(library.reset_peaks() == THERMOCLINE_OK);
}

static void with_memory(const CUdeviceptr* buffers) {
  /* As with a header with one more field, and with one with fewer fields than ever existed. */
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
  REQUIRE(longer.known.live_buffers == BUFFERS);
  REQUIRE(longer.known.allocated_bytes == BUFFERS * BYTES && longer.known.freed_bytes == 0);
  REQUIRE(longer.known.largest_allocation_bytes == BYTES);
  REQUIRE(library.visit_statistics(3, &look_for, NULL) == THERMOCLINE_INVALID_VALUE);
  REQUIRE(library.visit_statistics(THERMOCLINE_NAMES, NULL, NULL) == THERMOCLINE_INVALID_VALUE);
  REQUIRE(visited(THERMOCLINE_NAMES, "live_bytes_to_16MiB") == BUFFERS * BYTES);
  REQUIRE(visited(THERMOCLINE_NAMES_PYTORCH, "allocated_bytes.all.current") == BUFFERS * BYTES);
  REQUIRE(visited(THERMOCLINE_NAMES_TENSORFLOW, "num_allocs") == BUFFERS);
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
  REQUIRE(statistics.freed_bytes == statistics.allocated_bytes && statistics.freed_bytes >= BUFFERS * BYTES);
  REQUIRE(statistics.created_bytes == statistics.destroyed_bytes && statistics.created_bytes > 0);
  REQUIRE(statistics.host_taken_bytes == statistics.host_given_bytes && statistics.host_bytes == 0);
  REQUIRE(library.reset_peaks() == THERMOCLINE_OK);
  REQUIRE(visited(THERMOCLINE_NAMES_PYTORCH, "allocated_bytes.all.peak") == 0);
  REQUIRE(visited(THERMOCLINE_NAMES_PYTORCH, "reserved_bytes.all.peak") == 0);
  REQUIRE(visited(THERMOCLINE_NAMES, "peak_host_bytes") == 0);
}

int main(int count, char** arguments) {
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
  if (there && count > 1 && strcmp(arguments[1], "refused") == 0) refused();
  for (unsigned i = 0; i < BUFFERS; ++i) {
    REQUIRE(cuMemcpyDtoH(&value, buffers[i] + BYTES - 4, 4) == CUDA_SUCCESS);
    printf("%u\n", value);
  }
  for (unsigned i = 0; i < BUFFERS; ++i) REQUIRE(cuMemFree(buffers[i]) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  if (there) without_memory();
  return 0;
}
