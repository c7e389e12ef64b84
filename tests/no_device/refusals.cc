// SPDX-License-Identifier: Apache-2.0
// Every function of the driver, as it answers without a device. Weak, because driver.cc defines some. They ignore their
// arguments and are declared without any, so cuda.h is not included here.
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

// The address of the exported symbol; null: none.
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
