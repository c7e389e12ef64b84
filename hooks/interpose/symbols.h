// SPDX-License-Identifier: Apache-2.0
// The real driver, and the mapping from its functions to the library's hooks.
//
// The driver is opened once, privately, by its soname; if the program has loaded a copy, that one is found. Which hook
// replaces an address is decided by the driver's own results: an address is hooked if it is what the driver itself
// returns for that symbol. So versions and default-stream variants are always the requested ones.
//
// All of this may run before any constructor of this library, in several threads at once, and while the dynamic
// linker's locks are held. So it uses no locks, no allocation, and no dynamic initialization. Threads that initialize
// at the same time write the same values.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "driver/address_once.h"
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
// The newest CUDA version covered by the table.
inline constexpr int kNewestKnownVersion = 13050;
// False for a name that does not exist in any CUDA version covered by the table.
bool knows_base(std::string_view base);
// The hook with this index.
void* hook_of(int index);

// Opens the driver; true if it is there. If it is not, each call costs a search.
bool load_driver();
// True if the driver is already loaded in the process; afterwards its functions are known here.
bool driver_is_loaded();
bool in_driver(const void* address);

// The hook for the address that the driver returned for `symbol` (dlsym), or for `base` with these arguments
// (cuGetProcAddress); null if it is not a hooked function.
void* hook_for_symbol(std::string_view symbol, const void* answer);
void* hook_for_base(std::string_view base, const void* answer, int version, std::uint64_t flags);
// The hook, decided by the arguments alone, for an address that belongs to no symbol. Null if nothing matches, or if
// the program asks with a version newer than the table, which may have another signature.
void* hook_by_name(std::string_view base, int version, std::uint64_t flags);

// A program was given a variant of a hooked function that is not hooked, so its calls will not be seen. This is
// permanent, and every engine knows it at once (EngineOptions::evict_no_more).
void a_variant_goes_unseen() noexcept;
const std::atomic<bool>& any_variant_goes_unseen() noexcept;

namespace detail {
inline constexpr std::size_t kFunctions =
#define THERMOCLINE_X(symbol, ...) 1 +
    THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X) THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
        0;
// By Function; null before the driver is open, and for functions that it lacks.
extern constinit std::array<std::atomic<void*>, kFunctions> driver_functions;
void* open_and_find(Function function);
}  // namespace detail

// The driver's function; null if the driver lacks it.
inline void* real_address(Function function) {
  void* const found = detail::driver_functions[static_cast<std::size_t>(function)].load(std::memory_order_relaxed);
  return found != nullptr ? found : detail::open_and_find(function);
}
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

// Whether and when a function waits for the device.
enum class Waits : std::uint8_t {
  kNever,
  // Always, whatever its arguments (CUDA driver API, "API synchronization behavior"; cuMemFree: implicit
  // synchronization). Copies that are synchronous by name also wait, but only for themselves: submit.cc waits before
  // the call for the work that they are ordered after.
  kAlways,
  // The function adds work to a stream, whose queue may be full.
  kForRoom,
  // Some drivers wait here for streams that are blocked (driver/mapping_waits.h).
  kForBlockedStreams,
};

namespace detail {
// By Function, for hooked functions only.
inline constexpr std::string_view kDoes[] = {
#define THERMOCLINE_X(symbol, base, since, variant, does) does,
    THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
};
// Whether the text in functions.h says "on", which names the stream.
constexpr bool is_on_a_stream(std::string_view does) {
  return does.starts_with("on ") || does.find("; on ") != std::string_view::npos;
}
}  // namespace detail

constexpr Waits waits_of(Function function) {
  switch (function) {
    case Function::cuStreamSynchronize:
    case Function::cuStreamSynchronize_ptsz:
    case Function::cuEventSynchronize:
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
      return Waits::kAlways;
    case Function::cuMemMap:
    case Function::cuMemUnmap:
      return Waits::kForBlockedStreams;
    default:
      break;
  }
  const auto index = static_cast<std::size_t>(function);
  return index < std::size(detail::kDoes) && detail::is_on_a_stream(detail::kDoes[index]) ? Waits::kForRoom
                                                                                          : Waits::kNever;
}

// While an object of this class lives, this thread is inside the library: hooks and dlsym pass every call through.
class Inside {
 public:
  // How often the calling thread is inside. For hooks that ask and then enter: finding it takes a call.
  struct Depth {
    Depth() : of_this_thread(*address_once(&Inside::of_this_thread)) {}
    int& of_this_thread;
  };
  explicit Inside(Depth depth = {}) : depth_(depth.of_this_thread) { ++depth_; }
  ~Inside() { --depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool now(Depth depth = {}) { return depth.of_this_thread > 0; }

 private:
  static constinit thread_local int of_this_thread;
  int& depth_;
};

// Calls the driver. CUDA_ERROR_NOT_SUPPORTED if it lacks the function; CUDA_ERROR_NOT_INITIALIZED if there is no
// driver.
template <Function F, class... Arguments>
CUresult real(Arguments... arguments) {
  auto function = reinterpret_cast<typename detail::Signature<F>::Pointer>(real_address(F));
  if (function == nullptr) return driver_is_loaded() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
  if constexpr (waits_of(F) == Waits::kForRoom) {
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      about_to_queue(name_of(F));
  }
  if constexpr (waits_of(F) == Waits::kForBlockedStreams) about_to_map(name_of(F));
  if constexpr (waits_of(F) == Waits::kAlways) {
    // Whether the library makes the call, or the program. A call that the program makes in a host function, while the
    // driver runs that function during a call of the library, counts as the library's; the driver refuses it.
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
