// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress in both forms (CUDA 11: four arguments, CUDA 12: five). The driver is asked first; if the address it
// returns is a hooked function, the hook for exactly that function is returned instead.
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "hooks/diagnostics/fallbacks.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

// A driver may return special resolvers to programs that ask for per-thread default streams: these return the
// per-thread variants without being passed a flag. They are not exported, so they are not in the table; what they
// return is exchanged in the same way.
using Resolver = CUresult (*)(const char*, void**, int, cuuint64_t);
using ResolverV2 = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
std::atomic<Resolver> per_thread_resolver{nullptr};
std::atomic<ResolverV2> per_thread_resolver_v2{nullptr};

constexpr cuuint64_t kStreamFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
// The first CUDA version with the fifth argument.
constexpr int kSecondShape = 12000;

void exchange(const char* base, void** address, int version, cuuint64_t flags);

cuuint64_t per_thread_unless_said(cuuint64_t flags) {
  return (flags & kStreamFlags) != 0 ? flags : flags | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

CUresult resolve_per_thread(const char* base, void** address, int version, cuuint64_t flags) {
  const CUresult result = per_thread_resolver.load()(base, address, version, flags);
  if (result == CUDA_SUCCESS) exchange(base, address, version, per_thread_unless_said(flags));
  return result;
}

CUresult resolve_per_thread_v2(const char* base, void** address, int version, cuuint64_t flags,
                               CUdriverProcAddressQueryResult* status) {
  const CUresult result = per_thread_resolver_v2.load()(base, address, version, flags, status);
  if (result == CUDA_SUCCESS) exchange(base, address, version, per_thread_unless_said(flags));
  return result;
}

// Null when the address is not a resolver for per-thread default streams.
void* hook_for_resolver(const char* base, void* answer, int version, cuuint64_t flags) {
  if (std::strcmp(base, "cuGetProcAddress") != 0 || (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == 0) {
    return nullptr;
  }
  if (version >= kSecondShape) {
    per_thread_resolver_v2.store(reinterpret_cast<ResolverV2>(answer));
    return reinterpret_cast<void*>(&resolve_per_thread_v2);
  }
  per_thread_resolver.store(reinterpret_cast<Resolver>(answer));
  return reinterpret_cast<void*>(&resolve_per_thread);
}

// Without a public declaration there is nothing to hook, and libraries look the functions up without calling them.
void say_what_has_no_header(std::string_view base) {
  if (!base.starts_with("cuSubgrid")) return;
  THERMOCLINE_LOG_ONCE(LogLevel::kInfo,
                       "the driver has %.*s, which no public header declares; work that is submitted through it is not "
                       "seen",
                       static_cast<int>(base.size()), base.data());
}

void exchange(const char* base, void** address, int version, cuuint64_t flags) {
  if (base == nullptr || address == nullptr || *address == nullptr || Inside::now()) return;
  void* hook = hook_for_base(base, *address, version, flags);
  if (hook == nullptr) hook = hook_for_resolver(base, *address, version, flags);
  if (hook != nullptr) {
    *address = hook;
    return;
  }
  if (!knows_base(base)) count_unknown_function(base);
  say_what_has_no_header(base);
  // First versions, with 32-bit addresses, are intentionally not hooked.
  if (!has_hooked_base(base) || version < 3020) return;
  // The driver has another entry point for a function in the table: a program that asks with this version expects the
  // form in the table.
  if (void* named = hook_by_name(base, version, flags); named != nullptr) {
    *address = named;
    return;
  }
  // A variant that is newer than the table is not hooked, like any unknown function, and its effects are not seen.
  if (version <= kNewestKnownVersion) return;
  a_variant_goes_unseen();
  count_unknown_function(std::string(base) + " of CUDA " + std::to_string(version / 1000) + '.' +
                         std::to_string(version % 1000 / 10));
  THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                       "the driver has a variant of %s that is not known; it is left alone, and nothing is evicted "
                       "from now on",
                       base);
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  using namespace thermocline;
  const CUresult result = real<Function::cuGetProcAddress>(symbol, pfn, cudaVersion, flags);
  if (result == CUDA_SUCCESS) exchange(symbol, pfn, cudaVersion, flags);
  return result;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  using namespace thermocline;
  const CUresult result = real<Function::cuGetProcAddress_v2>(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (result == CUDA_SUCCESS) exchange(symbol, pfn, cudaVersion, flags);
  return result;
}

}  // extern "C"
