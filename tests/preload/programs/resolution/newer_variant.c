// SPDX-License-Identifier: Apache-2.0
// Looks up variants of functions that are newer than any known: "early", before it allocates, "late", when buffers are
// away, or "never". Says what was granted and evicted before and since.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "include/thermocline/thermocline.h"
#include "tests/preload/programs/loaded.h"

typedef CUresult (*Resolve)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
static Resolve resolve;
static void* driver;

static void* find(const char* symbol, const char* base) {
  (void)base;
  return dlsym(driver, symbol);
}

static void look_up(const char* name) {
  void* found = NULL;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  CHECK(resolve(name, &found, 14000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
  if (found == NULL || status != CU_GET_PROC_ADDRESS_SUCCESS) exit(3);
}

static void look_up_newer(void) {
  for (int i = 0; i < 2; ++i) {
    look_up("cuLaunchKernel");
    look_up("cuMemsetD8");
  }
}

static uint64_t evicted(void) {
  __typeof__(&thermocline_get_statistics) ask = NULL;
  *(void**)&ask = dlsym(RTLD_DEFAULT, "thermocline_get_statistics");
  thermocline_statistics now = {.size = sizeof now};
  return ask != NULL && ask(&now) == 0 ? now.evicted_bytes : 0;
}

static const char* amount(uint64_t bytes) { return bytes == 0 ? "none" : "some"; }

static int is_right(int i) {
  void* const expected = pattern(BYTES, (uint32_t)i);
  void* const found = malloc(BYTES);
  const int same = cuMemcpyDtoH(found, buffers[i], BYTES) == CUDA_SUCCESS && memcmp(found, expected, BYTES) == 0;
  free(expected);
  free(found);
  return same;
}

static int refused(CUdeviceptr scratch, int from, int to) {
  int count = 0;
  for (int i = from; i < to; ++i) {
    CUdeviceptr of = buffers[i];
    void* parameters[] = {&scratch, &of};
    count += cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL) != CUDA_SUCCESS;
  }
  return count;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  *(void**)&resolve = dlsym(driver, "cuGetProcAddress_v2");
  load(find);
  begin();
  if (strcmp(arguments[1], "early") == 0) look_up_newer();

  CUdeviceptr scratch = 0;
  CHECK(cuMemAlloc(&scratch, 4096));
  int granted = 0;
  while (granted < BUFFERS && cuMemAlloc(&buffers[granted], BYTES) == CUDA_SUCCESS) {
    fill(buffers[granted], BYTES, (uint32_t)granted);
    ++granted;
  }
  CHECK(cuCtxSynchronize());
  printf("granted %s\n", granted == BUFFERS ? "all" : "fewer");
  if (strcmp(arguments[1], "late") == 0) look_up_newer();
  const uint64_t before = evicted();
  printf("evicted before: %s\n", amount(before));

  int right = 0;
  for (int i = 0; i < granted; ++i) right += is_right(i);
  puts(right == granted ? "right" : "wrong");
  printf("refused of those evicted: %s\n", amount((uint64_t)refused(scratch, 0, granted)));
  CHECK(cuMemFree(scratch));

  // The last three and the scratch fit.
  for (int i = 0; i < granted - 3; ++i) CHECK(cuMemFree(buffers[i]));
  CHECK(cuMemAlloc(&scratch, 4096));
  printf("refused at last: %s\n", amount((uint64_t)refused(scratch, granted - 3, granted)));
  printf("evicted since: %s\n", amount(evicted() - before));
  CHECK(cuMemFree(scratch));
  for (int i = granted - 3; i < granted; ++i) CHECK(cuMemFree(buffers[i]));
  end();
  return 0;
}
