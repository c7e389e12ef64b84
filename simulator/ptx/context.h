// SPDX-License-Identifier: Apache-2.0
// What generated code knows about the thread that it runs, accessed by offsets in this structure; and the signature of
// a kernel's function.
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
  std::uint64_t parameters;     // host address of the kernel's parameters
  std::uint64_t shared;         // host address of the block's shared memory; also its generic address
  std::uint64_t shared_bytes;   // static and dynamic
  std::uint64_t dynamic_bytes;  // of these, at the end
  std::uint64_t pages;          // host address of the page table: 4 bytes per page of 2 MiB
  std::uint64_t grid_id;
  // The lowest address that a function's frame may reach; also used to distinguish local memory from other memory. The
  // stack on which the thread runs.
  std::uint64_t stack_low;
  std::uint64_t stack_high;
  std::uint64_t steps;       // instructions executed by functions that have returned
  std::uint64_t step_limit;  // ptx_tick is called at backward jumps when more steps than this have been executed
  BlockRun* block;
  std::uint32_t thread;          // number in the block
  std::uint64_t grid_workspace;  // of a cooperative launch: where its blocks wait for one another
};

using KernelEntry = void (*)(ThreadContext*);

// A function pointer is this number plus 16 times the function's number in order of declaration.
inline constexpr std::uint64_t kFunctionPointers = 0x7f50000000000000;

}  // namespace simulator::ptx
