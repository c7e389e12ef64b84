// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/programs/table_kernels.h"

#include <dlfcn.h>
#include <vector_types.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "simulator/control.h"

namespace program {

const char kTableKernels[] = R"(.version 8.0
.target sm_70
.address_size 64
.visible .global .align 8 .u64 root;
.visible .global .align 128 .b8 map[128];
.visible .entry follow(.param .u64 table, .param .u32 count, .param .u32 words, .param .u32 depth, .param .u32 salt)
{
  ret;
}
.visible .entry write_table(.param .u64 table, .param .u64 a, .param .u64 b, .param .u64 c)
{
  ret;
}
.visible .entry set_pointers(.param .u64 table, .param .u64 a, .param .u64 b, .param .u64 c)
{
  ret;
}
.visible .entry displace_pointers(.param .u64 to, .param .u64 from, .param .u32 count, .param .u64 bytes)
{
  ret;
}
.visible .entry move_words(.param .u64 to, .param .u64 from, .param .u32 count, .param .u64 bytes)
{
  ret;
}
.visible .entry biased(.param .u64 out, .param .u64 a, .param .u64 bias, .param .u32 words, .param .u32 salt)
{
  ret;
}
.visible .entry follow_root(.param .u32 words, .param .u32 salt)
{
  ret;
}
.visible .entry follow_map(.param .u64 map, .param .u32 salt)
{
  ret;
}
.visible .entry follow_own_map(.param .u32 salt)
{
  ret;
}
.visible .entry combine(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 words, .param .u64 salt)
{
  ret;
}
)";

CUdeviceptr root = 0, own_map = 0;

}  // namespace program

namespace {

using program::kTargets;

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void walk(const std::uint64_t* table, std::uint32_t count, std::uint32_t words, std::uint32_t depth,
          std::uint32_t salt) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (depth > 0) {
      walk(reinterpret_cast<const std::uint64_t*>(table[i]), 1, words, depth - 1, salt + i);
      continue;
    }
    auto* target = reinterpret_cast<std::uint32_t*>(table[i]);
    for (std::uint32_t w = 0; w < words; ++w) target[w] = target[w] * 31 + w + salt + i;
  }
}

// Overwrites the whole tensor that a tensor map names.
void work_on_tensor(const void* map, std::uint32_t salt) {
  const auto control =
      reinterpret_cast<const SimulatedDeviceControl* (*)()>(dlsym(RTLD_DEFAULT, "simulated_device_control"));
  SimulatedTensorMap tensor;
  if (control == nullptr || control()->tensor_map(map, &tensor) == 0) {
    std::fprintf(stderr, "program: no tensor map\n");
    std::_Exit(4);
  }
  for (std::uint64_t row = 0; row < tensor.extents[1]; ++row) {
    auto* const at = reinterpret_cast<std::uint32_t*>(tensor.address + row * tensor.strides[1]);
    for (std::uint64_t w = 0; w < tensor.extents[0]; ++w) at[w] = at[w] * 31 + static_cast<std::uint32_t>(w) + salt;
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void simulated_follow(void** arguments, dim3, dim3) {
  walk(read<const std::uint64_t*>(arguments[0]), read<std::uint32_t>(arguments[1]), read<std::uint32_t>(arguments[2]),
       read<std::uint32_t>(arguments[3]), read<std::uint32_t>(arguments[4]));
}

__attribute__((visibility("default"))) void simulated_write_table(void** arguments, dim3, dim3) {
  for (int i = 0; i < kTargets; ++i) read<std::uint64_t*>(arguments[0])[i] = read<std::uint64_t>(arguments[1 + i]);
}

__attribute__((visibility("default"))) void simulated_set_pointers(void** arguments, dim3 grid, dim3 block) {
  simulated_write_table(arguments, grid, block);
}

__attribute__((visibility("default"))) void simulated_displace_pointers(void** arguments, dim3, dim3) {
  const auto* from = read<const std::uint64_t*>(arguments[1]);
  for (std::uint32_t i = 0; i < read<std::uint32_t>(arguments[2]); ++i) {
    read<std::uint64_t*>(arguments[0])[i] = from[i] + read<std::uint64_t>(arguments[3]);
  }
}

__attribute__((visibility("default"))) void simulated_move_words(void** arguments, dim3 grid, dim3 block) {
  simulated_displace_pointers(arguments, grid, block);
}

__attribute__((visibility("default"))) void simulated_biased(void** arguments, dim3, dim3) {
  auto* const out = read<std::uint32_t*>(arguments[0]);
  const auto* const from = read<const std::uint32_t*>(arguments[1]);
  const std::uint32_t bias = *read<const std::uint32_t*>(arguments[2]);
  const auto words = read<std::uint32_t>(arguments[3]), salt = read<std::uint32_t>(arguments[4]);
  for (std::uint32_t w = 0; w < words; ++w) out[w] = out[w] * 31 + from[w] + bias + salt;
}

__attribute__((visibility("default"))) void simulated_follow_map(void** arguments, dim3, dim3) {
  work_on_tensor(read<const void*>(arguments[0]), read<std::uint32_t>(arguments[1]));
}

__attribute__((visibility("default"))) void simulated_follow_own_map(void** arguments, dim3, dim3) {
  work_on_tensor(reinterpret_cast<const void*>(program::own_map), read<std::uint32_t>(arguments[0]));
}

__attribute__((visibility("default"))) void simulated_follow_root(void** arguments, dim3, dim3) {
  walk(*reinterpret_cast<std::uint64_t**>(program::root), kTargets, read<std::uint32_t>(arguments[0]), 0,
       read<std::uint32_t>(arguments[1]));
}
}
