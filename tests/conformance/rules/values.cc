// SPDX-License-Identifier: Apache-2.0
// Values that streams write to memory or wait for. Every value that a stream waits for is finally written, so that no
// rule leaves a blocked stream.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "streams";
#define MEMOPS "Stream Memory Operations: "

constexpr std::uint32_t kWordCount = 1024;

CUdeviceptr zeros(Session& session) {
  const CUdeviceptr at = session.allocate(4 * kWordCount);
  OK(session.driver().cuMemsetD32(at, 0, kWordCount));
  session.synchronize();
  return at;
}

RULE(value_wait_holds_its_stream, "Work submitted after a wait for a value runs when the value is there, not before",
     MEMOPS "cuStreamWaitValue32, cuStreamWriteValue32") {
  const CUdeviceptr word = zeros(session), data = zeros(session);
  const CUstream waiting = session.stream(), writing = session.stream();
  OK(cu.cuStreamWaitValue32(waiting, word, 2, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cu.cuMemsetD32Async(data, 5, kWordCount, waiting));
  OK(cu.cuStreamWriteValue32(writing, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(writing));
  const CUresult answer = cu.cuStreamQuery(waiting);
  OK(cu.cuStreamWriteValue32(writing, word, 3, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(waiting));
  HOLDS(answer == CUDA_ERROR_NOT_READY, "the stream is not done while the value is not there");
  HOLDS(session.holds(data, kWordCount, 5), "what came behind has run");
}

RULE(value_write_comes_behind_its_stream, "A stream that has seen a value sees what was written before it",
     MEMOPS "cuStreamWriteValue32") {
  const CUdeviceptr word = zeros(session), data = zeros(session), out = zeros(session);
  const CUstream waiting = session.stream(), writing = session.stream();
  session.prepare_busy();
  session.function("conformance_add");
  OK(cu.cuStreamWaitValue32(waiting, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cu.cuMemcpyDtoDAsync(out, data, 4 * kWordCount, waiting));
  session.keep_busy(writing);
  session.add(data, kWordCount, 7, writing);
  OK(cu.cuStreamWriteValue32(writing, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(waiting));
  HOLDS(session.holds(out, kWordCount, 7), "the copy read what the other stream wrote");
}

RULE(value_wait_sees_the_host, "The host releases a stream by writing a value to mapped memory",
     MEMOPS "cuStreamWaitValue32", .needs = CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) {
  auto* const word = static_cast<volatile std::uint32_t*>(session.pinned(64));
  CUdeviceptr at = 0;
  OK(cu.cuMemHostGetDevicePointer(&at, const_cast<std::uint32_t*>(word), 0));
  *word = 0;
  const CUstream waiting = session.stream();
  OK(cu.cuStreamWaitValue32(waiting, at, 4, CU_STREAM_WAIT_VALUE_AND));
  const CUresult answer = cu.cuStreamQuery(waiting);
  *word = 6;
  OK(cu.cuStreamSynchronize(waiting));
  HOLDS(answer == CUDA_ERROR_NOT_READY, "the stream is not done while the word is 0");
}

RULE(values_are_not_in_managed_memory, "Values cannot be written to managed memory or be waited for there",
     "Stream Memory Operations", .needs = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) {
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
  const CUstream stream = session.stream();
  ANSWERS(cu.cuStreamWriteValue32(stream, at, 1, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuStreamWaitValue32(stream, at, 0, CU_STREAM_WAIT_VALUE_GEQ), CUDA_ERROR_INVALID_VALUE);
}

RULE(executable_graphs_keep_their_value_operations,
     "The operations of a node of an executable graph get other addresses and values, not another number or type",
     "Graph Management: cuGraphExecBatchMemOpNodeSetParams, cuGraphExecUpdate",
     .open = "which error setting them returns") {
  const CUdeviceptr at = zeros(session);
  CUstreamBatchMemOpParams all[2] = {};
  all[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at, {.value = 3}, 0, 0};
  all[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 4, {.value = 4}, 0, 0};
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = {};
  params.count = 2;
  params.paramArray = all;
  OK(cu.cuCtxGetCurrent(&params.ctx));
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
  OK(cu.cuGraphInstantiate(&exec, graph, 0));
  all[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 8, {.value = 5}, 0, 0};
  OK(cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
  const auto refuses = [&] {
    CUgraphExecUpdateResultInfo why{};
    REFUSES(cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    OK(cu.cuGraphBatchMemOpNodeSetParams(node, &params));
    ANSWERS(cu.cuGraphExecUpdate(exec, graph, &why), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  };
  params.count = 1;
  refuses();
  params.count = 2;
  all[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, at, {.value = 3}, CU_STREAM_WAIT_VALUE_EQ, 0};
  refuses();
  const CUstream stream = session.stream();
  OK(cu.cuGraphLaunch(exec, stream));
  OK(cu.cuStreamSynchronize(stream));
  HOLDS((session.read(at, 3) == std::vector<std::uint32_t>{3, 0, 5}), "as it was last set");
}

RULE(values_of_64_bits_are_whole, "Values of 64 bits are written and compared whole",
     MEMOPS "cuStreamWriteValue64, cuStreamWaitValue64", .needs = CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) {
  const CUdeviceptr at = zeros(session);
  const CUstream waiting = session.stream(), writing = session.stream();
  OK(cu.cuStreamWaitValue64(waiting, at + 8, 0x300000001, CU_STREAM_WAIT_VALUE_EQ));
  OK(cu.cuStreamWriteValue64(writing, at + 8, 0x400000001, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(writing));
  const CUresult answer = cu.cuStreamQuery(waiting);
  OK(cu.cuStreamWriteValue64(writing, at + 8, 0x300000001, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(waiting));
  HOLDS(answer == CUDA_ERROR_NOT_READY, "the upper half counts");
  HOLDS((session.read(at, 5) == std::vector<std::uint32_t>{0, 0, 1, 3, 0}), "these eight bytes and no other");
}

RULE(value_wait_goes_by_the_difference, "A wait for at least a value compares by the sign of the difference",
     MEMOPS "CUstreamWaitValue_flags") {
  const CUdeviceptr word = zeros(session);
  const CUstream in = session.stream();
  OK(cu.cuStreamWriteValue32(in, word, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamWaitValue32(in, word, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cu.cuStreamSynchronize(in));
}

RULE(value_wait_for_a_bit_that_is_off, "A wait can be for any bit outside a mask to be 0",
     MEMOPS "CUstreamWaitValue_flags", .needs = CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR) {
  const CUdeviceptr word = zeros(session);
  const CUstream waiting = session.stream(), writing = session.stream();
  OK(cu.cuStreamWriteValue32(writing, word, 0xffffff00u, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(writing));
  OK(cu.cuStreamWaitValue32(waiting, word, 0xff, CU_STREAM_WAIT_VALUE_NOR));
  const CUresult answer = cu.cuStreamQuery(waiting);
  OK(cu.cuStreamWriteValue32(writing, word, 0x7fffff00u, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cu.cuStreamSynchronize(waiting));
  HOLDS(answer == CUDA_ERROR_NOT_READY, "the bits of the mask do not count");
}

RULE(values_need_alignment, "A value's address is a multiple of its size",
     MEMOPS "cuStreamWriteValue32, cuStreamWriteValue64", .open = "which error") {
  const CUdeviceptr at = zeros(session);
  FAILS(cu.cuStreamWriteValue32(session.stream(), at + 2, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

}  // namespace
}  // namespace conformance
