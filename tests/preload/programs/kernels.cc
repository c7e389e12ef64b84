// SPDX-License-Identifier: Apache-2.0
// The bodies of the kernels on the simulated device.
#include <cstdint>
#include <cstring>

#include <vector_types.h>

#include "tests/preload/programs/workload.h"

namespace program {

const char kKernels[] = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry combine(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 words, .param .u64 salt)
{
  ret;
}
.visible .entry scatter(.param .align 1 .b8 arguments[21])
{
  ret;
}
.visible .entry mix(.param .u64 out, .param .align 8 .b8 pair[24])
{
  ret;
}
)";

namespace {

template <class T>
T read(const void* at, std::size_t offset = 0) {
  T value;
  std::memcpy(&value, static_cast<const char*>(at) + offset, sizeof value);
  return value;
}

}  // namespace
}  // namespace program

extern "C" {

__attribute__((visibility("default"))) void simulated_combine(void** arguments, dim3, dim3) {
  using program::read;
  auto* out = read<std::uint32_t*>(arguments[0]);
  const auto* a = read<const std::uint32_t*>(arguments[1]);
  const auto* b = read<const std::uint32_t*>(arguments[2]);
  const auto words = read<std::uint32_t>(arguments[3]);
  const auto salt = static_cast<std::uint32_t>(read<std::uint64_t>(arguments[4]));
  for (std::uint32_t i = 0; i < words; ++i) out[i] = (out[i] * 31 + a[i] * 7 + b[words - 1 - i]) ^ salt;
}

// One packed structure: a byte, the target, words (32 bits), the source. Moves the second word of each pair.
__attribute__((visibility("default"))) void simulated_scatter(void** arguments, dim3, dim3) {
  using program::read;
  const void* block = arguments[0];
  const auto shift = read<unsigned char>(block, 0);
  auto* to = read<std::uint32_t*>(block, 1);
  const auto words = read<std::uint32_t>(block, 9);
  const auto* from = read<const std::uint32_t*>(block, 13);
  for (std::uint32_t i = 0; i + 1 < words; i += 2) to[i] = from[i + 1] + shift;
}

}  // extern "C"
