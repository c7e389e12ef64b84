// SPDX-License-Identifier: Apache-2.0
// Weak definitions of every symbol of the driver API. A symbol that another file of this folder defines is not
// affected; the others return CUDA_ERROR_NOT_SUPPORTED and print their name once. So a program that needs an
// unsupported function gets a message, and the list needs no maintenance. Includes no CUDA header: the definitions
// accept any parameters.
// Compiled alone: where the headers were read before, these are other declarations of the same functions.
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace {

constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

int refuse(const char* name) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const named = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  if (named->insert(name).second) std::fprintf(stderr, "simulated device: %s is not supported\n", name);
  return kNotSupported;
}

}  // namespace

#define SIMULATED_ENTRY(name, version, symbol)                          \
  extern "C" __attribute__((visibility("default"), weak)) int symbol(); \
  int symbol() { return refuse(#symbol); }
#define SIMULATED_ALIAS(name, version, symbol)
#include "simulator/cuda/entry_points/entry_points.def"
#include "simulator/cuda/entry_points/entry_points_per_thread.def"
#undef SIMULATED_ENTRY
#undef SIMULATED_ALIAS
