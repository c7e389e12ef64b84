// SPDX-License-Identifier: Apache-2.0
// The driver is opened with RTLD_DEEPBIND, as by a library that must use its own symbols first.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/preload/programs/loaded.h"

static void* driver;
static void* find(const char* symbol, const char* base) {
  (void)base;
  return dlsym(driver, symbol);
}

int main(void) {
  driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_DEEPBIND);
  load(find);
  return run_loaded();
}
