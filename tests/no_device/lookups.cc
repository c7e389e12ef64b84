// SPDX-License-Identifier: Apache-2.0
// To be preloaded: logs the driver functions that dlsym is asked for, found or not. Only for collecting names: RTLD_NEXT
// of the program's libraries is resolved relative to this library.
#include <dlfcn.h>

#include <cctype>

#include "tests/no_device/log.h"

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  using Lookup = void* (*)(void*, const char*);
  static const auto real = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34") != nullptr
                                                        ? dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34")
                                                        : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  const bool of_driver = name[0] == 'c' && name[1] == 'u' && std::isupper(name[2]) != 0;
  if (of_driver) no_device::write_line("dlsym", name);
  return real(handle, name);
}
