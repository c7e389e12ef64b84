// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/answer.h"

#include <dlfcn.h>

#include <cstring>

#include "hooks/interpose/dynamic_linker.h"
#include "hooks/interpose/nccl.h"
#include "hooks/interpose/nvtx_ranges.h"
#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

void* look_up(void* handle, const char* name, const char* version) {
  return version == nullptr ? next_dlsym()(handle, name) : next_dlvsym()(handle, name, version);
}

Answer give(void* address) { return {address, 1}; }

// A function for which the library has a hook: the driver's, or NCCL's.
class Hooked {
 public:
  explicit Hooked(const char* name) : driver_(find_hooked(name)), nccl_(driver_ < 0 ? find_nccl(name) : -1) {}

  bool is_any() const { return driver_ >= 0 || nccl_ >= 0; }
  void* hook() const { return driver_ >= 0 ? hook_of(driver_) : hook_of_nccl(nccl_); }
  // Whether the real library (driver or NCCL) is there.
  bool has_real() const {
    if (driver_ < 0) return real_nccl(static_cast<Nccl>(nccl_)) != nullptr;
    return driver_is_loaded() && real_address(static_cast<Function>(driver_)) != nullptr;
  }
  // The hook for the function that was found; null if that is another function.
  void* hook_for(const char* name, const void* found) const {
    return driver_ >= 0 ? hook_for_symbol(name, found) : hook_for_nccl(nccl_, found);
  }

 private:
  int driver_, nccl_;
};

// The library's export is found even if the real library lacks the function or is not there at all; then the search
// must fail. Searching the objects after this library sets the message that dlerror returns.
Answer give_our_export(const Hooked& hooked, const char* name) {
  if (hooked.has_real()) return give(hooked.hook());
  return give(look_up(RTLD_NEXT, name, nullptr));
}

// Objects loaded before this library find its export, or that of an object in between. An object loaded after it that
// asks for the next definition would bypass it: if only the real library comes after it, the answer is the hook again.
Answer answer_next(const Hooked& hooked, const char* name, const void* caller) {
  switch (place_of(caller, name)) {
    case LoadOrder::kBeforeUs:
      return give_our_export(hooked, name);
    case LoadOrder::kBehindUs:
      return hooked.hook_for(name, next_definition(name)) != nullptr ? give(hooked.hook()) : Answer{};
    default:
      return {};
  }
}

Answer answer(const Hooked& hooked, void* handle, const char* name, const char* version, const void* caller) {
  if (handle == RTLD_NEXT) return answer_next(hooked, name, caller);
  if (handle == RTLD_DEFAULT) {
    // As seen from this library: the global scope, which is searched first for every object.
    void* found = look_up(RTLD_DEFAULT, name, version);
    if (found == hooked.hook()) return give_our_export(hooked, name);
    if (found == nullptr) dlerror();
    void* hook = hooked.hook_for(name, found);
    return hook != nullptr ? give(hook) : Answer{};
  }
  void* found = look_up(handle, name, version);
  if (found == hooked.hook()) return give_our_export(hooked, name);
  void* hook = hooked.hook_for(name, found);
  return give(hook != nullptr ? hook : found);
}

// NVTX looks for the function of the tool that it has opened.
Answer answer_nvtx(void* handle, const char* name, const char* version) {
  const bool is_in_a_library = handle != RTLD_NEXT && handle != RTLD_DEFAULT;
  if (!is_in_a_library || std::strcmp(name, kNvtxInitialization) != 0) return {};
  if (next_dlsym() == nullptr || next_dlvsym() == nullptr) return {};
  return give(with_nvtx_ranges(look_up(handle, name, version)));
}

}  // namespace
}  // namespace thermocline

thermocline::Answer thermocline_answer(void* handle, const char* name, const char* version, const void* caller) {
  using namespace thermocline;
  if (Inside::now()) return {};
  if (name[0] == kNvtxInitialization[0]) return answer_nvtx(handle, name, version);
  const Hooked hooked(name);
  if (!hooked.is_any() || next_dlsym() == nullptr || next_dlvsym() == nullptr || in_driver(caller)) return {};
  return answer(hooked, handle, name, version, caller);
}
