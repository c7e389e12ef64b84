// SPDX-License-Identifier: Apache-2.0
// Streams that record are destroyed, one with its context. Nothing records afterwards: memory whose uses nobody sees is
// freed behind them, as the driver does it. What the kernel works on it finds in pinned memory.
#include "tests/preload/programs/small.h"

#include <vector_types.h>

#include <cstdint>
#include <cstring>

namespace {

const char kUnseen[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry add_up(.param .u64 where)\n{\n  ret;\n}\n";

struct Given {
  const std::uint32_t* at;
  std::uint64_t words, sum;
};

void record_and_destroy() {
  CUstream lost = nullptr;
  CHECK(cuStreamCreate(&lost, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(lost, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(lost, buffers[0], buffers[1]);
  CHECK(cuStreamDestroy(lost));
}

void record_in_a_context_that_ends() {
  CUcontext other = nullptr;
  CUstream lost = nullptr;
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  CHECK(cuStreamCreate(&lost, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(lost, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuCtxDestroy(other));
  CHECK(cuCtxSetCurrent(context));
}

// The buffer is freed and comes again, for another stream, while a kernel that nobody saw may be at work on it. The
// first few rounds may happen to go well.
void free_behind_what_is_unseen(CUfunction add_up, Given* given, int i, CUstream one, CUstream two) {
  static unsigned value = 2;
  const unsigned on = 1;
  void* parameters[] = {&given};
  CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffers[i]));
  CHECK(cuCtxSynchronize());
  *given = {reinterpret_cast<const std::uint32_t*>(buffers[i]), BYTES / 4, 0};
  CHECK(cuLaunchKernel(add_up, 1, 1, 1, 1, 1, 1, 0, one, parameters, nullptr));
  CHECK(cuMemFree(buffers[i]));
  CHECK(cuMemAlloc(&buffers[i], BYTES));
  CHECK(cuMemsetD32Async(buffers[i], ++value, BYTES / 4, two));
  CHECK(cuStreamSynchronize(two));
  CHECK(cuStreamSynchronize(one));
  printf("sum %llu\n", static_cast<unsigned long long>(given->sum));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void simulated_add_up(void** arguments, dim3, dim3) {
  Given* given;
  std::memcpy(&given, arguments[0], sizeof given);
  for (std::uint64_t i = 0; i < given->words; ++i) given->sum = given->sum * 31 + given->at[i];
}

int main() {
  begin();
  CUmodule more = nullptr;
  CUfunction add_up = nullptr;
  Given* given = nullptr;
  CUstream streams[2];
  CHECK(cuModuleLoadData(&more, kUnseen));
  CHECK(cuModuleGetFunction(&add_up, more, "add_up"));
  CHECK(cuMemAllocHost(reinterpret_cast<void**>(&given), sizeof *given));
  for (CUstream& one : streams) CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
  make_buffers();
  record_and_destroy();
  for (int i = 0; i < BUFFERS; ++i) free_behind_what_is_unseen(add_up, given, i, streams[i % 2], streams[1 - i % 2]);
  record_in_a_context_that_ends();
  for (int i = 0; i < BUFFERS; ++i) free_behind_what_is_unseen(add_up, given, i, streams[i % 2], streams[1 - i % 2]);
  for (CUstream& one : streams) CHECK(cuStreamDestroy(one));
  CHECK(cuMemFreeHost(given));
  return finish();
}
