// SPDX-License-Identifier: Apache-2.0
// Tables that graphs upload, write, or copy.
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/preload/programs/table_program.h"
#include "tests/preload/programs/workload.h"

namespace program {
namespace {

// Captures the work that `record` submits to the stream.
template <class Record>
CUgraphExec capture(Program& p, Record record) {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CHECK(cuStreamBeginCapture(p.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  record();
  CHECK(cuStreamEndCapture(p.stream, &graph));
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return ready;
}

void launch_and_destroy(Program& p, CUgraphExec ready) {
  CHECK(cuGraphLaunch(ready, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
}

// The graph uses what pinned memory holds, mostly by uploading it, and that changes between launches.
void upload_and_run(Program& p, CUgraphExec ready) {
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuStreamSynchronize(p.stream));
    for (int i = 0; i < kTargets; ++i) p.pinned[i] = p.buffers[(i + round) % (kTargets + 2)];
    crowd(p);
    CHECK(cuGraphLaunch(ready, p.stream));
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
}

void captured(Program& p) {
  upload_and_run(p, capture(p, [&] {
                   CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, kTargets * 8, p.stream));
                   launch_follow(p, p.table, kTargets, 0);
                 }));
}

// The kernel of the graph reads the table where the host writes it.
void in_place_captured(Program& p) {
  upload_and_run(p, capture(p, [&] { launch_follow(p, reinterpret_cast<CUdeviceptr>(p.pinned), kTargets, 0); }));
}

// In each launch another table, of all buffers in turn: more than fits together.
void captured_turn(Program& p, bool waits) {
  CUgraphExec ready = capture(p, [&] {
    CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, kTargets * 8, p.stream));
    CHECK(cuMemcpyDtoDAsync(p.other, p.table, kTargets * 8, p.stream));
    launch_follow(p, p.other, kTargets, 0);
  });
  CUevent uploaded = nullptr;
  CHECK(cuEventCreate(&uploaded, 0));
  for (int round = 0; round < kBuffers; ++round) {
    CHECK(waits ? cuStreamSynchronize(p.stream) : cuEventSynchronize(uploaded));
    for (int i = 0; i < kTargets; ++i) p.pinned[i] = p.buffers[(round * kTargets + i) % kBuffers];
    CHECK(cuGraphLaunch(ready, p.stream));
    CHECK(cuEventRecord(uploaded, p.stream));
    crowd(p);
  }
  launch_follow(p, p.table, kTargets, 0);
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuEventDestroy(uploaded));
  CHECK(cuGraphExecDestroy(ready));
}
void captured_in_turn(Program& p) { captured_turn(p, true); }
void captured_in_turn_ahead(Program& p) { captured_turn(p, false); }

// Word by word, in any order.
void captured_in_words(Program& p) {
  upload_and_run(p, capture(p, [&] {
                   for (const int i : {2, 0, 1}) CHECK(cuMemcpyHtoDAsync(p.table + 8 * i, p.pinned + i, 8, p.stream));
                   launch_follow(p, p.table, kTargets, 0);
                 }));
}

// In each launch another table to managed memory, which every kernel may read.
void captured_outside(Program& p) {
  CUdeviceptr managed = 0;
  CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CUgraphExec ready = capture(p, [&] {
    CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, 8, p.stream));
    CHECK(cuMemcpyHtoDAsync(managed, p.pinned, kTargets * 8, p.stream));
    launch_follow(p, managed, kTargets, 0);
  });
  for (int round = 0; round < kBuffers; ++round) {
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < kTargets; ++i) p.pinned[i] = p.buffers[(round * kTargets + i) % kBuffers];
    CHECK(cuGraphLaunch(ready, p.stream));
    crowd(p);
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
}

