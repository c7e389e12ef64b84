// SPDX-License-Identifier: Apache-2.0
// Opens a plugin that is linked with the driver: locally, or so that its own symbols come first (RTLD_DEEPBIND). With a
// second argument the program itself uses the driver too, by dlsym.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int run_itself(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*initialise)(unsigned) = NULL;
  int (*retain)(void**, int) = NULL;
  int (*make_current)(void*) = NULL;
  int (*allocate)(unsigned long long*, size_t) = NULL;
  *(void**)&initialise = dlsym(driver, "cuInit");
  *(void**)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void**)&make_current = dlsym(driver, "cuCtxSetCurrent");
  *(void**)&allocate = dlsym(driver, "cuMemAlloc_v2");
  void* context = NULL;
  unsigned long long at = 0;
  if (initialise(0) != 0 || retain(&context, 0) != 0 || make_current(context) != 0 || allocate(&at, 1 << 20) != 0)
    return 3;
  printf("allocated\n");
  return 0;
}

int main(int count, char** arguments) {
  char path[4096];
  // In the folder of this program.
  snprintf(path, sizeof path, "%.*s/libplugin.so", (int)(strrchr(arguments[0], '/') - arguments[0]), arguments[0]);
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | (count > 1 ? RTLD_DEEPBIND : 0));
  if (plugin == NULL) {
    fprintf(stderr, "program: %s\n", dlerror());
    return 2;
  }
  int (*run)(void) = NULL;
  *(void**)&run = dlsym(plugin, "plugin_run");
  if (run == NULL) return 2;
  const int result = run();
  return result != 0 || count < 3 ? result : run_itself();
}
