// SPDX-License-Identifier: Apache-2.0
// Kernels that are given a table and find the addresses of their operands in it. The table gets to the device in every
// possible way; in between, other kernels cause buffers that only the table points to to be evicted.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "tests/preload/programs/table_program.h"
#include "tests/preload/programs/unread_memory.h"
#include "tests/preload/programs/workload.h"

using program::kBuffers;
using program::kBytes;
using program::Kind;
using program::kRounds;
using program::kTableKernels;
using program::kTargets;
using program::kWords;
using program::own_map;
using program::Program;
using program::root;

namespace {

void begin(Program& p) {
  CUdevice device = 0;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&p.context, device));
  CHECK(cuCtxSetCurrent(p.context));
  CHECK(cuModuleLoadData(&p.module, kTableKernels));
  CHECK(cuModuleGetFunction(&p.combine, p.module, "combine"));
  CHECK(cuModuleGetFunction(&p.follow, p.module, "follow"));
  CHECK(cuModuleGetFunction(&p.follow_root, p.module, "follow_root"));
  std::size_t bytes = 0;
  CHECK(cuModuleGetGlobal(&root, &bytes, p.module, "root"));
  CHECK(cuModuleGetGlobal(&own_map, &bytes, p.module, "map"));
  CHECK(cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAllocHost(reinterpret_cast<void**>(&p.pinned), 4096));
  CHECK(cuMemAlloc(&p.table, 4096));
  // Where a buffer begins, another one may end: an address stands for both.
  CUdeviceptr between = 0;
  CHECK(cuMemAlloc(&between, 4096));
  CHECK(cuMemAlloc(&p.other, 4096));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cuMemAlloc(&p.buffers[i], kBytes));
    CHECK(cuMemsetD32Async(p.buffers[i], 0x01010101u * static_cast<unsigned>(i + 1), kWords, p.stream));
  }
  CHECK(cuStreamSynchronize(p.stream));
}

}  // namespace

namespace program {

void crowd(Program& p) {
  std::uint64_t salt = p.salt++;
  std::uint32_t words = kWords;
  for (int i = kTargets; i < kBuffers; ++i) {
    CUdeviceptr a = p.buffers[i == kTargets ? kBuffers - 1 : i - 1];
    void* list[] = {&p.buffers[i], &a, &a, &words, &salt};
    CHECK(cuLaunchKernel(p.combine, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  }
}

void launch_follow(Program& p, CUdeviceptr table, std::uint32_t count, std::uint32_t depth) {
  std::uint32_t words = kWords, salt = p.salt++;
  void* list[] = {&table, &count, &words, &depth, &salt};
  CHECK(cuLaunchKernel(p.follow, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
}

// The rounds of all programs except those with graphs.
void rounds(Program& p, CUdeviceptr table, std::uint32_t count, std::uint32_t depth) {
  CHECK(cuCtxSynchronize());  // uploads of pageable memory may still be pending in another stream
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    launch_follow(p, table, count, depth);
  }
}

void write_table(Program& p, const char* kernel) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, kernel));
  void* list[] = {&p.table, &p.buffers[0], &p.buffers[1], &p.buffers[2]};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
}

void move_table(Program& p, const char* kernel) {
  CUfunction function = nullptr;
  std::uint32_t count = kTargets;
  std::uint64_t bytes = 0;
  CHECK(cuModuleGetFunction(&function, p.module, kernel));
  void* list[] = {&p.other, &p.table, &count, &bytes};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
  CHECK(cuMemsetD8Async(p.table, 0, 4096, p.stream));
}

}  // namespace program

namespace {

using program::crowd;
using program::launch_follow;
using program::move_table;
using program::rounds;
using program::write_table;

std::vector<std::uint64_t> targets(const Program& p) { return {p.buffers, p.buffers + kTargets}; }

void pageable(Program& p) {
  CHECK(cuMemcpyHtoD(p.table, targets(p).data(), kTargets * 8));
  rounds(p, p.table, kTargets);
}

void unified(Program& p) {
  const auto words = targets(p);
  CHECK(cuMemcpy(p.table + 64, reinterpret_cast<CUdeviceptr>(words.data()), kTargets * 8));
  rounds(p, p.table + 64, kTargets);
}

void pinned(Program& p) {
  for (int i = 0; i < kTargets; ++i) p.pinned[i] = p.buffers[i];
  CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, kTargets * 8, p.stream));
  rounds(p, p.table, kTargets);
}

