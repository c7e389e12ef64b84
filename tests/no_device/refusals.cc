// SPDX-License-Identifier: Apache-2.0
// Every function of the driver, with no device. Weak, for driver.cc says more about some. What they are given does not
// matter, so they are declared without: the header that would mind is not included here.
#include <cstring>

#include "tests/no_device/log.h"

namespace {

constexpr int kNoDevice = 100;

int refuse(const char* name) {
  no_device::write_line("call", name);
  return kNoDevice;
}

}  // namespace

#define NO_DEVICE_REFUSAL(name) \
  extern "C" __attribute__((weak, visibility("default"))) int name(void) { return refuse(#name); }
#include "no_device_symbols.inc"
#undef NO_DEVICE_REFUSAL

namespace no_device {

// The address that the name is exported with, whoever defines it; null: there is no such function.
void* exported(const char* name) {
  static const struct {
    const char* name;
    int (*function)();
  } kAll[] = {
#define NO_DEVICE_REFUSAL(name) {#name, &name},
#include "no_device_symbols.inc"
  };
  for (const auto& one : kAll) {
    if (std::strcmp(one.name, name) == 0) return reinterpret_cast<void*>(one.function);
  }
  return nullptr;
}

}  // namespace no_device
