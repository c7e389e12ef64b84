// SPDX-License-Identifier: Apache-2.0
// Driver calls for measuring programs: not linked, so that they can report a missing driver. A call that fails ends the
// program with one line.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace gpu_bench {

inline const char* program = "";  // the program's name in messages
inline void* driver = nullptr;    // libcuda.so.1, opened by the program

[[noreturn]] inline void end(int status, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program, what.c_str());
  std::exit(status);
}

inline void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) end(1, std::string(call) + ": error " + std::to_string(static_cast<int>(result)));
}

template <class Function>
Function* find(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(driver, name));
  if (found == nullptr) end(1, std::string("the driver has no ") + name);
  return found;
}

}  // namespace gpu_bench

#define CHECK(call) gpu_bench::check(call, #call)
#define TEXT(name) #name
#define SYMBOL(name) TEXT(name)
// cuda.h may map a name to a newer version: the symbol is the one after its macros.
#define CUDA(name) (gpu_bench::find<decltype(name)>(SYMBOL(name)))