// In the middle of much else, as in an arena that is uploaded in one piece.
void amid(Program& p, bool is_pinned) {
  constexpr std::size_t kArena = std::size_t{5} << 20, kAt = 3'000'000;
  const auto words = targets(p);
  std::vector<unsigned char> arena(kArena);
  std::memcpy(arena.data() + kAt, words.data(), kTargets * 8);
  CUdeviceptr there = 0;
  CHECK(cuMemAlloc(&there, kArena));
  if (is_pinned) CHECK(cuMemHostRegister(arena.data(), kArena, 0));
  CHECK(cuMemcpyHtoDAsync(there, arena.data(), kArena, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  if (is_pinned) CHECK(cuMemHostUnregister(arena.data()));
  rounds(p, there + kAt, kTargets);
}
void amid_much(Program& p) { amid(p, false); }
void amid_much_pinned(Program& p) { amid(p, true); }

// Memory that is slow to read for the host.
std::uint64_t* write_combined_memory(std::size_t bytes) {
  void* at = nullptr;
  CHECK(cuMemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_WRITECOMBINED));
  return static_cast<std::uint64_t*>(at);
}

// As one range, and as rows that are shorter than what is worth a question to the driver.
void write_combined(Program& p) {
  constexpr std::size_t kPitch = 8192;
  std::uint64_t* const words = write_combined_memory(kTargets * kPitch);
  for (int i = 0; i < kTargets; ++i) words[static_cast<std::size_t>(i) * kPitch / 8] = p.buffers[i];
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = words;
  copy.srcPitch = kPitch;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = p.table;
  copy.dstPitch = copy.WidthInBytes = 8;
  copy.Height = kTargets;
  CHECK(cuMemcpy2DAsync(&copy, p.stream));
  rounds(p, p.table, kTargets);
  CHECK(cuStreamSynchronize(p.stream));
  for (int i = 0; i < kTargets; ++i) words[511 - kTargets + i] = p.buffers[i + 1];
  CHECK(cuMemcpyHtoDAsync(p.table, words, 4096, p.stream));
  rounds(p, p.table + 8 * static_cast<unsigned>(511 - kTargets), kTargets);
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuMemFreeHost(words));
}

CUDA_MEMCPY3D box(const Program& p, const void* host, std::size_t rows, std::size_t layers) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  copy.srcPitch = 24;
  copy.srcHeight = rows;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = p.table;
  copy.dstPitch = 8;
  copy.dstHeight = rows;
  copy.WidthInBytes = 8;
  copy.Height = rows;
  copy.Depth = layers;
  return copy;
}

// A column of a matrix on the host becomes the table.
void rows(Program& p) {
  std::vector<std::uint64_t> matrix(3 * kTargets, 7);
  for (int i = 0; i < kTargets; ++i) matrix[3 * static_cast<std::size_t>(i)] = p.buffers[i];
  const CUDA_MEMCPY3D copy = box(p, matrix.data(), kTargets, 1);
  CUDA_MEMCPY2D flat{};
  flat.srcMemoryType = copy.srcMemoryType;
  flat.srcHost = copy.srcHost;
  flat.srcPitch = copy.srcPitch;
  flat.dstMemoryType = copy.dstMemoryType;
  flat.dstDevice = copy.dstDevice;
  flat.dstPitch = copy.dstPitch;
  flat.WidthInBytes = copy.WidthInBytes;
  flat.Height = copy.Height;
  CHECK(cuMemcpy2D(&flat));
  rounds(p, p.table, kTargets);
}

