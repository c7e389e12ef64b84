// SPDX-License-Identifier: Apache-2.0
#include "simulator/cudart/driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "simulator/cudart/errors.h"

namespace simulator::cudart {
namespace {

constexpr int kVersion = CUDART_VERSION;

Driver tables[2];

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

// From 13.0 on the driver's newest form of this function takes a context; cuda.h declares that form under another name.
constexpr int version_of(std::string_view name) { return name == "cuCtxSynchronize" ? 12000 : kVersion; }

template <typename Entry>
void look_up(GetProcAddress get, const char* name, cuuint64_t flags, Entry* entry) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (get(name, &address, version_of(name), flags, &found) != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS)
    address = nullptr;
  *entry = reinterpret_cast<Entry>(address);
}

void fill(GetProcAddress get, cuuint64_t flags, Driver* table) {
#define CUDART_ENTRY(name) look_up(get, #name, flags, &table->name);
#include "simulator/cudart/driver_entries.def"
#undef CUDART_ENTRY
}

cudaError_t load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "cudart: no driver: %s\n", dlerror());
    return cudaErrorInsufficientDriver;
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    std::fprintf(stderr, "cudart: libcuda.so.1 has no cuGetProcAddress_v2\n");
    return cudaErrorInsufficientDriver;
  }
  fill(get, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &tables[0]);
  fill(get, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &tables[1]);
  if (const cudaError_t status = CUDART_CALL(tables[0], cuInit, 0u); status != cudaSuccess) return status;
  int version = 0;
  if (const cudaError_t status = CUDART_CALL(tables[0], cuDriverGetVersion, &version); status != cudaSuccess)
    return status;
  return version < kVersion / 1000 * 1000 ? cudaErrorInsufficientDriver : cudaSuccess;
}

}  // namespace

cudaError_t load_driver() {
  static const cudaError_t status = load();
  return status;
}

const Driver& driver(Rule rule) { return tables[rule == Rule::kPerThread ? 1 : 0]; }

cudaError_t from_driver(CUresult result) {
  // Errors that both interfaces know have the same number; the others are the driver's own.
  const auto error = static_cast<cudaError_t>(result);
  return is_known(error) ? error : cudaErrorUnknown;
}

cudaError_t missing_entry(const char* name) {
  static std::mutex mutex;
  static auto* named = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (named->insert(name).second) std::fprintf(stderr, "cudart: the driver has no %s\n", name);
  return cudaErrorCallRequiresNewerDriver;
}

}  // namespace simulator::cudart
