// SPDX-License-Identifier: Apache-2.0
// Somebody whose calls are not seen (a plugin with RTLD_DEEPBIND) holds the primary context, which outlives the
// program's own release of it, with all that is in it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "tests/preload/programs/small.h"

static void show_state(void) {
  unsigned int flags = 0;
  int active = 2;
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  printf("active %d\n", active);
}

int main(int count, char** arguments) {
  (void)count;
  char path[4096];
  // In the folder beside this program's.
  snprintf(path, sizeof path, "%.*s/../resolution/libplugin.so", (int)(strrchr(arguments[0], '/') - arguments[0]),
           arguments[0]);
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  void (*hold)(int) = NULL;
  if (plugin != NULL) *(void**)&hold = dlsym(plugin, "plugin_hold");
  if (hold == NULL) return 2;
  CHECK(cuInit(0));
  hold(1);
  begin();
  make_buffers();
  mix_all(NULL);
  CHECK(cuDevicePrimaryCtxRelease(0));
  show_state();
  mix_all(NULL);
  show_buffers();
  free_buffers();
  CHECK(cuModuleUnload(image));
  hold(0);
  show_state();
  return 0;
}
