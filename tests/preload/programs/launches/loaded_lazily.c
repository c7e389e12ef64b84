// SPDX-License-Identifier: Apache-2.0
// Kernels whose code takes device memory at their first launch, or when loading is requested, on a device that is full
// by then; other calls for which the driver takes memory come in between.
#include <string.h>

#include "tests/preload/programs/small.h"

static void launch_block(const char* name, size_t bytes, CUdeviceptr out, CUdeviceptr in, CUstream stream) {
  char block[64] = {0};
  void* parameters[] = {block};
  memcpy(block + (bytes == 21 ? 1 : 0), &out, sizeof out);
  memcpy(block + (bytes == 21 ? 13 : 8), &in, sizeof in);
  CHECK(cuLaunchKernel(kernel(name), 32, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}

int main(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  launch_block("mix_packed", 21, buffers[0], buffers[5], NULL);

  CUlibrary library = NULL;
  CUkernel found = NULL;
  CUfunction function = NULL;
  CHECK(cuLibraryLoadData(&library, kKernels, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cuLibraryGetKernel(&found, library, "mix"));
  CHECK(cuKernelGetFunction(&function, found));
  void* parameters[] = {&buffers[1], &buffers[6]};
  CHECK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));

  CUmodule other = NULL;
  CHECK(cuModuleLoadData(&other, kKernels));
  CHECK(cuModuleGetFunction(&function, other, "mix_many"));
  int blocks = 0;
  CHECK(cuModuleGetFunction(&function, other, "mix_packed"));
  CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
  CHECK(cuModuleGetFunction(&function, other, "mix"));
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 0));
  printf("blocks %d\n", blocks);
  CHECK(cuModuleGetFunction(&function, other, "mix_many"));
  CHECK(cuFuncLoad(function));
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CUstream stream = NULL;
  CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuCtxSynchronize());
  launch_block("mix_many", 64, buffers[2], buffers[7], stream);
  CHECK(cuStreamSynchronize(stream));

  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(stream, buffers[3], buffers[4]);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));

  CHECK(cuModuleUnload(other));
  CUdeviceptr managed = 0;
  CHECK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemsetD8(managed, 7, BYTES));
  CUarray array = NULL;
  const CUDA_ARRAY_DESCRIPTOR shape = {
      .Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
  CHECK(cuArrayCreate(&array, &shape));
  mix_all(stream);
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuArrayDestroy(array));
  CHECK(cuMemFree(managed));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuLibraryUnload(library));
  return finish();
}
