// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress with per-thread default streams: a kernel on stream 0 runs on the thread's own.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/preload/programs/loaded.h"

static CUresult (*resolve)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
static void* find(const char* symbol, const char* base) {
  (void)symbol;
  void* found = NULL;
  resolve(base, &found, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL);
  return found;
}

int main(void) {
  *(void**)&resolve = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  if (resolve == NULL) return 2;
  load(find);
  return run_loaded();
}
