// SPDX-License-Identifier: Apache-2.0
// NCCL opened and searched by the program itself, which is not linked with it. Some programs first check whether it is
// loaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "tests/preload/programs/small.h"

static void* nccl;

// If the library is opened privately, the simulated device does not find its kernel there, but finds it here.
struct extent {
  unsigned x, y, z;
};
static void (*kernel_of_nccl)(void** arguments, struct extent grid, struct extent block);
__attribute__((visibility("default"))) void simulated_ncclDevKernel_Fake(void** arguments, struct extent grid,
                                                                         struct extent block);
void simulated_ncclDevKernel_Fake(void** arguments, struct extent grid, struct extent block) {
  kernel_of_nccl(arguments, grid, block);
}

static void* find(const char* name) {
  void* found = dlsym(nccl, name);
  if (found == NULL) {
    fprintf(stderr, "program: %s\n", dlerror());
    exit(2);
  }
  return found;
}

int main(int count, char** arguments) {
  printf("there: %d\n", dlsym(RTLD_DEFAULT, "ncclAllReduce") != NULL);
  char path[4096];
  // Beside this program.
  snprintf(path, sizeof path, "%.*s/libnccl.so.2", (int)(strrchr(arguments[0], '/') - arguments[0]), arguments[0]);
  nccl = dlopen(path, RTLD_NOW | (count > 1 ? RTLD_GLOBAL : RTLD_LOCAL));
  if (nccl == NULL) return 2;
  printf("there: %d\n", dlsym(RTLD_DEFAULT, "ncclNoSuchFunction") != NULL);
  printf("there: %d\n", dlsym(nccl, "ncclCommRevoke") != NULL);
  int (*init)(void**, int, const int*) = NULL;
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, CUstream) = NULL;
  int (*destroy)(void*) = NULL;
  *(void**)&init = find("ncclCommInitAll");
  *(void**)&all_reduce = find("ncclAllReduce");
  *(void**)&destroy = find("ncclCommDestroy");
  *(void**)&kernel_of_nccl = find("simulated_ncclDevKernel_Fake");
  begin();
  void* comm = NULL;
  const int device = 0;
  if (init(&comm, 1, &device) != 0) return 3;
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    if (all_reduce((void*)buffers[i], (void*)buffers[(i + 3) % BUFFERS], BYTES / 4, 3, 0, comm, NULL) != 0) return 4;
    mix_on(NULL, buffers[(i + 5) % BUFFERS], buffers[i]);
  }
  if (destroy(comm) != 0) return 5;
  return finish();
}
