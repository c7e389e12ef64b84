// SPDX-License-Identifier: Apache-2.0
// Finds the process's copy of NCCL, and whether a call comes from it. Code that dlsym may reach takes no lock and does
// not allocate, as in symbols.cc.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>

#include "hooks/interpose/dynamic_linker.h"
#include "hooks/interpose/nccl.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

constexpr const char* kFileName = "libnccl.so.2";
constexpr std::size_t kFunctions = static_cast<std::size_t>(Nccl::kCount);

// NCCL's own names; without the first letter they are the names that others may replace.
constexpr std::array<const char*, kFunctions> kNames = {
#define THERMOCLINE_X(name, parameters) "p" #name,
    THERMOCLINE_NCCL_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
};

// Filled by the first thread that needs it, `begin` last; all threads write the same values.
struct NcclSymbols {
  std::array<std::atomic<void*>, kFunctions> real{};
  std::atomic<void*> count{nullptr};
  std::atomic<const void*> begin{nullptr};  // load address of the copy
};
constinit NcclSymbols known;

thread_local int depth = 0;
std::atomic<bool> any_call{false};

const void* object_of(const void* address) {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Searches the handle or, if null, everything that is loaded: NCCL may be linked into another library.
void* search(void* handle, const char* name) {
  if (handle == nullptr) return next_definition(name);
  void* const found = next_dlsym()(handle, name);
  if (found == nullptr) dlerror();
  return found;
}

bool open_nccl() {
  if (known.begin.load(std::memory_order_acquire) != nullptr) return true;
  if (next_dlsym() == nullptr) return false;
  const Inside inside;
  void* const handle = dlopen(kFileName, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) dlerror();
  void* const first = search(handle, kNames[0]);
  if (first == nullptr) return false;
  for (std::size_t i = 0; i < kFunctions; ++i) {
    known.real[i].store(search(handle, kNames[i]), std::memory_order_relaxed);
  }
  known.count.store(search(handle, "pncclCommCount"), std::memory_order_relaxed);
  known.begin.store(object_of(first), std::memory_order_release);
  return true;
}

bool begins_with_nccl(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return std::strncmp(slash == nullptr ? path : slash + 1, "libnccl", 7) == 0;
}

}  // namespace

int find_nccl(std::string_view name) {
  for (std::size_t i = 0; i < kFunctions; ++i) {
    if (name == kNames[i] + 1) return static_cast<int>(i);
  }
  return -1;
}

const char* name_of(Nccl function) { return kNames[static_cast<std::size_t>(function)] + 1; }

void* real_nccl(Nccl function) {
  return open_nccl() ? known.real[static_cast<std::size_t>(function)].load(std::memory_order_relaxed) : nullptr;
}

void* hook_for_nccl(int index, const void* found) {
  if (found == nullptr || real_nccl(static_cast<Nccl>(index)) == nullptr) return nullptr;
  return object_of(found) == known.begin.load(std::memory_order_acquire) ? hook_of_nccl(index) : nullptr;
}

int ranks_of(ncclComm_t comm) {
  if (!open_nccl()) return 0;
  const auto count = reinterpret_cast<ncclResult_t (*)(ncclComm_t, int*)>(known.count.load(std::memory_order_relaxed));
  int ranks = 0;
  return count != nullptr && comm != nullptr && count(comm, &ranks) == kNcclSuccess ? ranks : 0;
}

InNccl::InNccl() {
  ++depth;
  if (!any_call.load(std::memory_order_relaxed)) any_call.store(true, std::memory_order_relaxed);
}
InNccl::~InNccl() { --depth; }
bool InNccl::now() { return depth > 0; }
bool InNccl::ever() { return any_call.load(std::memory_order_relaxed); }

bool is_of_nccl(const void* return_address) {
  if (depth > 0) return true;
  // Few call sites in a process allocate, and those of one library follow each other, so the last result is cached.
  static thread_local const void* last = nullptr;
  static thread_local bool last_is = false;
  if (return_address == last) return last_is;
  Dl_info info{};
  last_is = dladdr(return_address, &info) != 0 && info.dli_fname != nullptr && begins_with_nccl(info.dli_fname);
  last = return_address;
  return last_is;
}

bool is_kernel_of_nccl(const char* name) {
  return name != nullptr &&
         (std::strstr(name, "ncclDevKernel") != nullptr || std::strstr(name, "ncclKernel") != nullptr);
}

}  // namespace thermocline