void layers(Program& p) {
  std::vector<std::uint64_t> matrix(3 * kTargets, 7);
  for (int i = 0; i < kTargets; ++i) matrix[3 * static_cast<std::size_t>(i)] = p.buffers[i];
  const CUDA_MEMCPY3D copy = box(p, matrix.data(), 1, kTargets);
  CHECK(cuMemcpy3DAsync(&copy, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  rounds(p, p.table, kTargets);
}

void batch(Program& p) {
  const auto words = targets(p);
  CUdeviceptr to[] = {p.table, p.table + 8};
  CUdeviceptr from[] = {reinterpret_cast<CUdeviceptr>(words.data()), reinterpret_cast<CUdeviceptr>(words.data() + 1)};
  std::size_t bytes[] = {8, 16};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  std::size_t first = 0;
  CHECK(cuMemcpyBatchAsync(to, from, bytes, 2, &attributes, &first, 1, p.stream));
  rounds(p, p.table, kTargets);
}

// Written word by word by the stream itself.
void values(Program& p) {
  CHECK(cuStreamWriteValue64(p.stream, p.table, p.buffers[0], CU_STREAM_WRITE_VALUE_DEFAULT));
  CUstreamBatchMemOpParams rest[kTargets - 1] = {};
  for (unsigned i = 1; i < kTargets; ++i) {
    rest[i - 1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    rest[i - 1].writeValue.address = p.table + 8 * i;
    rest[i - 1].writeValue.value64 = p.buffers[i];
  }
  CHECK(cuStreamBatchMemOp(p.stream, kTargets - 1, rest, 0));
  rounds(p, p.table, kTargets);
}

// A table of tables, and one that was a table before.
void nested(Program& p) {
  const auto words = targets(p);
  CHECK(cuMemcpyHtoD(p.other, words.data(), kTargets * 8));
  const std::uint64_t outer[] = {p.other, p.other + 8, p.other + 16};
  CHECK(cuMemcpyHtoD(p.table, outer, sizeof outer));
  rounds(p, p.table, kTargets, 1);
  CHECK(cuMemsetD8Async(p.other, 0, 4096, p.stream));
  CHECK(cuMemcpyHtoDAsync(p.table, words.data(), kTargets * 8, p.stream));
  rounds(p, p.table, kTargets);
}

void moved(Program& p) {
  CHECK(cuMemcpyHtoD(p.table, targets(p).data(), kTargets * 8));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoDAsync(p.other + 128, p.table, kTargets * 8, p.stream));
  CHECK(cuMemsetD8Async(p.table, 0, 4096, p.stream));
  rounds(p, p.other + 128, kTargets);
}

void written(Program& p) {
  write_table(p, "set_pointers");
  rounds(p, p.table, kTargets);
}

void written_by_no_name(Program& p) {
  write_table(p, "write_table");
  rounds(p, p.table, kTargets);
}

// In the end the table may point to more than fits, but none of it is needed.
void written_too_often(Program& p) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "set_pointers"));
  for (int i = 0; i + 2 < kBuffers; ++i) {
    void* list[] = {&p.table, &p.buffers[i], &p.buffers[i + 1], &p.buffers[i + 2]};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
  }
  rounds(p, p.table, 0);
}

// A launch that is refused ends the program.
void launch_or_end(Program& p, CUfunction function, void** list) {
  const CUresult result = cuLaunchKernel(function, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) std::exit(7);
  CHECK(result);
}

// A table of all buffers, written by a kernel some at a time, and then read up to entry `count`.
void follow_wide_table(Program& p, const char* kernel, std::uint32_t count) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, kernel));
  std::uint32_t words = kWords, depth = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i + 2 < kBuffers; i += kTargets) {
      CUdeviceptr at = p.table + 8 * static_cast<unsigned>(i);
      void* writer[] = {&at, &p.buffers[i], &p.buffers[i + 1], &p.buffers[i + 2]};
      launch_or_end(p, function, writer);
    }
    crowd(p);
    std::uint32_t salt = p.salt++;
    void* list[] = {&p.table, &count, &words, &depth, &salt};
    launch_or_end(p, p.follow, list);
  }
}

void written_wide(Program& p) { follow_wide_table(p, "set_pointers", 12); }
void written_wide_by_no_name(Program& p) { follow_wide_table(p, "write_table", 12); }

void displaced(Program& p) {
  write_table(p, "set_pointers");
  move_table(p, "displace_pointers");
  rounds(p, p.other, kTargets);
}

// By the same kernels each time, whose names are not known: first they are probed, then they are known.
void displaced_by_no_name(Program& p) {
  for (int round = 0; round < kRounds; ++round) {
    write_table(p, "write_table");
    move_table(p, "move_words");
    crowd(p);
    launch_follow(p, p.other, kTargets, 0);
  }
}

