// SPDX-License-Identifier: Apache-2.0
// Looks up names in every possible way and prints in which library each was found. It uses no driver function and is
// not linked with the driver.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

extern "C" void* old_dlsym(void* handle, const char* name);
__asm__(".symver old_dlsym, dlsym@GLIBC_2.2.5");
extern "C" void* old_dlvsym(void* handle, const char* name, const char* version);
__asm__(".symver old_dlvsym, dlvsym@GLIBC_2.2.5");

namespace {

const char* home_of(void* address) {
  Dl_info info{};
  if (address == nullptr) return "none";
  if (dladdr(address, &info) == 0) return "unknown";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}

void say(const char* how, const char* name, void* found) {
  const bool message = dlerror() != nullptr;
  std::printf("%s %s: %s%s\n", how, name, home_of(found), message ? " (message)" : "");
}

void look_up(const char* when, void* handle) {
  std::printf("-- %s\n", when);
  // No driver has the second, the library does not hook the third, and the others are not the driver's.
  for (const char* name : {"cuMemAlloc_v2", "cuMemAlloc_v9", "cuInit", "cudaMalloc", "cublasCreate_v2", "cu", "c", "",
                           "puts", "dlsym", "ncclAllReduce", "nccl", "n"}) {
    if (handle != nullptr) {
      say("handle", name, dlsym(handle, name));
      say("old handle", name, old_dlsym(handle, name));
    }
    say("default", name, dlsym(RTLD_DEFAULT, name));
    say("next", name, dlsym(RTLD_NEXT, name));
  }
  say("version", "puts", dlvsym(RTLD_DEFAULT, "puts", "GLIBC_2.2.5"));
  say("old version", "puts", old_dlvsym(RTLD_DEFAULT, "puts", "GLIBC_2.2.5"));
  say("version", "cuMemAlloc_v2", dlvsym(RTLD_DEFAULT, "cuMemAlloc_v2", "NO_SUCH_VERSION"));
}

}  // namespace

int main() {
  look_up("no driver", nullptr);
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  look_up("a driver of one's own", handle);
  dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  look_up("a driver for all", handle);
  void* c_library = dlopen("libc.so.6", RTLD_NOW);
  look_up("another library", c_library);
}
