// SPDX-License-Identifier: Apache-2.0
// A kernel of a C++ template uses two buffers of 12 MiB, within NVTX ranges that have ended before a graph does the same.
#include <nvtx3/nvToolsExt.h>

#include "tests/preload/programs/small.h"

#define LARGE ((size_t)12 << 20)

static const char kScale[] =
    PTX_HEADER ".visible .entry _Z5scaleIfEvPT_S1_i(.param .u64 out, .param .u64 in, .param .u32 n)\n{\n  ret;\n}\n";

int main(void) {
  CUdeviceptr out = 0, in = 0;
  CUmodule module;
  CUfunction scale = NULL;
  CUstream stream;
  CUgraph graph;
  CUgraphExec step;
  nvtxDomainHandle_t domain = nvtxDomainCreateA("layers");
  nvtxEventAttributes_t layer = {0};
  int n = 1;
  void* parameters[] = {&out, &in, &n};
  layer.version = NVTX_VERSION;
  layer.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  layer.messageType = NVTX_MESSAGE_TYPE_ASCII;
  layer.message.ascii = "layer3.conv\n";
  begin();
  CHECK(cuModuleLoadData(&module, kScale));
  CHECK(cuModuleGetFunction(&scale, module, "_Z5scaleIfEvPT_S1_i"));
  CHECK(cuMemAlloc(&out, LARGE));
  CHECK(cuMemAlloc(&in, LARGE));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  nvtxRangePushA("data");
  nvtxRangePop();
  nvtxRangePushA("epoch 2");
  nvtxRangePushW(L"forward");
  nvtxDomainRangePushEx(domain, &layer);
  printf("kernel: %d\n", (int)cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
  nvtxDomainRangePop(domain);
  nvtxRangePop();
  nvtxRangePop();
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  printf("graph: %d\n", (int)cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(out));
  CHECK(cuMemFree(in));
  CHECK(cuModuleUnload(module));
  end();
  return 0;
}
