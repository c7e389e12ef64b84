// SPDX-License-Identifier: Apache-2.0
// Every symbol of the driver API, weakly: one that another file of this folder defines is that; the others refuse, and
// name themselves once. So a program that needs more than there is gets CUDA_ERROR_NOT_SUPPORTED and a line that says
// why, and the list of what is refused needs no care. No header of CUDA here: the definitions take any parameters.
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
