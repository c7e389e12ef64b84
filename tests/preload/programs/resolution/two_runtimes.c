// SPDX-License-Identifier: Apache-2.0
// Two copies of the CUDA runtime in one process, each with its own table of driver functions, and both using the same
// memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFERS 8
#define BYTES ((size_t)4 << 20)

typedef struct {
  int (*allocate)(void**, size_t);
  int (*copy)(void*, const void*, size_t, int);
  int (*set)(void*, int, size_t);
  int (*release)(void*);
} Runtime;

static Runtime open_runtime(const char* path) {
  Runtime runtime;
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "program: %s\n", dlerror());
    exit(2);
  }
  *(void**)&runtime.allocate = dlsym(handle, "cudaMalloc");
  *(void**)&runtime.copy = dlsym(handle, "cudaMemcpy");
  *(void**)&runtime.set = dlsym(handle, "cudaMemset");
  *(void**)&runtime.release = dlsym(handle, "cudaFree");
  return runtime;
}

static void check(int result) {
  if (result == 0) return;
  fprintf(stderr, "program: error %d\n", result);
  exit(2);
}

int main(void) {
  Runtime runtimes[2];
  runtimes[0] = open_runtime("libcudart.so.13");
  struct link_map* map = NULL;
  dlinfo(dlopen("libcudart.so.13", RTLD_NOW), RTLD_DI_LINKMAP, &map);
  // The same file under another name is loaded as another copy.
  char name[] = "/tmp/second_runtime.XXXXXX";
  if (mkdtemp(name) == NULL) return 2;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/copy.so", name);
  FILE* from = fopen(map->l_name, "rb");
  FILE* to = fopen(path, "wb");
  if (from == NULL || to == NULL) return 2;
  static char block[1 << 16];
  for (size_t got; (got = fread(block, 1, sizeof block, from)) > 0;) fwrite(block, 1, got, to);
  fclose(from);
  fclose(to);
  runtimes[1] = open_runtime(path);
  unlink(path);
  rmdir(name);
  printf("two copies %d\n", runtimes[0].allocate != runtimes[1].allocate);
  void* buffers[BUFFERS];
  unsigned char* host = malloc(BYTES);
  for (int i = 0; i < BUFFERS; ++i) {
    check(runtimes[i % 2].allocate(&buffers[i], BYTES));
    check(runtimes[(i + 1) % 2].set(buffers[i], i + 1, BYTES));
    check(runtimes[i % 2].copy(buffers[i], buffers[i / 2], BYTES / 2, 3));
  }
  for (int i = 0; i < BUFFERS; ++i) {
    check(runtimes[(i + 1) % 2].copy(host, buffers[i], BYTES, 2));
    unsigned long sum = 0;
    for (size_t k = 0; k < BYTES; ++k) sum = sum * 31 + host[k];
    printf("%d %016lx\n", i, sum);
    check(runtimes[(i + 1) % 2].release(buffers[i]));
  }
  free(host);
  return 0;
}
