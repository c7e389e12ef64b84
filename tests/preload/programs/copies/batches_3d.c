// SPDX-License-Identifier: Apache-2.0
// Many boxes in one call: between buffers, from and to host memory, and through an array.
#include "tests/preload/programs/small.h"

#define ROW ((size_t)4096)
#define ROWS ((size_t)16)
#define LAYERS ((size_t)8)

static CUmemcpy3DOperand at(CUdeviceptr address, size_t row, size_t rows) {
  CUmemcpy3DOperand operand = {0};
  operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  operand.op.ptr.ptr = address;
  operand.op.ptr.rowLength = row;
  operand.op.ptr.layerHeight = rows;
  return operand;
}

static CUDA_MEMCPY3D_BATCH_OP box(CUmemcpy3DOperand to, CUmemcpy3DOperand from, size_t width, size_t rows,
                                  size_t layers) {
  CUDA_MEMCPY3D_BATCH_OP op = {0};
  op.dst = to;
  op.src = from;
  op.extent.width = width;
  op.extent.height = rows;
  op.extent.depth = layers;
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return op;
}

static CUarray make_array(void) {
  CUDA_ARRAY3D_DESCRIPTOR description = {0};
  description.Width = 64;
  description.Height = 4;
  description.Depth = 2;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  description.NumChannels = 1;
  CUarray array = NULL;
  CHECK(cuArray3DCreate(&array, &description));
  return array;
}

static void through_array(CUstream stream, CUarray array, CUdeviceptr to, CUdeviceptr from) {
  CUmemcpy3DOperand middle = {0};
  middle.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  middle.op.array.array = array;
  middle.op.array.offset.x = 8;
  CUDA_MEMCPY3D_BATCH_OP ops[2];
  ops[0] = box(middle, at(from, 64, 4), 32, 4, 2);
  ops[1] = box(at(to, 0, 0), middle, 32, 4, 2);
  CHECK(cuMemcpy3DBatchAsync(2, ops, 0, stream));
}

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUarray array = make_array();
  void* pinned = NULL;
  CHECK(cuMemHostAlloc(&pinned, ROW * ROWS, 0));
  void* pageable = pattern(ROW * ROWS, 77);
  for (int round = 0; round < BUFFERS; ++round) {
    const CUdeviceptr a = buffers[round], b = buffers[(round + 1) % BUFFERS], c = buffers[(round + 3) % BUFFERS];
    CUDA_MEMCPY3D_BATCH_OP ops[4];
    // Rows with gaps, and boxes whose rows are contiguous.
    ops[0] = box(at(a + 256, ROW, ROWS), at(b, ROW / 2, ROWS), 1024, ROWS - 1, LAYERS);
    ops[1] = box(at(c, 0, 0), at(a, 0, 0), ROW, ROWS, LAYERS);
    ops[2] = box(at(b + ROW, ROW, 0), at((CUdeviceptr)pageable, ROW, 0), ROW / 2, ROWS, 1);
    ops[2].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    ops[3] = box(at((CUdeviceptr)pinned, 0, 0), at(c, ROW, 0), ROW, ROWS, 1);
    CHECK(cuMemcpy3DBatchAsync(4, ops, 0, stream));
    through_array(stream, array, b, c);
    mix_on(stream, a, b);
  }
  CHECK(cuStreamSynchronize(stream));
  show_bytes("pinned", pinned, ROW * ROWS);
  CUDA_MEMCPY3D_BATCH_OP nothing = {0};
  TELL(cuMemcpy3DBatchAsync(1, &nothing, 0, stream));
  TELL(cuMemcpy3DBatchAsync(0, NULL, 0, stream));
  free(pageable);
  CHECK(cuArrayDestroy(array));
  CHECK(cuMemFreeHost(pinned));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