// The graph uploads tables, works on more than fits, and follows each table: together they lead to more than fits.
void uploaded_in_parts(Program& p) {
  CUdeviceptr tables[kBuffers / kTargets] = {};
  for (CUdeviceptr& table : tables) CHECK(cuMemAlloc(&table, 4096));
  CUgraphExec ready = capture(p, [&] {
    const std::uint64_t* from = p.pinned;
    for (const CUdeviceptr table : tables) {
      CHECK(cuMemcpyHtoDAsync(table, from, kTargets * 8, p.stream));
      from += kTargets;
    }
    crowd(p);
    for (const CUdeviceptr table : tables) launch_follow(p, table, kTargets, 0);
  });
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuStreamSynchronize(p.stream));
    for (int i = 0; i < kBuffers; ++i) p.pinned[i] = p.buffers[(i + round) % kBuffers];
    CHECK(cuGraphLaunch(ready, p.stream));
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
  for (const CUdeviceptr table : tables) CHECK(cuMemFree(table));
}

// The tables of the programs below: all buffers but two of them, more than fits.
constexpr int kTables = (kBuffers - 2) / kTargets;
struct Tables {
  CUdeviceptr written[kTables] = {}, copied[kTables] = {};
};

// Kernels of the graph write tables, which copies move on; it works on more than fits, and follows each table then. What all
// of them lead to does not fit either.
void stored(Program& p, bool follows_in_graph) {
  Tables tables;
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "write_table"));
  for (int i = 0; i < kTables; ++i) {
    CHECK(cuMemAlloc(&tables.written[i], 4096));
    CHECK(cuMemAlloc(&tables.copied[i], 4096));
  }
  const auto follow_all = [&] {
    for (const CUdeviceptr table : tables.copied) launch_follow(p, table, kTargets, 0);
  };
  CUgraphExec ready = capture(p, [&] {
    for (int i = 0; i < kTables; ++i) {
      CUdeviceptr* const first = &p.buffers[kTargets * i];
      void* list[] = {&tables.written[i], first, first + 1, first + 2};
      CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
      CHECK(cuMemcpyDtoDAsync(tables.copied[i], tables.written[i], kTargets * 8, p.stream));
      CHECK(cuMemsetD8Async(tables.written[i], 0, 4096, p.stream));
    }
    crowd(p);
    if (follows_in_graph) follow_all();
  });
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuGraphLaunch(ready, p.stream));
    crowd(p);
    follow_all();
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
  for (int i = 0; i < kTables; ++i) {
    CHECK(cuMemFree(tables.written[i]));
    CHECK(cuMemFree(tables.copied[i]));
  }
}
void stored_in_parts(Program& p) { stored(p, true); }
void stored_in_parts_for_later(Program& p) { stored(p, false); }

// A graph that fits, but leaves no room for anything else: its kernels store addresses in three tables.
void stored_by_all_that_fits(Program& p) {
  constexpr int kFitting = 3;
  CUdeviceptr tables[kFitting] = {};
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "write_table"));
  for (CUdeviceptr& table : tables) CHECK(cuMemAlloc(&table, 4096));
  CUgraphExec ready = capture(p, [&] {
    for (int i = 0; i < kFitting; ++i) {
      CUdeviceptr* const first = &p.buffers[kTargets * i];
      void* list[] = {&tables[i], first, first + 1, first + 2};
      CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuGraphLaunch(ready, p.stream));
    crowd(p);
    for (const CUdeviceptr table : tables) launch_follow(p, table, kTargets, 0);
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
  for (const CUdeviceptr table : tables) CHECK(cuMemFree(table));
}

// Kernels of the graph fill one table with the addresses of more than fits, and one of its kernels follows all of them.
void stored_too_widely(Program& p) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "write_table"));
  CUgraphExec ready = capture(p, [&] {
    for (int i = 0; i < kTables; ++i) {
      CUdeviceptr at = p.table + 8 * kTargets * i;
      CUdeviceptr* const first = &p.buffers[kTargets * i];
      void* list[] = {&at, first, first + 1, first + 2};
      CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
    }
    crowd(p);
    launch_follow(p, p.table, kTables * kTargets, 0);
  });
  CHECK(cuGraphLaunch(ready, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
}

// Beside what the graph clears, the table may lead to more than fits. So it and its copy are read at the launch of the graph,
// which copies the table and follows the copy.
void copied_on_when_read(Program& p) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "set_pointers"));
  CUgraphExec ready = capture(p, [&] {
    CHECK(cuMemcpyDtoDAsync(p.other, p.table, kTargets * 8, p.stream));
    CHECK(cuMemsetD8Async(p.buffers[kBuffers - 1], 1, kBytes, p.stream));
    launch_follow(p, p.other, kTargets, 0);
  });
  for (int round = 0; round < kRounds; ++round) {
    for (int i = kTargets; i < 3 * kTargets; i += kTargets) {
      void* list[] = {&p.table, &p.buffers[i], &p.buffers[i + 1], &p.buffers[i + 2]};
      CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
    }
    crowd(p);
    write_table(p, "set_pointers");
    for (int i = 0; i < 2; ++i) crowd(p);
    CHECK(cuGraphLaunch(ready, p.stream));
    crowd(p);
    launch_follow(p, p.other, kTargets, 0);
  }
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(ready));
}

