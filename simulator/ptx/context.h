// SPDX-License-Identifier: Apache-2.0
// What generated code knows of the thread that it runs, by the offsets of this structure, and the signature that the
// function of a kernel has.
#pragma once

#include <cstdint>

namespace simulator::ptx {

class BlockRun;

struct ThreadContext {
  std::uint32_t tid[3];
  std::uint32_t ntid[3];
  std::uint32_t ctaid[3];
  std::uint32_t nctaid[3];
  std::uint32_t lane;
  std::uint32_t warp;
  std::uint64_t parameters;     // host address of the kernel's
  std::uint64_t shared;         // host address of the block's shared memory; a generic address there is an address here
  std::uint64_t shared_bytes;   // static and dynamic
  std::uint64_t dynamic_bytes;  // of these, at the end
  std::uint64_t pages;          // host address of the page table: 4 bytes a page of 2 MiB
  std::uint64_t grid_id;
  // The lowest address that a frame of a function may reach, and what tells local memory from other memory: the stack
  // that the thread runs on.
  std::uint64_t stack_low;
  std::uint64_t stack_high;
  std::uint64_t steps;       // instructions executed by functions that have returned
  std::uint64_t step_limit;  // at a jump backwards with more steps than that, ptx_tick is called
  BlockRun* block;
  std::uint32_t thread;          // number in the block
  std::uint64_t grid_workspace;  // of a cooperative launch: where its blocks wait for one another
};

using KernelEntry = void (*)(ThreadContext*);

// Function pointers are numbers: this, and the function's number in order of declaration, times 16.
inline constexpr std::uint64_t kFunctionPointers = 0x7f50000000000000;

}  // namespace simulator::ptx
