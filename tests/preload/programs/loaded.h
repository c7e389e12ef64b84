// SPDX-License-Identifier: Apache-2.0
// small.h for programs that are not linked with the driver: they say with load() where its functions come from. The
// names in cuda.h mean symbols of a certain version (cuMemAlloc_v2); the finder is given both.
#pragma once

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define LOADED_TEXT(name) #name
#define LOADED_SYMBOL(name) LOADED_TEXT(name)
// clang-format off
#define LOADED_FUNCTIONS(X) \
  X(cuInit, "cuInit") \
  X(cuDeviceGet, "cuDeviceGet") \
  X(cuCtxSetCurrent, "cuCtxSetCurrent") \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") \
  X(cuModuleLoadData, "cuModuleLoadData") \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease") \
  X(cuModuleGetFunction, "cuModuleGetFunction") \
  X(cuCtxSynchronize, "cuCtxSynchronize") \
  X(cuModuleUnload, "cuModuleUnload") \
  X(cuMemAlloc, "cuMemAlloc") \
  X(cuMemFree, "cuMemFree") \
  X(cuMemcpyHtoD, "cuMemcpyHtoD") \
  X(cuMemcpyDtoH, "cuMemcpyDtoH") \
  X(cuLaunchKernel, "cuLaunchKernel")
// clang-format on

// Each member has the name of the symbol.
static struct {
#define X(name, base) __typeof__(&name) name;
  LOADED_FUNCTIONS(X)
#undef X
} loaded;

static inline void load(void* (*find)(const char* symbol, const char* base)) {
#define X(name, base)                                         \
  *(void**)&loaded.name = find(LOADED_SYMBOL(name), base);    \
  if (loaded.name == NULL) {                                  \
    fprintf(stderr, "program: no %s\n", LOADED_SYMBOL(name)); \
    exit(2);                                                  \
  }
  LOADED_FUNCTIONS(X)
#undef X
}

static __typeof__(&cuMemAlloc)* loaded_alloc = &loaded.cuMemAlloc;
static __typeof__(&cuMemFree)* loaded_free = &loaded.cuMemFree;
static __typeof__(&cuMemcpyHtoD)* loaded_in = &loaded.cuMemcpyHtoD;
static __typeof__(&cuMemcpyDtoH)* loaded_out = &loaded.cuMemcpyDtoH;
static __typeof__(&cuCtxSynchronize)* loaded_synchronize = &loaded.cuCtxSynchronize;
static __typeof__(&cuDevicePrimaryCtxRelease)* loaded_release = &loaded.cuDevicePrimaryCtxRelease;

#undef cuMemAlloc
#undef cuMemFree
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuCtxSynchronize
#undef cuDevicePrimaryCtxRelease
#define cuMemAlloc (*loaded_alloc)
#define cuMemFree (*loaded_free)
#define cuMemcpyHtoD (*loaded_in)
#define cuMemcpyDtoH (*loaded_out)
#define cuCtxSynchronize (*loaded_synchronize)
#define cuDevicePrimaryCtxRelease (*loaded_release)
#define cuInit loaded.cuInit
#define cuDeviceGet loaded.cuDeviceGet
#define cuCtxSetCurrent loaded.cuCtxSetCurrent
#define cuDevicePrimaryCtxRetain loaded.cuDevicePrimaryCtxRetain
#define cuModuleLoadData loaded.cuModuleLoadData
#define cuModuleGetFunction loaded.cuModuleGetFunction
#define cuModuleUnload loaded.cuModuleUnload
#define cuLaunchKernel loaded.cuLaunchKernel

#include "tests/preload/programs/small.h"

static inline int run_loaded(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  return finish();
}
