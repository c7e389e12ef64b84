// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/programs/cuda_table.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define PROGRAM_TEXT(text) #text
#define PROGRAM_EXACT_NAME(name) PROGRAM_TEXT(name)

// The symbol to which a binary linked against glibc before 2.34 refers.
extern "C" void* old_dlsym(void* handle, const char* name);
__asm__(".symver old_dlsym, dlsym@GLIBC_2.2.5");

// cuda.h's macro changes the name to the five-argument version.
#undef cuGetProcAddress
extern "C" CUresult cuGetProcAddress(const char* symbol, void** pfn, int version, cuuint64_t flags);

namespace program {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(2);
}

void* driver() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) give_up(dlerror());
  return handle;
}

void* by_dlsym(const char*, const char* exact) { return dlsym(driver(), exact); }
void* by_old_dlsym(const char*, const char* exact) { return old_dlsym(driver(), exact); }
void* by_default(const char*, const char* exact) { return dlsym(RTLD_DEFAULT, exact); }

// The version whose parameters are those of the declaration: since 13.0 there is a cuCtxSynchronize that takes a
// context.
int version_of(const char* base) { return std::strcmp(base, "cuCtxSynchronize") == 0 ? 12090 : CUDA_VERSION; }

void* by_proc(const char* base, cuuint64_t flags) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(cuGetProcAddress_v2(base, &found, version_of(base), flags, &status));
  return found;
}
void* by_proc_legacy(const char* base, const char*) { return by_proc(base, CU_GET_PROC_ADDRESS_LEGACY_STREAM); }
void* by_proc_per_thread(const char* base, const char*) {
  return by_proc(base, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}
// The resolver that the driver gives to a program built for per-thread default streams: without a flag it returns the
// per-thread variants.
void* by_proc_default(const char* base, const char*) {
  using Resolver = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static const auto resolve =
      reinterpret_cast<Resolver>(by_proc("cuGetProcAddress", CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  void* found = nullptr;
  CHECK(resolve(base, &found, version_of(base), CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
  return found;
}
void* by_proc_11(const char* base, const char*) {
  void* found = nullptr;
  CHECK(cuGetProcAddress(base, &found, version_of(base), CU_GET_PROC_ADDRESS_DEFAULT));
  return found;
}

}  // namespace

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", call, name != nullptr ? name : "unknown error");
  std::exit(2);
}

Cuda find_cuda(const std::string& api_path) {
  Cuda cuda;
  if (api_path == "link") {
#define PROGRAM_LINK(name) cuda.name = &::name;
    PROGRAM_CUDA_FUNCTIONS(PROGRAM_LINK)
#undef PROGRAM_LINK
    return cuda;
  }
  void* (*find)(const char* base, const char* exact) = nullptr;
  if (api_path == "dlsym") find = &by_dlsym;
  if (api_path == "dlvsym") find = &by_old_dlsym;
  if (api_path == "default") find = &by_default;
  if (api_path == "proc") find = &by_proc_legacy;
  if (api_path == "proc-11") find = &by_proc_11;
  if (api_path == "proc-per-thread") find = &by_proc_per_thread;
  if (api_path == "proc-per-thread-by-default") find = &by_proc_default;
  if (find == nullptr) give_up("no such api_path");
#define PROGRAM_FIND(name)                                                                  \
  cuda.name = reinterpret_cast<decltype(cuda.name)>(find(#name, PROGRAM_EXACT_NAME(name))); \
  if (cuda.name == nullptr) give_up("not found: " #name);
  PROGRAM_CUDA_FUNCTIONS(PROGRAM_FIND)
#undef PROGRAM_FIND
  return cuda;
}

}  // namespace program
