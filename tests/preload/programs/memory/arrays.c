// SPDX-License-Identifier: Apache-2.0
// Arrays, and textures over arrays and over linear memory. Memory that a kernel reads through a texture is named by
// nothing but the texture.
#include "tests/preload/programs/small.h"

#define SIDE 512

static CUtexObject texture_over(const CUDA_RESOURCE_DESC* resource) {
  CUDA_TEXTURE_DESC reading = {0};
  CUtexObject texture = 0;
  CHECK(cuTexObjectCreate(&texture, resource, &reading, NULL));
  return texture;
}

static CUDA_RESOURCE_DESC over_range(CUdeviceptr at, size_t bytes) {
  CUDA_RESOURCE_DESC resource = {0};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = at;
  resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = bytes;
  return resource;
}

static CUDA_RESOURCE_DESC over_rows(CUdeviceptr at) {
  CUDA_RESOURCE_DESC resource = {0};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.devPtr = at;
  resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  resource.res.pitch2D.numChannels = 4;
  resource.res.pitch2D.width = 100;
  resource.res.pitch2D.height = 1024;
  resource.res.pitch2D.pitchInBytes = 4096;
  return resource;
}

static CUDA_RESOURCE_DESC over_array(CUarray array) {
  CUDA_RESOURCE_DESC resource = {0};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

static CUarray make_array(size_t height, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR wanted = {0};
  wanted.Width = SIDE;
  wanted.Height = height;
  wanted.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  wanted.NumChannels = 1;
  wanted.Flags = flags;
  CUarray array = NULL;
  CHECK(cuArray3DCreate(&array, &wanted));
  return array;
}

// Rows of a buffer, in a range of columns.
static CUDA_MEMCPY2D rows_of(CUdeviceptr buffer) {
  CUDA_MEMCPY2D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = buffer;
  copy.srcPitch = 8192;
  copy.srcXInBytes = 4096;
  copy.WidthInBytes = SIDE * 4;
  copy.Height = SIDE;
  return copy;
}

static void copy_through(CUarray flat, CUarray line) {
  CUDA_MEMCPY2D in = rows_of(buffers[0]);
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = flat;
  CHECK(cuMemcpy2DAsync(&in, NULL));
  mix_all(NULL);
  CUDA_MEMCPY2D out = {0};
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = flat;
  out.srcY = 16;
  out.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  out.dstDevice = buffers[1];
  out.dstPitch = 8192;
  out.WidthInBytes = SIDE * 4;
  out.Height = SIDE - 16;
  CHECK(cuMemcpy2D(&out));
  CHECK(cuMemcpyDtoA(line, 0, buffers[5], SIDE * 4));
  CHECK(cuMemcpyAtoD(buffers[6] + 4096, line, 64, SIDE * 4 - 64));
}

// Freed while a kernel that reads it through its texture may be running; its memory may be reused at once.
static void free_under_a_texture(void) {
  CUstream stream = NULL, other = NULL;
  CUdeviceptr read = 0, next = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&read, BYTES));
  fill(read, BYTES, 99);
  CHECK(cuCtxSynchronize());
  const CUDA_RESOURCE_DESC resource = over_range(read, BYTES);
  const CUtexObject texture = texture_over(&resource);
  for (int i = 0; i < 4; ++i) launch_mix(kernel("mix_line"), stream, buffers[7], texture, BYTES);
  CHECK(cuMemFree(read));
  CHECK(cuMemAlloc(&next, BYTES));
  CHECK(cuMemsetD32Async(next, 5, BYTES / 4, other));
  CHECK(cuCtxSynchronize());
  CHECK(cuTexObjectDestroy(texture));
  show("next", next, BYTES);
  CHECK(cuMemFree(next));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuStreamDestroy(other));
}

int main(void) {
  begin();
  make_buffers();
  const CUarray flat = make_array(SIDE, CUDA_ARRAY3D_SURFACE_LDST), line = make_array(0, 0);
  copy_through(flat, line);
  const CUDA_RESOURCE_DESC resources[] = {over_range(buffers[2], BYTES / 2), over_rows(buffers[4]), over_array(flat)};
  const char* const mixing[] = {"mix_line", "mix_rows", "mix_image"};
  CUtexObject textures[3];
  for (int i = 0; i < 3; ++i) textures[i] = texture_over(&resources[i]);
  CUsurfObject surface = 0;
  CHECK(cuSurfObjectCreate(&surface, &resources[2]));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      mix_all(NULL);
      launch_mix(kernel(mixing[i]), NULL, buffers[3], textures[i], BYTES);
    }
    launch_mix(kernel("mix_surface"), NULL, buffers[6], surface, BYTES);
  }
  // A texture must exist for as long as kernels read it.
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < 3; ++i) CHECK(cuTexObjectDestroy(textures[i]));
  CHECK(cuSurfObjectDestroy(surface));
  free_under_a_texture();
  CHECK(cuArrayDestroy(flat));
  CHECK(cuArrayDestroy(line));
  mix_all(NULL);
  return finish();
}
