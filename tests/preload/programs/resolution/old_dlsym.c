// SPDX-License-Identifier: Apache-2.0
// A binary that was linked before glibc 2.34 refers to the dlsym of that time by its version.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/preload/programs/loaded.h"

void* old_dlsym(void* handle, const char* name);
__asm__(".symver old_dlsym, dlsym@GLIBC_2.2.5");

static void* driver;
static void* find(const char* symbol, const char* base) {
  (void)base;
  return old_dlsym(driver, symbol);
}

int main(void) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  load(find);
  return run_loaded();
}
