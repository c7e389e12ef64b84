// SPDX-License-Identifier: Apache-2.0
// The data of a thread that generated code accesses, by offsets in this structure; and the signature of a kernel's
// function.
#pragma once

#include <cstdint>

#include "simulator/ptx/interface.h"

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
  std::uint64_t pages;  // host address of a table of 4 bytes per page of 2 MiB: which pages need no look (reached.h)
  std::uint64_t grid_id;
  // The lowest address that a function's frame may reach; also used to distinguish local memory from other memory. The
  // stack on which the thread runs.
  std::uint64_t stack_low;
  std::uint64_t stack_high;
  std::uint64_t steps;       // the steps that Emitter::hand_over_counts() has handed over
  std::uint64_t step_limit;  // ptx_tick is called at backward jumps when more steps than this have been executed
  BlockRun* block;
  std::uint32_t thread;            // number in the block
  std::uint32_t cluster_ctaid[3];  // of the block in its cluster
  std::uint32_t cluster_nctaid[3];
  std::uint32_t clusterid[3];
  std::uint32_t nclusterid[3];
  std::uint32_t cluster_ctarank;
  std::uint32_t cluster_nctarank;
  std::uint32_t is_explicit_cluster;
  Counts counts;                 // of functions that have returned, called another, or ended the thread
  std::uint64_t grid_workspace;  // of a cooperative launch: where its blocks wait for one another
};

using KernelEntry = void (*)(ThreadContext*);

// Rights in entries of page tables (simulator/core/memory/page_table.h).
inline constexpr std::uint32_t kMayRead = 1u << 28, kMayWrite = 1u << 29;

// The properties of an access that BlockRun::access is given, beside its size in the low bits.
inline constexpr std::uint32_t kAccessBytes = 255;
inline constexpr std::uint32_t kAccessWrites = 256;
inline constexpr std::uint32_t kAccessIsGeneric = 512;   // it may be outside of global memory
inline constexpr std::uint32_t kAccessIsAtomic = 2048;   // or volatile, or with an order
inline constexpr std::uint32_t kAccessIsCounted = 1024;  // among the bytes that the thread accessed
inline constexpr std::uint32_t kAccessIsTwice = 4096;    // a read and a write: its bytes count twice

// A function pointer is this number plus 16 times the function's number in order of declaration.
inline constexpr std::uint64_t kFunctionPointers = 0x7f50000000000000;

}  // namespace simulator::ptx
