// SPDX-License-Identifier: Apache-2.0
// Graphs in addition to separate launches: captured from two streams, built node by node, and an executable graph that
// is given other buffers. More is allocated than fits in the budget of the test; the buffers that the graphs name have
// to be right at each launch.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/preload/programs/workload.h"

namespace {

constexpr std::size_t kBytes = std::size_t{3} << 20;
constexpr std::uint32_t kWords = kBytes / 4;
constexpr int kBuffers = 12;
constexpr int kRounds = 4;

struct Program {
  CUfunction combine = nullptr;
  CUcontext context = nullptr;
  CUstream first = nullptr, second = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUdeviceptr buffers[kBuffers] = {};
  std::vector<unsigned char> host = std::vector<unsigned char>(kBytes);
};

// Parameters of one launch; the list contains pointers to them.
struct Arguments {
  CUdeviceptr out, a, b;
  std::uint32_t words = kWords;
  std::uint64_t salt;
  void* list[5] = {&out, &a, &b, &words, &salt};
  Arguments(CUdeviceptr to, CUdeviceptr from, CUdeviceptr other, std::uint64_t number)
      : out(to), a(from), b(other), salt(number) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
};

void launch(const Program& p, CUstream stream, int out, int a, int b, std::uint64_t salt) {
  Arguments arguments(p.buffers[out], p.buffers[a], p.buffers[b], salt);
  CHECK(cuLaunchKernel(p.combine, 16, 1, 1, 128, 1, 1, 0, stream, arguments.list, nullptr));
}

CUDA_KERNEL_NODE_PARAMS node_of(const Program& p, Arguments& arguments) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = p.combine;
  node.gridDimX = 16;
  node.blockDimX = 128;
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = arguments.list;
  return node;
}

void begin(Program& p) {
  CUdevice device = 0;
  CUmodule module = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&p.context, device));
  CHECK(cuCtxSetCurrent(p.context));
  CHECK(cuModuleLoadData(&module, program::kKernels));
  CHECK(cuModuleGetFunction(&p.combine, module, "combine"));
  CHECK(cuStreamCreate(&p.first, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&p.second, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&p.fork, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&p.join, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cuMemAlloc(&p.buffers[i], kBytes));
    CHECK(cuMemsetD32Async(p.buffers[i], 0x01010101u * static_cast<unsigned>(i + 1), kWords, p.first));
  }
}

// Buffers that no graph names, so that something is evicted between two launches.
void crowd(const Program& p, int round) {
  for (int i = 3; i < kBuffers; ++i) launch(p, p.first, i, 3 + (i + 1) % 9, 3 + (i + round) % 9, i * 77 + round);
}

void say(Program& p, const char* name) {
  CHECK(cuStreamSynchronize(p.first));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cuMemcpyDtoH(p.host.data(), p.buffers[i], kBytes));
    program::Digest digest;
    digest.add(p.host.data(), kBytes);
    std::printf("%s %d %016llx\n", name, i, static_cast<unsigned long long>(digest.value()));
  }
}

void run(const Program& p, CUgraph graph) {
  CUgraphExec ready = nullptr;
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < kRounds; ++round) {
    crowd(p, round);
    CHECK(cuGraphLaunch(ready, p.first));
    launch(p, p.first, 3 + round, 0, 1, 5);
  }
  CHECK(cuStreamSynchronize(p.first));
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
}

void recorded(Program& p) {
  crowd(p, 9);  // buffers that the graph names may be evicted by now
  CHECK(cuStreamBeginCapture(p.first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(p, p.first, 0, 1, 2, 11);
  CHECK(cuEventRecord(p.fork, p.first));
  CHECK(cuStreamWaitEvent(p.second, p.fork, 0));
  launch(p, p.second, 1, 0, 2, 12);
  CHECK(cuMemsetD8Async(p.buffers[2], 7, kBytes / 2, p.second));
  CHECK(cuEventRecord(p.join, p.second));
  CHECK(cuStreamWaitEvent(p.first, p.join, 0));
  CHECK(cuMemcpyDtoDAsync(p.buffers[2] + kBytes / 2, p.buffers[1], kBytes / 4, p.first));
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(p.first, &graph));
  run(p, graph);
}

void built(Program& p) {
  crowd(p, 9);
  CUgraph graph = nullptr;
  CUgraphNode set = nullptr, one = nullptr, other = nullptr, copy = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS to{};
  to.dst = p.buffers[2];
  to.value = 9;
  to.elementSize = 4;
  to.width = kWords / 3;
  to.height = 1;
  CHECK(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &to, p.context));
  Arguments first(p.buffers[0], p.buffers[2], p.buffers[2], 21), second(p.buffers[1], p.buffers[2], p.buffers[2], 22);
  const CUDA_KERNEL_NODE_PARAMS kernels[] = {node_of(p, first), node_of(p, second)};
  CHECK(cuGraphAddKernelNode(&one, graph, &set, 1, &kernels[0]));
  CHECK(cuGraphAddKernelNode(&other, graph, &set, 1, &kernels[1]));
  CUDA_MEMCPY3D whole{};
  whole.srcMemoryType = whole.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  whole.srcDevice = p.buffers[0];
  whole.dstDevice = p.buffers[2] + kBytes / 2;
  whole.WidthInBytes = kBytes / 2;
  whole.Height = whole.Depth = 1;
  const CUgraphNode both[] = {one, other};
  CHECK(cuGraphAddMemcpyNode(&copy, graph, both, 2, &whole, p.context));
  run(p, graph);
}

void changed(Program& p) {
  crowd(p, 9);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec ready = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  Arguments first(p.buffers[0], p.buffers[1], p.buffers[2], 31);
  const CUDA_KERNEL_NODE_PARAMS kernel = node_of(p, first);
  CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cuGraphLaunch(ready, p.first));
    crowd(p, round);
    Arguments next(p.buffers[round % 3], p.buffers[(round + 1) % 3], p.buffers[3], 32 + static_cast<unsigned>(round));
    const CUDA_KERNEL_NODE_PARAMS other = node_of(p, next);
    CHECK(cuGraphExecKernelNodeSetParams(ready, node, &other));
  }
  CHECK(cuGraphLaunch(ready, p.first));
  CHECK(cuStreamSynchronize(p.first));
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
}

// Two nodes write to one buffer without an order.
void unordered(Program& p) {
  CUgraph graph = nullptr;
  CUgraphNode nodes[2] = {};
  CHECK(cuGraphCreate(&graph, 0));
  Arguments first(p.buffers[0], p.buffers[1], p.buffers[2], 41), second(p.buffers[0], p.buffers[2], p.buffers[1], 42);
  const CUDA_KERNEL_NODE_PARAMS kernels[] = {node_of(p, first), node_of(p, second)};
  for (int i = 0; i < 2; ++i) CHECK(cuGraphAddKernelNode(&nodes[i], graph, nullptr, 0, &kernels[i]));
  run(p, graph);
}

}  // namespace

int main(int, char** arguments) {
  const std::string kind = arguments[1] == nullptr ? "" : arguments[1];
  Program p;
  begin(p);
  if (kind == "recorded") recorded(p);
  if (kind == "built") built(p);
  if (kind == "changed") changed(p);
  if (kind == "unordered") unordered(p);
  say(p, kind.c_str());
  for (const CUdeviceptr buffer : p.buffers) CHECK(cuMemFree(buffer));
  CHECK(cuEventDestroy(p.fork));
  CHECK(cuEventDestroy(p.join));
  CHECK(cuStreamDestroy(p.first));
  CHECK(cuStreamDestroy(p.second));
}
