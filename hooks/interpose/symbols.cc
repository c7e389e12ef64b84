// SPDX-License-Identifier: Apache-2.0
#include "hooks/interpose/symbols.h"

#include <dlfcn.h>

#include <array>
#include <atomic>

#include "hooks/interpose/dynamic_linker.h"

namespace thermocline {
namespace {

constexpr const char* kDriverName = "libcuda.so.1";

constexpr std::array kHooked = {
#define THERMOCLINE_X(symbol, base, since, variant, does) \
  HookedFunction{#symbol, #base, since, DefaultStream::variant, does},
    THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
};

constexpr std::array kNames = {
#define THERMOCLINE_X(symbol, ...) #symbol,
    THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X) THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
};

// Functions that are not hooked: symbols separated by spaces.
constexpr std::array kOthers = {
#define THERMOCLINE_X(why, symbols) std::string_view(symbols),
    THERMOCLINE_PASSED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
#define THERMOCLINE_X(symbol) std::string_view(#symbol),
        THERMOCLINE_CALLED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
};

// Filled by the first thread that needs it; all threads write the same values. `open` is written last, behind
// detail::driver_functions.
struct Addresses {
  std::atomic<void*> handle{nullptr};
  std::atomic<bool> open{false};
  std::atomic<void*> begin{nullptr};  // load address of the driver library
  // The result of cuGetProcAddress for the symbol, if that differs from dlsym's.
  std::atomic<bool> asked{false};
  std::array<std::atomic<void*>, kHooked.size()> given{};
};
constinit Addresses addresses;

void take_driver(void* handle) {
  Inside inside;
  const DlsymFunction find = next_dlsym();
  if (find == nullptr) return;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    detail::driver_functions[i].store(find(handle, kNames[i]), std::memory_order_relaxed);
  }
  Dl_info info{};
  void* any = find(handle, "cuInit");
  if (any != nullptr && dladdr(any, &info) != 0) addresses.begin.store(info.dli_fbase, std::memory_order_relaxed);
  // Failed searches set an error message that the program must not see.
  dlerror();
  addresses.handle.store(handle, std::memory_order_relaxed);
  addresses.open.store(true, std::memory_order_release);
}

bool open_driver(int flags) {
  if (addresses.open.load(std::memory_order_acquire)) return true;
  Inside inside;
  void* handle = dlopen(kDriverName, flags | RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    dlerror();
    return false;
  }
  take_driver(handle);
  return addresses.open.load(std::memory_order_acquire);
}

std::uint64_t flags_of(DefaultStream variant) {
  if (variant == DefaultStream::kLegacy) return CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  if (variant == DefaultStream::kPerThread) return CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return CU_GET_PROC_ADDRESS_DEFAULT;
}

// Asks the driver for exactly that symbol: with its base name, its first version, its variant.
void ask_for_given() {
  if (addresses.asked.load(std::memory_order_acquire)) return;
  Inside inside;
  for (std::size_t i = 0; i < kHooked.size(); ++i) {
    const HookedFunction& function = kHooked[i];
    void* given = nullptr;
    CUresult result = real<Function::cuGetProcAddress_v2>(function.base, &given, function.since,
                                                          static_cast<cuuint64_t>(flags_of(function.variant)), nullptr);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      result = real<Function::cuGetProcAddress>(function.base, &given, function.since,
                                                static_cast<cuuint64_t>(flags_of(function.variant)));
    }
    if (result == CUDA_SUCCESS) addresses.given[i].store(given, std::memory_order_relaxed);
  }
  addresses.asked.store(true, std::memory_order_release);
}

bool is_answer(std::size_t index, const void* answer) {
  return detail::driver_functions[index].load(std::memory_order_relaxed) == answer ||
         addresses.given[index].load(std::memory_order_relaxed) == answer;
}

bool variant_fits(DefaultStream variant, std::uint64_t flags) {
  if (variant == DefaultStream::kAny) return true;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  return per_thread == (variant == DefaultStream::kPerThread);
}

}  // namespace

constinit std::array<std::atomic<void*>, detail::kFunctions> detail::driver_functions{};
constinit thread_local int Inside::of_this_thread = 0;

std::span<const HookedFunction> hooked_functions() { return kHooked; }

int find_hooked(std::string_view symbol) {
  for (std::size_t i = 0; i < kHooked.size(); ++i) {
    if (symbol == kHooked[i].symbol) return static_cast<int>(i);
  }
  return -1;
}