// The graph copies the table on to a lower address.
void copied_down_in_graph(Program& p) {
  if (p.other < p.table) std::swap(p.other, p.table);
  upload_and_run(p, capture(p, [&] {
                   CHECK(cuMemcpyHtoDAsync(p.other, p.pinned, kTargets * 8, p.stream));
                   CHECK(cuMemcpyDtoDAsync(p.table + 64, p.other, kTargets * 8, p.stream));
                   CHECK(cuMemcpyDtoDAsync(p.table, p.table + 64, kTargets * 8, p.stream));
                   launch_follow(p, p.table, kTargets, 0);
                 }));
}

// From memory that is slow to read for the host.
void write_combined_captured(Program& p) {
  void* at = nullptr;
  CHECK(cuMemHostAlloc(&at, 4096, CU_MEMHOSTALLOC_WRITECOMBINED));
  p.pinned = static_cast<std::uint64_t*>(at);
  upload_and_run(p, capture(p, [&] {
                   CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, 4096, p.stream));
                   launch_follow(p, p.table, kTargets, 0);
                 }));
}

void built(Program& p) {
  CUgraph graph = nullptr;
  CUgraphNode upload = nullptr, node = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = p.pinned;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = p.table;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = kTargets * 8;
  CHECK(cuGraphAddMemcpyNode(&upload, graph, nullptr, 0, &copy, p.context));
  std::uint32_t count = kTargets, words = kWords, depth = 0, salt = 5;
  void* list[] = {&p.table, &count, &words, &depth, &salt};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = p.follow;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = list;
  CHECK(cuGraphAddKernelNode(&node, graph, &upload, 1, &kernel));
  CUgraphExec ready = nullptr;
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  CHECK(cuGraphDestroy(graph));
  upload_and_run(p, ready);
}

// A kernel of the graph stores the addresses that it is given.
void written_in_graph(Program& p) {
  launch_and_destroy(p, capture(p, [&] { write_table(p, "write_table"); }));
  rounds(p, p.table, kTargets);
}

// A table that a kernel of a graph writes which is known by its name.
void named_in_graph(Program& p) {
  launch_and_destroy(p, capture(p, [&] { write_table(p, "set_pointers"); }));
  rounds(p, p.table, kTargets);
}

// The graph copies the table and clears it, with a copy or with a kernel.
void copied_in_graph(Program& p) {
  launch_and_destroy(p, capture(p, [&] {
                       write_table(p, "write_table");
                       CHECK(cuMemcpyDtoDAsync(p.other, p.table, kTargets * 8, p.stream));
                       CHECK(cuMemsetD8Async(p.table, 0, 4096, p.stream));
                     }));
  rounds(p, p.other, kTargets);
}

void moved_in_graph(Program& p) {
  launch_and_destroy(p, capture(p, [&] {
                       write_table(p, "write_table");
                       move_table(p, "move_words");
                     }));
  rounds(p, p.other, kTargets);
}

// The kernel that moves the table was launched before, with numbers, and has stored no pointers.
void moved_by_a_known_one(Program& p) {
  for (int i = 0; i < 3; ++i) move_table(p, "move_words");
  moved_in_graph(p);
}

