// SPDX-License-Identifier: Apache-2.0
// The real driver and the way from its functions to our hooks.
//
// The driver is opened once, privately, by its soname: whatever copy the program uses is the one that is found. Which
// hook stands for an address is decided by the driver's own answers: an address is hooked when it is what the driver
// itself gives for that symbol, so versions and default-stream variants are always those that were asked for.
//
// All of this may run before any constructor of ours, in several threads at once and inside the dynamic linker's locks:
// so no locks, no allocation of ours, no dynamic initialisation. Two threads that initialise together write the same
// values.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/functions.h"
#include "hooks/interpose/lost_context.h"

namespace thermocline {

enum class DefaultStream : std::uint8_t { kAny, kLegacy, kPerThread };

enum class Function : std::uint16_t {
#define THERMOCLINE_X(symbol, ...) symbol,
  THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X) THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
};

struct HookedFunction {
  const char* symbol;
  const char* base;
  int since;
  DefaultStream variant;
  const char* does;
};

// In the order of Function.
std::span<const HookedFunction> hooked_functions();
// Index in hooked_functions(), or -1.
int find_hooked(std::string_view symbol);
bool has_hooked_base(std::string_view base);
// The newest CUDA whose functions stand in the table.
inline constexpr int kNewestKnownVersion = 13050;
// False of what no CUDA that this table was made from knows.
bool knows_base(std::string_view base);
// Our function for the index.
void* hook_of(int index);

// True when the driver is there; opens it. False costs a search each time.
bool load_driver();
// True when the driver is in the process already; then it is known to us afterwards.
bool driver_is_loaded();
bool in_driver(const void* address);

// The hook for what the driver answered to a search for `symbol` (dlsym), or for `base` with these arguments
// (cuGetProcAddress); null when that is nothing that we hook.
void* hook_for_symbol(std::string_view symbol, const void* answer);
void* hook_for_base(std::string_view base, const void* answer, int version, std::uint64_t flags);
// The same by the arguments alone, for an answer that is no symbol's: null where nothing fits, or where the program
// asks by a version that is newer than the table, which may have another shape.
void* hook_by_name(std::string_view base, int version, std::uint64_t flags);

// A program was given a variant of a hooked function that is not hooked: what it does with it is not seen.
void a_variant_goes_unseen() noexcept;
bool any_variant_goes_unseen() noexcept;

// The driver's function; null when it has none.
void* real_address(Function function);
const char* name_of(Function function);
void* real_symbol(const char* symbol);

namespace detail {
template <Function F>
struct Signature;
#define THERMOCLINE_X(symbol, ...)       \
  template <>                            \
  struct Signature<Function::symbol> {   \
    using Pointer = decltype(&::symbol); \
  };
THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X)
THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
}  // namespace detail

// It waits for the device whatever it is given (CUDA driver API, "API synchronization behavior"; of cuMemFree, its
// implicit synchronisation). Copies that are synchronous by name do so, too, but for themselves alone: what they come
// behind is waited for before (submit.cc).
constexpr bool waits_for_the_device(Function function) {
  switch (function) {
    case Function::cuStreamSynchronize:
    case Function::cuStreamSynchronize_ptsz:
    case Function::cuCtxSynchronize:
    case Function::cuCtxSynchronize_v2:
    case Function::cuCtxDestroy:
    case Function::cuCtxDestroy_v2:
    case Function::cuCtxDetach:
    case Function::cuDevicePrimaryCtxRelease:
    case Function::cuDevicePrimaryCtxRelease_v2:
    case Function::cuDevicePrimaryCtxReset:
    case Function::cuDevicePrimaryCtxReset_v2:
    case Function::cuGreenCtxDestroy:
    case Function::cuMemFree_v2:
    case Function::cuArrayDestroy:
    case Function::cuModuleUnload:
    case Function::cuLibraryUnload:
      return true;
    default:
      return false;
  }
}

// While one lives, this thread is inside the library: hooks and dlsym stand aside, whoever calls them.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool now();
};

// Calls the driver. A function that it lacks is "not supported"; no driver at all is "not initialized".
template <Function F, class... Arguments>
CUresult real(Arguments... arguments) {
  auto function = reinterpret_cast<typename detail::Signature<F>::Pointer>(real_address(F));
  if (function == nullptr) return driver_is_loaded() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
  if constexpr (waits_for_the_device(F)) {
    // Ours, else the program's; or the program's within a host function that the driver runs in a call of ours, which
    // it refuses.
    const bool is_ours = Inside::now();
    if (!is_ours) about_to_wait(name_of(F));
    const CUresult result = function(arguments...);
    if (is_ours && result != CUDA_ERROR_NOT_PERMITTED) about_to_wait(name_of(F));
    note_lost_context(result);
    return result;
  }
  return function(arguments...);
}

}  // namespace thermocline
