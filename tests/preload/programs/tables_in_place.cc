// SPDX-License-Identifier: Apache-2.0
// Tables that kernels read in place, in memory that the host writes without a call.
#include <algorithm>
#include <iterator>
#include <vector>

#include "tests/preload/programs/table_program.h"
#include "tests/preload/programs/workload.h"

namespace program {
namespace {

CUdeviceptr address_of(const std::uint64_t* words) { return reinterpret_cast<CUdeviceptr>(words); }

std::uint64_t* managed_memory(std::size_t bytes) {
  CUdeviceptr at = 0;
  CHECK(cuMemAllocManaged(&at, bytes, CU_MEM_ATTACH_GLOBAL));
  return reinterpret_cast<std::uint64_t*>(at);  // NOLINT: the host's address
}

// Other pointers in each round, from `words` on. The host writes them when no kernel reads them any more.
void rounds_in_place(Program& p, std::uint64_t* words) {
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuStreamSynchronize(p.stream));
    for (int i = 0; i < kTargets; ++i) words[i] = p.buffers[(i + round) % (kTargets + 2)];
    crowd(p);
    launch_follow(p, address_of(words), kTargets, 0);
  }
}

void pinned(Program& p) { rounds_in_place(p, p.pinned); }

void managed(Program& p) {
  std::uint64_t* const words = managed_memory(256);
  rounds_in_place(p, words);
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuMemFree(address_of(words)));
  // Pinned memory may get the address, and the other way round.
  rounds_in_place(p, p.pinned);
}

void write_combined(Program& p) {
  void* at = nullptr;
  CHECK(cuMemHostAlloc(&at, 4096, CU_MEMHOSTALLOC_WRITECOMBINED));
  rounds_in_place(p, static_cast<std::uint64_t*>(at));
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuMemFreeHost(at));
}

void registered(Program& p) {
  std::vector<std::uint64_t> arena(3'000'000);
  CHECK(cuMemHostRegister(arena.data(), arena.size() * 8, 0));
  rounds_in_place(p, arena.data() + arena.size() - kTargets);
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuMemHostUnregister(arena.data()));
}

// A managed table of tables in pinned memory.
void nested(Program& p) {
  std::uint64_t* const outer = managed_memory(4096);
  for (int i = 0; i < kTargets; ++i) {
    outer[i] = address_of(p.pinned + i);
    p.pinned[i] = p.buffers[i];
  }
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    launch_follow(p, address_of(outer), kTargets, 1);
  }
}

// Longer than what is read at once, and only its end leads to most of the buffers.
void long_table(Program& p) {
  constexpr std::uint32_t kWordsOfTable = 40'000;
  std::uint32_t count = kWordsOfTable, words = 16, depth = 0;
  void* at = nullptr;
  CHECK(cuMemAllocHost(&at, kWordsOfTable * 8));
  auto* const table = static_cast<std::uint64_t*>(at);
  std::fill_n(table, kWordsOfTable - kTargets, p.buffers[kTargets]);
  std::copy_n(p.buffers, kTargets, table + kWordsOfTable - kTargets);
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    std::uint32_t salt = p.salt++;
    CUdeviceptr first = address_of(table);
    void* list[] = {&first, &count, &words, &depth, &salt};
    CHECK(cuLaunchKernel(p.follow, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  }
}

// The memory is used for numbers first.
void managed_late(Program& p) {
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20}) {
    std::uint64_t* const words = managed_memory(bytes);
    // If the memory is large, the launch after this is looked at again: it is the 64th.
    for (int launch = 0; launch < 63; ++launch) launch_follow(p, address_of(words), 0, 0);
    rounds_in_place(p, words);
    CHECK(cuStreamSynchronize(p.stream));
    CHECK(cuMemFree(address_of(words)));
  }
}

// A queue in which earlier entries stand, too: together they lead to more than the budget.
void queue(Program& p) {
  std::copy_n(p.buffers, kBuffers, p.pinned + kTargets);
  rounds_in_place(p, p.pinned);
}

constexpr Kind kKinds[] = {{"in_place_pinned", pinned},
                           {"in_place_managed", managed},
                           {"in_place_write_combined", write_combined},
                           {"in_place_registered", registered},
                           {"in_place_nested", nested},
                           {"in_place_long", long_table},
                           {"in_place_managed_late", managed_late},
                           {"in_place_queue", queue}};

}  // namespace

std::span<const Kind> in_place_kinds() { return kKinds; }

}  // namespace program
