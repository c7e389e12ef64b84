// SPDX-License-Identifier: Apache-2.0
// Kernels that are given tensors as tensor maps, by value: one map; one among other members of a structure; in one
// block; and after the map was changed to name another buffer.
#include <string.h>

#include "tests/preload/programs/small.h"

static const char kMapKernels[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry mix_map(.param .align 64 .b8 map[128], .param .u64 in)\n{\n  ret;\n}\n"
    ".visible .entry mix_maps(.param .align 64 .b8 block[384])\n{\n  ret;\n}\n";

// Not CUDA's type: C before 2011 can not express its alignment.
static union {
  CUtensorMap map;
  unsigned char bytes[128];
} maps[BUFFERS] __attribute__((aligned(128)));

static CUfunction mix_map, mix_maps;

static void make_map(int index, CUdeviceptr at) {
  const cuuint64_t extents[] = {1024, 1024};
  const cuuint64_t strides[] = {4096};
  const cuuint32_t box[] = {64, 64};
  const cuuint32_t steps[] = {1, 1};
  CHECK(cuTensorMapEncodeTiled(&maps[index].map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void*)at, extents, strides, box,
                               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

static void mix_by_map(int out, CUdeviceptr in) {
  void* parameters[] = {&maps[out], &in};
  CHECK(cuLaunchKernel(mix_map, 64, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
}

static void mix_by_structure(int one, int other) {
  unsigned char block[384];
  memset(block, 7, sizeof block);
  memcpy(block + 64, &maps[one], 128);
  memcpy(block + 256, &maps[other], 128);
  void* parameters[] = {block};
  CHECK(cuLaunchKernel(mix_maps, 64, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
}

static void mix_by_block(int out, CUdeviceptr in) {
  unsigned char block[136];
  size_t bytes = sizeof block;
  memcpy(block, &maps[out], 128);
  memcpy(block + 128, &in, sizeof in);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(mix_map, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
}

int main(void) {
  begin();
  CUmodule more = NULL;
  CHECK(cuModuleLoadData(&more, kMapKernels));
  CHECK(cuModuleGetFunction(&mix_map, more, "mix_map"));
  CHECK(cuModuleGetFunction(&mix_maps, more, "mix_maps"));
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) make_map(i, buffers[i] + 16 * (size_t)i);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < BUFFERS; ++i) mix_by_map(i, buffers[(i + 3) % BUFFERS]);
    for (int i = 0; i < BUFFERS; ++i) mix_by_structure(i, (i + 5) % BUFFERS);
    for (int i = 0; i < BUFFERS; ++i) mix_by_block(i, buffers[(i + 1) % BUFFERS]);
    for (int i = 0; i < BUFFERS; ++i)
      CHECK(cuTensorMapReplaceAddress(&maps[i].map, (void*)(buffers[(i + round + 1) % BUFFERS])));
  }
  return finish();
}
