// SPDX-License-Identifier: Apache-2.0
// Kernels that are given tensors as tensor maps, by value: one map; one among other members of a structure; in one
// block; and after the map was changed to name another buffer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "tests/preload/programs/small.h"

#define MAP_ENTRIES(mix_map, mix_maps)                                                  \
  ".version 8.0\n.target sm_90\n.address_size 64\n"                                     \
  ".visible .entry mix_map(.param .align 64 .b8 map[128], .param .u64 in)\n{\n" mix_map \
  "  ret;\n}\n"                                                                         \
  ".visible .entry mix_maps(.param .align 64 .b8 block[384])\n{\n" mix_maps "  ret;\n}\n"

// Each of the 64 blocks of 128 threads has a box of the first 256 rows, which %x and %y name, and a tile of shared memory
// for it.
#define MAP_BEGIN                                                                                           \
  "  .shared .align 128 .b8 tile[16384];\n  .shared .align 128 .b8 other[16384];\n"                         \
  "  .shared .align 8 .b64 arrived;\n"                                                                      \
  "  .reg .pred %first, %done, %more;\n  .reg .b32 %thread, %x, %y, %at, %from, %bar, %i, %value, %next;\n" \
  "  .reg .b64 %map, %second, %in, %offset, %state;\n"                                                      \
  "  mov.u32 %thread, %tid.x;\n  setp.eq.u32 %first, %thread, 0;\n"                                         \
  "  mov.u32 %i, %ctaid.x;\n  and.b32 %x, %i, 15;\n  shl.b32 %x, %x, 6;\n"                                  \
  "  shr.u32 %y, %i, 4;\n  shl.b32 %y, %y, 6;\n"                                                            \
  "  mov.u32 %at, tile;\n  mov.u32 %from, other;\n  mov.u32 %bar, arrived;\n"

#define MAP_FETCH(tile, map)                                                                                \
  "  @%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [" tile "], [" map \
  ", {%x, %y}], [%bar];\n"

// The fetches bring `bytes`.
#define MAP_FETCHES(bytes, fetches)                                                          \
  "  @%first mbarrier.init.shared::cta.b64 [%bar], 1;\n  @%first fence.proxy.async;\n"       \
  "  bar.sync 0;\n"                                                                          \
  "  @%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%bar], " bytes ";\n" fetches \
  "wait:\n  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;\n  @!%done bra wait;\n"

// The words of the tile are mixed with %next, which `next` sets for the word at %at.
#define MAP_MIX(next)                                                                                        \
  "  shl.b32 %thread, %thread, 2;\n  add.u32 %at, %at, %thread;\n  add.u32 %from, %from, %thread;\n"         \
  "  mov.u32 %i, 0;\n"                                                                                       \
  "each:\n  ld.shared.u32 %value, [%at];\n" next                                                             \
  "  mad.lo.u32 %value, %value, 31, %next;\n  add.u32 %value, %value, %i;\n  st.shared.u32 [%at], %value;\n" \
  "  add.u32 %at, %at, 512;\n  add.u32 %from, %from, 512;\n  add.u32 %i, %i, 1;\n"                           \
  "  setp.lt.u32 %more, %i, 32;\n  @%more bra each;\n"                                                       \
  "  fence.proxy.async;\n  bar.sync 0;\n  mov.u32 %at, tile;\n"                                              \
  "  @%first cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%x, %y}], [%at];\n"               \
  "  @%first cp.async.bulk.commit_group;\n  @%first cp.async.bulk.wait_group 0;\n"

// The words of `in` are those of the third quarter, which no box contains: it may be the map's own buffer.
static const char kMapKernels[] = MAP_ENTRIES(
    MAP_BEGIN
    "  mov.b64 %map, map;\n  cvta.param.u64 %map, %map;\n  ld.param.u64 %in, [in];\n"
    "  mul.wide.u32 %offset, %i, 16384;\n  add.u64 %in, %in, %offset;\n  add.u64 %in, %in, 2097152;\n"
    "  mul.wide.u32 %offset, %thread, 4;\n  add.u64 %in, %in, %offset;\n" MAP_FETCHES("16384", MAP_FETCH("%at", "%map"))
        MAP_MIX("  ld.u32 %next, [%in];\n  add.u64 %in, %in, 512;\n"),
    MAP_BEGIN
    "  mov.b64 %map, block;\n  cvta.param.u64 %map, %map;\n  add.u64 %second, %map, 256;\n"
    "  add.u64 %map, %map, 64;\n" MAP_FETCHES("32768", MAP_FETCH("%at", "%map") MAP_FETCH("%from", "%second"))
        MAP_MIX("  ld.shared.u32 %next, [%from];\n"));

// The simulated device can not copy tensors: there the kernels do nothing, unless results are made up.
static const char kMapKernelsOfSimulatedDevices[] = MAP_ENTRIES("", "");

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

// In a block, parameters are where the compiler has put them: a map is aligned in the constant bank, not in the block.
static void mix_by_block(int out, CUdeviceptr in) {
  unsigned char block[256];
  size_t map_offset = 0, in_offset = 0, size = 0;
  if (cuFuncGetParamInfo(mix_map, 0, &map_offset, &size) != CUDA_SUCCESS) {  // before CUDA 12.4
    mix_by_map(out, in);
    return;
  }
  CHECK(cuFuncGetParamInfo(mix_map, 1, &in_offset, &size));
  size_t bytes = in_offset + sizeof in;
  memset(block, 7, sizeof block);
  memcpy(block + map_offset, &maps[out], 128);
  memcpy(block + in_offset, &in, sizeof in);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(mix_map, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
}

int main(void) {
  begin();
  CUmodule more = NULL;
  const int is_simulated = dlsym(RTLD_DEFAULT, "simulated_device_control") != NULL;
  CHECK(cuModuleLoadData(&more, is_simulated ? kMapKernelsOfSimulatedDevices : kMapKernels));
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
