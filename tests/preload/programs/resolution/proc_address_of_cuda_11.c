// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress in its first form, with four arguments, and a version of CUDA 11.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/preload/programs/loaded.h"

typedef CUresult (*Resolve)(const char*, void**, int, cuuint64_t);
static Resolve resolve;
static void* find(const char* symbol, const char* base) {
  (void)symbol;
  void* found = NULL;
  return resolve(base, &found, 11040, 0) == CUDA_SUCCESS ? found : NULL;
}

int main(void) {
  *(void**)&resolve = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress");
  if (resolve == NULL) return 2;
  load(find);
  void* nothing = &nothing;
  printf("unknown %d\n", resolve("cuNoSuchFunction", &nothing, 11040, 0) != CUDA_SUCCESS);
  return run_loaded();
}
