// SPDX-License-Identifier: Apache-2.0
// Shared by the programs about tables (tables.cc, graph_tables.cc, replaced_tables.cc, tables_in_place.cc), which are one executable.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/preload/programs/table_kernels.h"

namespace program {

constexpr std::size_t kBytes = std::size_t{2} << 20;
constexpr std::uint32_t kWords = kBytes / 4;
constexpr int kBuffers = 14;
constexpr int kRounds = 4;

struct Program {
  CUmodule module = nullptr;
  CUcontext context = nullptr;
  CUfunction combine = nullptr, follow = nullptr, follow_root = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr buffers[kBuffers] = {};
  CUdeviceptr table = 0, other = 0;
  std::uint64_t* pinned = nullptr;
  std::uint32_t salt = 1;
};

// Kernels that cause buffers that only tables point to to be evicted.
void crowd(Program& p);
void launch_follow(Program& p, CUdeviceptr table, std::uint32_t count, std::uint32_t depth);
// `crowd`, then a kernel that follows the table, several times.
void rounds(Program& p, CUdeviceptr table, std::uint32_t count, std::uint32_t depth = 0);
// Writes the table by a kernel of that name, from its parameters.
void write_table(Program& p, const char* kernel);
// Moves the table from `table` to `other` by a kernel of that name; then `table` is cleared.
void move_table(Program& p, const char* kernel);

struct Kind {
  const char* name;
  void (*run)(Program&);
};
std::span<const Kind> graph_kinds();
std::span<const Kind> replacing_kinds();
std::span<const Kind> in_place_kinds();

}  // namespace program
