// SPDX-License-Identifier: Apache-2.0
#include "simulator/cudart/module/registry.h"

#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fatbinary_section.h>

namespace simulator::cudart {

struct Managed {
  void** host;
  const char* name;
};

struct FatBinary {
  const void* image = nullptr;
  CUlibrary library = nullptr;
  bool loaded = false;
  cudaError_t status = cudaSuccess;
  std::vector<Managed> managed;
};

namespace {

struct Entry {
  FatBinary* binary = nullptr;
  const char* name = nullptr;
  CUkernel kernel = nullptr;
};

// Guards everything below. Held while the driver loads a binary, so that two threads do not load it twice.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Entry> functions;
  std::unordered_map<const void*, Entry> variables;
  std::unordered_map<const void*, Entry> managed;
  std::unordered_set<const void*> kernels;
};

// Never destroyed: programs unregister in their exit handlers.
Registry& registry() {
  static auto* all = new Registry;
  return *all;
}

cudaError_t place_managed(FatBinary& binary) {
  for (const Managed& variable : binary.managed) {
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    const cudaError_t status =
        CUDART_CALL(driver(), cuLibraryGetManaged, &begin, &bytes, binary.library, variable.name);
    if (status != cudaSuccess) {
      std::fprintf(stderr, "cudart: managed variable %s can not be placed: %s\n", variable.name,
                   cudaGetErrorName(status));
      return status;
    }
    *variable.host = reinterpret_cast<void*>(begin);
  }
  return cudaSuccess;
}

cudaError_t load_locked(FatBinary& binary) {
  if (binary.loaded) return binary.status;
  binary.loaded = true;
  binary.status = CUDART_CALL(driver(), cuLibraryLoadData, &binary.library, binary.image, nullptr, nullptr, 0u, nullptr,
                              nullptr, 0u);
  if (binary.status == cudaSuccess) binary.status = place_managed(binary);
  return binary.status;
}

}  // namespace

FatBinary* register_binary(const void* wrapper) {
  const auto* section = static_cast<const __fatBinC_Wrapper_t*>(wrapper);
  auto* binary = new FatBinary;
  if (section->magic == FATBINC_MAGIC) {
    binary->image = wrapper;  // not only its data: of linked code, the wrapper also names what was linked
  } else {
    std::fprintf(stderr, "cudart: a fat binary of unknown form was registered; nothing in it can be used\n");
    binary->loaded = true;
    binary->status = cudaErrorInvalidKernelImage;
  }
  return binary;
}

void unregister_binary(FatBinary* binary) {
  const std::lock_guard lock(registry().mutex);
  const auto of_binary = [binary](const auto& item) { return item.second.binary == binary; };
  std::erase_if(registry().functions, of_binary);
  std::erase_if(registry().variables, of_binary);
  std::erase_if(registry().managed, of_binary);
  // At exit the driver may have shut down already; then there is nothing to unload.
  if (binary->library != nullptr) static_cast<void>(CUDART_CALL(driver(), cuLibraryUnload, binary->library));
  delete binary;
}

cudaError_t load_binary(FatBinary* binary) {
  const std::lock_guard lock(registry().mutex);
  return load_locked(*binary);
}

void register_function(FatBinary* binary, const void* host, const char* name) {
  const std::lock_guard lock(registry().mutex);
  registry().functions[host] = Entry{binary, name, nullptr};
}

void register_variable(FatBinary* binary, const void* host, const char* name) {
  const std::lock_guard lock(registry().mutex);
  registry().variables[host] = Entry{binary, name, nullptr};
}

void register_managed(FatBinary* binary, void** host, const char* name) {
  const std::lock_guard lock(registry().mutex);
  binary->managed.push_back({host, name});
  registry().managed[host] = Entry{binary, name, nullptr};
}

cudaError_t find_kernel(const void* function, CUkernel* kernel) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().functions.find(function);
  if (found == registry().functions.end()) {
    if (!registry().kernels.contains(function)) return cudaErrorInvalidDeviceFunction;
    *kernel = static_cast<CUkernel>(const_cast<void*>(function));
    return cudaSuccess;
  }
  Entry& entry = found->second;
  if (entry.kernel == nullptr) {
    if (const cudaError_t status = load_locked(*entry.binary); status != cudaSuccess) return status;
    const cudaError_t status =
        CUDART_CALL(driver(), cuLibraryGetKernel, &entry.kernel, entry.binary->library, entry.name);
    if (status != cudaSuccess) return status == cudaErrorSymbolNotFound ? cudaErrorInvalidDeviceFunction : status;
    registry().kernels.insert(entry.kernel);
  }
  *kernel = entry.kernel;
  return cudaSuccess;
}

cudaError_t find_function(const void* function, CUfunction* found) {
  CUkernel kernel = nullptr;
  const cudaError_t status = find_kernel(function, &kernel);
  return status == cudaSuccess ? CUDART_CALL(driver(), cuKernelGetFunction, found, kernel) : status;
}

void* host_function(CUfunction function) {
  const std::lock_guard lock(registry().mutex);
  for (const auto& [host, entry] : registry().functions) {
    CUfunction found = nullptr;
    if (entry.kernel != nullptr && CUDART_CALL(driver(), cuKernelGetFunction, &found, entry.kernel) == cudaSuccess &&
        found == function)
      return const_cast<void*>(host);
  }
  return function;
}

cudaError_t find_variable(const void* host, CUdeviceptr* begin, size_t* bytes) {
  const std::lock_guard lock(registry().mutex);
  const auto placed = registry().managed.find(host);
  const bool is_managed = placed != registry().managed.end();
  const auto found = is_managed ? placed : registry().variables.find(host);
  if (!is_managed && found == registry().variables.end()) return cudaErrorInvalidSymbol;
  const Entry& entry = found->second;
  cudaError_t status = load_locked(*entry.binary);
  if (status != cudaSuccess) return status;
  status = is_managed ? CUDART_CALL(driver(), cuLibraryGetManaged, begin, bytes, entry.binary->library, entry.name)
                      : CUDART_CALL(driver(), cuLibraryGetGlobal, begin, bytes, entry.binary->library, entry.name);
  return status == cudaErrorSymbolNotFound ? cudaErrorInvalidSymbol : status;
}

void remember_kernel(CUkernel kernel) {
  const std::lock_guard lock(registry().mutex);
  registry().kernels.insert(kernel);
}

}  // namespace simulator::cudart
