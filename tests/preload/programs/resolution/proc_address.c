// SPDX-License-Identifier: Apache-2.0
// All functions come from cuGetProcAddress, which the program looks up itself.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/preload/programs/loaded.h"

typedef CUresult (*Resolve)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
static Resolve resolve;
static void* find(const char* symbol, const char* base) {
  (void)symbol;
  void* found = NULL;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (resolve(base, &found, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) != CUDA_SUCCESS) return NULL;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? found : NULL;
}

int main(void) {
  *(void**)&resolve = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  void* found = NULL;
  // The resolver can resolve itself; a missing status argument is allowed.
  if (resolve == NULL || resolve("cuGetProcAddress", &found, 12000, 0, NULL) != CUDA_SUCCESS) return 2;
  *(void**)&resolve = found;
  load(find);
  return run_loaded();
}
