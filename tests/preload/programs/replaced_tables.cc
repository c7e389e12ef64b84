// SPDX-License-Identifier: Apache-2.0
// Tables that are replaced or cleared: in memory outside the library, in streams that wait, and large ones.
#include "tests/preload/programs/table_program.h"
#include "tests/preload/programs/workload.h"

namespace program {
namespace {

// A table of all buffers in managed memory, and one in a global variable, that sets have cleared.
void outside_cleared(Program& p) {
  CUdeviceptr managed = 0;
  CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemcpyHtoD(managed, p.buffers, sizeof p.buffers));
  CHECK(cuMemcpyHtoD(root, &p.buffers[0], 8));
  CHECK(cuMemsetD32Async(managed, 0, 1024, p.stream));
  CHECK(cuMemsetD2D8(root, 8, 0, 8, 1));
  CHECK(cuCtxSynchronize());
  rounds(p, managed, 0);
}

// A kernel writes the table, which is copied to managed memory; each time other ones, more than fit in all.
void outside_in_turn(Program& p) {
  CUfunction function = nullptr;
  CUdeviceptr managed = 0;
  CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuModuleGetFunction(&function, p.module, "set_pointers"));
  for (int i = 0; i + 2 < kBuffers; i += 2) {
    void* list[] = {&p.table, &p.buffers[i], &p.buffers[i + 1], &p.buffers[i + 2]};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
    CHECK(cuMemcpyDtoDAsync(managed, p.table, kTargets * 8, p.stream));
    crowd(p);
    launch_follow(p, managed, kTargets, 0);
  }
}

// A set that waits for the host clears a table; what comes meanwhile in another stream still finds its addresses there.
void cleared_later(Program& p, CUdeviceptr table) {
  CUstream waiting = nullptr;
  CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  auto* const flag = reinterpret_cast<volatile std::uint32_t*>(p.pinned + 256);
  *flag = 0;
  CHECK(cuMemcpyHtoD(table, p.buffers, kTargets * 8));
  CHECK(cuCtxSynchronize());
  CHECK(cuStreamWaitValue32(waiting, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(cuMemsetD8Async(table, 0, 4096, waiting));
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    launch_follow(p, table, kTargets, 0);
  }
  CHECK(cuStreamSynchronize(p.stream));
  *flag = 1;
  CHECK(cuStreamSynchronize(waiting));
}
void outside_cleared_later(Program& p) {
  CUdeviceptr managed = 0;
  CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  cleared_later(p, managed);
}
void table_cleared_later(Program& p) { cleared_later(p, p.table); }

// More addresses than are collected before a copy is submitted.
void many_pinned(Program& p) {
  constexpr std::size_t kWordsOfTable = 100'000;
  std::uint64_t* words = nullptr;
  CUdeviceptr table = 0;
  CHECK(cuMemAllocHost(reinterpret_cast<void**>(&words), kWordsOfTable * 8));
  CHECK(cuMemAlloc(&table, kWordsOfTable * 8));
  for (std::size_t i = 0; i < kWordsOfTable; ++i) words[i] = i < kTargets ? p.buffers[i] : table;
  CHECK(cuMemcpyHtoDAsync(table, words, kWordsOfTable * 8, p.stream));
  rounds(p, table, kTargets);
  CHECK(cuMemFreeHost(words));
}

constexpr Kind kKinds[] = {{"outside_cleared", outside_cleared},
                           {"outside_in_turn", outside_in_turn},
                           {"outside_cleared_later", outside_cleared_later},
                           {"table_cleared_later", table_cleared_later},
                           {"many_pinned", many_pinned}};

}  // namespace

std::span<const Kind> replacing_kinds() { return kKinds; }

}  // namespace program
