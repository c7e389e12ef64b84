// SPDX-License-Identifier: Apache-2.0
// A node that kernels on the device may change: the host can not see what it works on then. In this test, the node
// finds that in pinned memory, which is written between launches.
#include "tests/preload/programs/small.h"
#include "tests/preload/programs/unread_memory.h"

#include <vector_types.h>

#include <cstdint>
#include <cstring>

namespace {

const char kNode[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry change(.param .u64 where)\n{\n"
    "  .reg .pred %none;\n  .reg .b32 %word;\n  .reg .b64 %where, %at, %words;\n"
    "  ld.param.u64 %where, [where];\n  ld.u64 %at, [%where];\n  ld.u64 %words, [%where+8];\n"
    "each:\n"
    "  setp.eq.u64 %none, %words, 0;\n  @%none bra done;\n"
    "  ld.u32 %word, [%at];\n  mad.lo.u32 %word, %word, 31, 7;\n  st.u32 [%at], %word;\n"
    "  add.u64 %at, %at, 4;\n  sub.u64 %words, %words, 1;\n  bra each;\n"
    "done:\n  ret;\n}\n";

struct Given {
  std::uint32_t* at;
  std::size_t words;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void simulated_change(void** arguments, dim3, dim3) {
  const Given* given;
  std::memcpy(&given, arguments[0], sizeof given);
  for (std::size_t i = 0; i < given->words; ++i) given->at[i] = given->at[i] * 31 + 7;
}

int main() {
  begin();
  CUmodule more = nullptr;
  CUfunction change = nullptr;
  CHECK(cuModuleLoadData(&more, kNode));
  CHECK(cuModuleGetFunction(&change, more, "change"));
  make_buffers();
  mix_all(nullptr);
  // The remaining buffers fit the budget; some of them are evicted.
  for (int i = 4; i < BUFFERS; ++i) {
    show("early", buffers[i], BYTES);
    CHECK(cuMemFree(buffers[i]));
  }
  Given* given = nullptr;
  CHECK(allocate_unread(reinterpret_cast<void**>(&given), sizeof *given));
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
  attribute.value.deviceUpdatableKernelNode.deviceUpdatable = 1;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  void* parameters[] = {&given};
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuLaunchKernelEx(&config, change, parameters, nullptr));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (int i = 0; i < 4; ++i) {
    CHECK(cuCtxSynchronize());
    *given = {reinterpret_cast<std::uint32_t*>(buffers[i]), BYTES / 4};
    CHECK(cuGraphLaunch(ready, stream));
  }
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < 4; ++i) {
    show("buffer", buffers[i], BYTES);
    CHECK(cuMemFree(buffers[i]));
  }
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  CHECK(free_unread(given));
  end();
  return 0;
}