bool has_hooked_base(std::string_view base) {
  for (const HookedFunction& function : kHooked) {
    if (base == function.base) return true;
  }
  return false;
}

bool knows_base(std::string_view base) {
  if (has_hooked_base(base)) return true;
  for (const std::string_view symbols : kOthers) {
    for (std::size_t at = symbols.find(base); at != std::string_view::npos; at = symbols.find(base, at + 1)) {
      const std::size_t end = at + base.size();
      // The match may be the beginning of a later version's name.
      const bool begins = at == 0 || symbols[at - 1] == ' ';
      if (begins && (end == symbols.size() || symbols[end] == ' ' || symbols.substr(end, 2) == "_v")) return true;
    }
  }
  return base == "cuGraphInstantiateWithFlags";  // resolves to the same function as cuGraphInstantiate
}

bool load_driver() { return open_driver(0); }
bool driver_is_loaded() { return open_driver(RTLD_NOLOAD); }

bool in_driver(const void* address) {
  void* begin = addresses.begin.load(std::memory_order_relaxed);
  Dl_info info{};
  return begin != nullptr && dladdr(address, &info) != 0 && info.dli_fbase == begin;
}

void* hook_for_symbol(std::string_view symbol, const void* answer) {
  const int index = find_hooked(symbol);
  if (index < 0 || answer == nullptr || !driver_is_loaded()) return nullptr;
  return detail::driver_functions[static_cast<std::size_t>(index)].load(std::memory_order_relaxed) == answer
             ? hook_of(index)
             : nullptr;
}

namespace {

// From CUDA 12 on the driver resolves one base name to the symbol of another.
bool is_asked_for_by(std::string_view base, const HookedFunction& function) {
  return base == function.base ||
         (base == "cuGraphInstantiate" && function.base == std::string_view("cuGraphInstantiateWithFlags"));
}

}  // namespace

void* hook_for_base(std::string_view base, const void* answer, int version, std::uint64_t flags) {
  if (answer == nullptr || !has_hooked_base(base) || !load_driver()) return nullptr;
  ask_for_given();
  // A driver may return one address for several symbols; then the arguments decide, and the newest requested version
  // wins.
  int best = -1;
  for (std::size_t i = 0; i < kHooked.size(); ++i) {
    if (!is_asked_for_by(base, kHooked[i]) || !is_answer(i, answer)) continue;
    if (best < 0) best = static_cast<int>(i);
    const HookedFunction& chosen = kHooked[static_cast<std::size_t>(best)];
    const bool fits = variant_fits(kHooked[i].variant, flags) && kHooked[i].since <= version;
    const bool chosen_fits = variant_fits(chosen.variant, flags) && chosen.since <= version;
    if (fits && (!chosen_fits || kHooked[i].since > chosen.since)) best = static_cast<int>(i);
  }
  return best < 0 ? nullptr : hook_of(best);
}

void* hook_by_name(std::string_view base, int version, std::uint64_t flags) {
  if (version > kNewestKnownVersion) return nullptr;
  int best = -1;
  for (std::size_t i = 0; i < kHooked.size(); ++i) {
    const HookedFunction& one = kHooked[i];
    if (base != one.base || one.since > version || !variant_fits(one.variant, flags)) continue;
    if (best < 0 || one.since > kHooked[static_cast<std::size_t>(best)].since) best = static_cast<int>(i);
  }
  return best < 0 ? nullptr : hook_of(best);
}

namespace {
constinit std::atomic<bool> unseen_variant{false};
}
void a_variant_goes_unseen() noexcept { unseen_variant.store(true, std::memory_order_relaxed); }
const std::atomic<bool>& any_variant_goes_unseen() noexcept { return unseen_variant; }

const char* name_of(Function function) { return kNames[static_cast<std::size_t>(function)]; }

void* detail::open_and_find(Function function) {
  if (!addresses.open.load(std::memory_order_acquire) && !load_driver()) return nullptr;
  return driver_functions[static_cast<std::size_t>(function)].load(std::memory_order_relaxed);
}

void* real_symbol(const char* symbol) {
  if (!load_driver()) return nullptr;
  Inside inside;
  void* found = next_dlsym()(addresses.handle.load(std::memory_order_relaxed), symbol);
  if (found == nullptr) dlerror();
  return found;
}

}  // namespace thermocline