// The table may lead to more than fits, so that it is read at the launch of the graph, which then uploads another one.
void uploaded_over_a_long_one(Program& p) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, p.module, "set_pointers"));
  for (int i = kTargets; i < 3 * kTargets; i += kTargets) {
    void* list[] = {&p.table, &p.buffers[i], &p.buffers[i + 1], &p.buffers[i + 2]};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, p.stream, list, nullptr));
  }
  for (int i = 0; i < kTargets; ++i) p.pinned[i] = p.buffers[i + 3 * kTargets];
  launch_and_destroy(p, capture(p, [&] {
                       write_table(p, "set_pointers");
                       CHECK(cuMemcpyHtoDAsync(p.table, p.pinned, kTargets * 8, p.stream));
                     }));
  rounds(p, p.table, kTargets);
}

// The graph clears the table that its kernel wrote; then the same kernel writes one that stays.
void cleared_in_graph(Program& p) {
  CUgraphExec ready = capture(p, [&] {
    write_table(p, "write_table");
    CHECK(cuMemsetD8Async(p.table, 0, 4096, p.stream));
  });
  for (int i = 0; i < 3; ++i) CHECK(cuGraphLaunch(ready, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  crowd(p);
  write_table(p, "write_table");
  rounds(p, p.table, kTargets);
  launch_and_destroy(p, capture(p, [&] { write_table(p, "write_table"); }));
  rounds(p, p.table, kTargets);
  CHECK(cuGraphExecDestroy(ready));
}

// A graph for each pair of buffers, with a kernel that is given a small buffer that is no table, and was launched before.
// Each is used twice, and `crowd` needs all the room in between.
void small_ones_in_graphs(Program& p) {
  CUfunction function = nullptr;
  CUgraphExec graphs[kBuffers] = {};
  CHECK(cuModuleGetFunction(&function, p.module, "biased"));
  CHECK(cuMemsetD32Async(p.table, 3, 1024, p.stream));
  std::uint32_t words = kWords;
  const auto launch = [&](int i) {
    std::uint32_t salt = p.salt++;
    void* list[] = {&p.buffers[i], &p.buffers[i - 1], &p.table, &words, &salt};
    CHECK(cuLaunchKernel(function, 16, 1, 1, 128, 1, 1, 0, p.stream, list, nullptr));
  };
  for (int i = 1; i < kBuffers; ++i) {
    launch(i);
    CHECK(cuStreamSynchronize(p.stream));
  }
  for (int i = 1; i < kBuffers; ++i) graphs[i] = capture(p, [&] { launch(i); });
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i < kBuffers; ++i) CHECK(cuGraphLaunch(graphs[i], p.stream));
    crowd(p);
  }
  CHECK(cuStreamSynchronize(p.stream));
  for (int i = 1; i < kBuffers; ++i) CHECK(cuGraphExecDestroy(graphs[i]));
}

constexpr Kind kKinds[] = {{"captured", captured},
                           {"in_place_captured", in_place_captured},
                           {"write_combined_captured", write_combined_captured},
                           {"captured_in_turn", captured_in_turn},
                           {"captured_in_turn_ahead", captured_in_turn_ahead},
                           {"captured_in_words", captured_in_words},
                           {"captured_outside", captured_outside},
                           {"uploaded_in_parts", uploaded_in_parts},
                           {"stored_in_parts", stored_in_parts},
                           {"stored_in_parts_for_later", stored_in_parts_for_later},
                           {"stored_by_all_that_fits", stored_by_all_that_fits},
                           {"stored_too_widely", stored_too_widely},
                           {"copied_on_when_read", copied_on_when_read},
                           {"copied_down_in_graph", copied_down_in_graph},
                           {"built", built},
                           {"written_in_graph", written_in_graph},
                           {"named_in_graph", named_in_graph},
                           {"copied_in_graph", copied_in_graph},
                           {"moved_in_graph", moved_in_graph},
                           {"moved_by_a_known_one", moved_by_a_known_one},
                           {"uploaded_over_a_long_one", uploaded_over_a_long_one},
                           {"cleared_in_graph", cleared_in_graph},
                           {"small_ones_in_graphs", small_ones_in_graphs}};

}  // namespace

std::span<const Kind> graph_kinds() { return kKinds; }

}  // namespace program
