// SPDX-License-Identifier: Apache-2.0
#include "hooks/answer.h"

#include <dlfcn.h>

#include "hooks/dynamic_linker.h"
#include "hooks/symbols.h"

namespace thermocline {
namespace {

void* look_up(void* handle, const char* name, const char* version) {
  return version == nullptr ? next_dlsym()(handle, name) : next_dlvsym()(handle, name, version);
}

Answer give(void* address) { return {address, 1}; }

// Our exports are found although the driver lacks the function, or is not there at all: then the program is told so.
// Searching behind us leaves the message that dlerror is to give.
Answer give_our_export(int index, const char* name) {
  if (driver_is_loaded() && real_address(static_cast<Function>(index)) != nullptr) return give(hook_of(index));
  return give(look_up(RTLD_NEXT, name, nullptr));
}

// Who stands before us finds our export, or whoever stands between. Who stands behind us and asks for the next would
// pass us by: where nobody but the driver is behind us, that is our hook again.
Answer answer_next(int index, const char* name, const void* caller) {
  switch (place_of(caller, name)) {
    case Place::kBeforeUs:
      return give_our_export(index, name);
    case Place::kBehindUs:
      return hook_for_symbol(name, next_definition(name)) != nullptr ? give(hook_of(index)) : Answer{};
    default:
      return {};
  }
}

Answer answer(int index, void* handle, const char* name, const char* version, const void* caller) {
  if (handle == RTLD_NEXT) return answer_next(index, name, caller);
  if (handle == RTLD_DEFAULT) {
    // Seen from us: the global scope, which is searched first for everybody.
    void* found = look_up(RTLD_DEFAULT, name, version);
    if (found == hook_of(index)) return give_our_export(index, name);
    if (found == nullptr) dlerror();
    void* hook = hook_for_symbol(name, found);
    return hook != nullptr ? give(hook) : Answer{};
  }
  void* found = look_up(handle, name, version);
  if (found == hook_of(index)) return give_our_export(index, name);
  void* hook = hook_for_symbol(name, found);
  return give(hook != nullptr ? hook : found);
}

}  // namespace
}  // namespace thermocline

thermocline::Answer thermocline_answer(void* handle, const char* name, const char* version, const void* caller) {
  using namespace thermocline;
  if (Inside::now()) return {};
  const int index = find_hooked(name);
  if (index < 0 || next_dlsym() == nullptr || next_dlvsym() == nullptr || in_driver(caller)) return {};
  return answer(index, handle, name, version, caller);
}
