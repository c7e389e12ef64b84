// SPDX-License-Identifier: Apache-2.0
// The first calls that programs make to each of NVIDIA's libraries. The libraries' headers are not needed: the signatures
// are repeated here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace no_device {

struct Beginning {
  const char* name;
  int (*call)(void* function);
};

template <class... Arguments>
int call(void* function, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

inline int with_number(void* function) {
  int number = -1;
  const int result = call(function, &number);
  std::printf("(%d) ", number);
  return result;
}

inline int with_handle(void* function) {
  void* handle = nullptr;
  return call(function, &handle);
}

inline constexpr Beginning kBeginnings[] = {
    {"cudaRuntimeGetVersion", with_number},
    {"cudaDriverGetVersion", with_number},
    {"cudaGetDeviceCount", with_number},
    {"cudaGetDevice", with_number},
    {"cudaFree", [](void* f) { return call(f, static_cast<void*>(nullptr)); }},
    {"cudaMalloc",
     [](void* f) {
       void* at = nullptr;
       return call(f, &at, std::size_t{1024});
     }},
    {"cudaMallocAsync",
     [](void* f) {
       void* at = nullptr;
       return call(f, &at, std::size_t{1024}, static_cast<void*>(nullptr));
     }},
    {"cudaHostAlloc",
     [](void* f) {
       void* at = nullptr;
       return call(f, &at, std::size_t{1024}, 0U);
     }},
    {"cudaStreamCreate", with_handle},
    {"cudaDeviceSynchronize", [](void* f) { return call(f); }},
    {"cudaPeekAtLastError", [](void* f) { return call(f); }},
    {"cudaGetLastError", [](void* f) { return call(f); }},
    {"cudaDeviceReset", [](void* f) { return call(f); }},
    {"cublasCreate_v2", with_handle},
    {"cublasLtCreate", with_handle},
    {"cudnnCreate", with_handle},
    {"cusparseCreate", with_handle},
    {"cusolverDnCreate", with_handle},
    {"cufftCreate", with_number},
    {"ncclGetVersion", with_number},
    {"ncclCommInitAll",
     [](void* f) {
       void* communicator = nullptr;
       return call(f, &communicator, 1, static_cast<const int*>(nullptr));
     }},
    {"nvrtcVersion",
     [](void* f) {
       int major = 0;
       int minor = 0;
       return call(f, &major, &minor);
     }},
};

}  // namespace no_device
