// SPDX-License-Identifier: Apache-2.0
// Opens a plugin that is linked with the driver: locally, or so that its own symbols come first (RTLD_DEEPBIND).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char** arguments) {
  char path[4096];
  // Beside this program.
  snprintf(path, sizeof path, "%.*s/libplugin.so", (int)(strrchr(arguments[0], '/') - arguments[0]), arguments[0]);
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | (count > 1 ? RTLD_DEEPBIND : 0));
  if (plugin == NULL) {
    fprintf(stderr, "program: %s\n", dlerror());
    return 2;
  }
  int (*run)(void) = NULL;
  *(void**)&run = dlsym(plugin, "plugin_run");
  return run == NULL ? 2 : run();
}