// The kernel has moved only numbers before.
void displaced_later(Program& p) {
  for (int i = 0; i < 3; ++i) move_table(p, "move_words");
  for (int i = 0; i < kTargets; ++i) p.pinned[i] = p.buffers[i];
  CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, kTargets * 8, p.stream));
  move_table(p, "move_words");
  rounds(p, p.other, kTargets);
}

// Small buffers that are not tables, used with all the large ones in turn.
void small_ones(Program& p) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "biased"));
  CHECK(cuMemsetD32Async(p.table, 3, 1024, p.stream));
  std::uint32_t words = kWords;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 1; i < kBuffers; ++i) {
      std::uint32_t salt = p.salt++;
      void* list[] = {&p.buffers[i], &p.buffers[i - 1], &p.table, &words, &salt};
      CHECK(cuLaunchKernel(function, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
    }
  }
}

// The pointers point into the middle of buffers.
void interior(Program& p) {
  const std::uint64_t words[] = {p.buffers[0] + kBytes / 2, p.buffers[1] + 4096};
  CHECK(cuMemcpyHtoD(p.table, words, sizeof words));
  CHECK(cuCtxSynchronize());
  std::uint32_t count = 2, part = kWords / 2, depth = 0;
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    std::uint32_t salt = p.salt++;
    void* list[] = {&p.table, &count, &part, &depth, &salt};
    CHECK(cuLaunchKernel(p.follow, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  }
}

// A global variable of the module points to a table, and the kernel is given no address at all.
void global(Program& p) {
  CHECK(cuMemcpyHtoD(p.table, targets(p).data(), kTargets * 8));
  CHECK(cuMemcpyHtoD(root, &p.table, 8));
  CHECK(cuCtxSynchronize());
  std::uint32_t words = kWords;
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    std::uint32_t salt = p.salt++;
    void* list[] = {&words, &salt};
    CHECK(cuLaunchKernel(p.follow_root, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  }
}

CUdeviceptr unseen_table(const Program& p) {
  void* at = nullptr;
  CHECK(allocate_unread(&at, 4096));
  std::memcpy(at, p.buffers, kTargets * 8);
  return reinterpret_cast<CUdeviceptr>(at);
}

void unseen(Program& p) {
  const CUdeviceptr table = unseen_table(p);
  crowd(p);
  launch_follow(p, table, kTargets, 0);
}

// An unseen kernel, and then kernels use what it has written.
void unseen_and_used(Program& p) {
  unseen(p);
  CHECK(cuStreamSynchronize(p.stream));
  std::uint32_t words = kWords;
  std::uint64_t salt = p.salt++;
  for (int i = 0; i < kTargets; ++i) {
    void* list[] = {&p.buffers[i], &p.buffers[i], &p.buffers[i], &words, &salt};
    CHECK(cuLaunchKernel(p.combine, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  }
}

// A table whose targets are evicted and fetched while kernels run: the host does not wait.
void unseen_in_flight(Program& p) {
  const CUdeviceptr table = unseen_table(p);
  std::uint32_t words = kWords;
  for (int round = 0; round < kRounds; ++round) {
    crowd(p);
    launch_follow(p, table, kTargets, 0);
    std::uint64_t salt = p.salt++;
    for (int i = 0; i < kTargets; ++i) {
      CUdeviceptr from = p.buffers[(i + 1) % kTargets];
      void* list[] = {&p.buffers[i], &from, &from, &words, &salt};
      CHECK(cuLaunchKernel(p.combine, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
    }
  }
}

CUtensorMap map_of(CUdeviceptr at) {
  const cuuint64_t extents[] = {1024, kWords / 1024}, strides[] = {4096};
  const cuuint32_t box[] = {64, 64}, steps[] = {1, 1};
  CUtensorMap map;
  CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, reinterpret_cast<void*>(at), extents, strides,
                               box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

void launch_with_map(Program& p, CUdeviceptr at) {
  CUfunction function = nullptr;
  std::uint32_t salt = p.salt++;
  CHECK(cuModuleGetFunction(&function, p.module, "follow_map"));
  void* list[] = {&at, &salt};
  CHECK(cuLaunchKernel(function, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
}

// Tensor maps in memory, where kernels find them by address.
void maps(Program& p) {
  for (int round = 0; round < kRounds; ++round) {
    const CUtensorMap both[] = {map_of(p.buffers[0]), map_of(p.buffers[1 + round % 2])};
    CHECK(cuMemcpyHtoDAsync(p.table + 128, both, sizeof both, p.stream));
    crowd(p);
    launch_with_map(p, p.table + 128);
    launch_with_map(p, p.table + 256);
    CHECK(cuMemcpyDtoDAsync(p.other, p.table + 256, 128, p.stream));
    crowd(p);
    launch_with_map(p, p.other);
  }
}

// A tensor map in a global variable of the module: the kernel is given no address at all.
void map_in_global(Program& p) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "follow_own_map"));
  for (int round = 0; round < kRounds; ++round) {
    const CUtensorMap map = map_of(p.buffers[round % kTargets]);
    CHECK(cuMemcpyHtoDAsync(own_map, &map, sizeof map, p.stream));
    crowd(p);
    std::uint32_t salt = p.salt++;
    void* list[] = {&salt};
    CHECK(cuLaunchKernel(function, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  }
}

// The graph uploads the present contents of pinned memory.
void maps_captured(Program& p) {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CHECK(cuStreamBeginCapture(p.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, 128, p.stream));
  launch_with_map(p, p.table);
  CHECK(cuStreamEndCapture(p.stream, &graph));
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuStreamSynchronize(p.stream));
    const CUtensorMap map = map_of(p.buffers[round % kTargets]);
    std::memcpy(p.pinned, &map, sizeof map);
    crowd(p);
    CHECK(cuGraphLaunch(ready, p.stream));
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
}

constexpr Kind kKinds[] = {{"pageable", pageable},
                           {"unified", unified},
                           {"pinned", pinned},
                           {"amid_much", amid_much},
                           {"amid_much_pinned", amid_much_pinned},
                           {"write_combined", write_combined},
                           {"rows", rows},
                           {"layers", layers},
                           {"batch", batch},
                           {"values", values},
                           {"nested", nested},
                           {"moved", moved},
                           {"written", written},
                           {"written_by_no_name", written_by_no_name},
                           {"written_too_often", written_too_often},
                           {"written_wide", written_wide},
                           {"written_wide_by_no_name", written_wide_by_no_name},
                           {"displaced", displaced},
                           {"displaced_by_no_name", displaced_by_no_name},
                           {"displaced_later", displaced_later},
                           {"small_ones", small_ones},
                           {"interior", interior},
                           {"global", global},
                           {"maps", maps},
                           {"map_in_global", map_in_global},
                           {"maps_captured", maps_captured},
                           {"unseen", unseen},
                           {"unseen_and_used", unseen_and_used},
                           {"unseen_in_flight", unseen_in_flight}};

void say(Program& p, const char* name) {
  std::vector<unsigned char> host(kBytes);
  CHECK(cuStreamSynchronize(p.stream));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cuMemcpyDtoH(host.data(), p.buffers[i], kBytes));
    program::Digest digest;
    digest.add(host.data(), kBytes);
    std::printf("%s %d %016llx\n", name, i, static_cast<unsigned long long>(digest.value()));
  }
}

}  // namespace

int main(int, char** arguments) {
  const std::string wanted = arguments[1] == nullptr ? "" : arguments[1];
  std::vector<Kind> kinds(std::begin(kKinds), std::end(kKinds));
  kinds.insert(kinds.end(), program::graph_kinds().begin(), program::graph_kinds().end());
  kinds.insert(kinds.end(), program::replacing_kinds().begin(), program::replacing_kinds().end());
  kinds.insert(kinds.end(), program::in_place_kinds().begin(), program::in_place_kinds().end());
  for (const Kind& kind : kinds) {
    if (wanted != kind.name) continue;
    Program p;
    begin(p);
    kind.run(p);
    say(p, kind.name);
    // For buffers that were accessed unseen, the statistics at the end show that they are pinned.
    const bool keeps = wanted.starts_with("unseen");
    for (const CUdeviceptr buffer : p.buffers) {
      if (!keeps) CHECK(cuMemFree(buffer));
    }
    CHECK(cuStreamDestroy(p.stream));
    return 0;
  }
  return 3;
}
