// SPDX-License-Identifier: Apache-2.0
#include "driver/table.h"

#include <dlfcn.h>

#define THERMOCLINE_TEXT_OF(text) #text
// The argument is macro-expanded first, so the text is the versioned name.
#define THERMOCLINE_EXACT_NAME(function) THERMOCLINE_TEXT_OF(function)

namespace thermocline {
namespace {

template <class Find>
Status fill(Find find, DriverTable* out, std::string* why) {
  DriverTable table;
  const char* missing = nullptr;
#define THERMOCLINE_LOAD(function, required)                                                           \
  table.function = reinterpret_cast<decltype(table.function)>(find(THERMOCLINE_EXACT_NAME(function))); \
  if (table.function == nullptr && (required) && missing == nullptr) missing = THERMOCLINE_EXACT_NAME(function);
  THERMOCLINE_DRIVER_FUNCTIONS(THERMOCLINE_LOAD)
#undef THERMOCLINE_LOAD
  // Drivers before CUDA 12.8 have only the first version of this function; its type is the same.
  if (table.cuEventElapsedTime == nullptr) {
    table.cuEventElapsedTime = reinterpret_cast<decltype(table.cuEventElapsedTime)>(find("cuEventElapsedTime"));
  }
  if (missing != nullptr) {
    if (why != nullptr) *why = std::string("the driver has no function ") + missing;
    return Status::not_found();
  }
  *out = table;
  return Status();
}

}  // namespace

Status load_table(void* (*find)(const char* name), DriverTable* out) { return fill(find, out, nullptr); }

Status open_driver(const char* path, DriverTable* out, std::string* why) {
  const char* name = path != nullptr ? path : "libcuda.so.1";
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    if (why != nullptr) *why = reason != nullptr ? reason : std::string("can not load ") + name;
    return Status::not_found();
  }
  const Status status = fill([library](const char* symbol) { return dlsym(library, symbol); }, out, why);
  if (!status.ok()) {
    if (why != nullptr) *why = std::string(name) + ": " + *why;
    dlclose(library);
  }
  return status;
}

}  // namespace thermocline
