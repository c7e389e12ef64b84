// SPDX-License-Identifier: Apache-2.0
// Arrays, textures and surfaces through the runtime: copied to and from, read and written by kernels.
#include "tests/preload/programs/runtime/small.cuh"

// Some of the functions are deprecated, but programs still use them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // of the host compiler
#pragma nv_diag_suppress 1444                               // of nvcc

constexpr std::size_t kWidth = 256;  // elements
constexpr std::size_t kHeight = 64;
constexpr std::size_t kPitch = kWidth * sizeof(float4);

__global__ void fetch(float4* to, cudaTextureObject_t from, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) to[i] = tex2D<float4>(from, static_cast<float>(i % kWidth), static_cast<float>(i / kWidth));
}

__global__ void fetch_words(std::uint32_t* to, cudaTextureObject_t from, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) to[i] = tex1Dfetch<std::uint32_t>(from, static_cast<int>(i));
}

__global__ void store(cudaSurfaceObject_t to, const float4* from, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) surf2Dwrite(from[i], to, static_cast<int>(i % kWidth * sizeof(float4)), static_cast<int>(i / kWidth));
}

cudaArray_t make_array(unsigned flags) {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float4>();
  cudaArray_t array;
  NEED(cudaMallocArray(&array, &desc, kWidth, kHeight, flags));
  cudaChannelFormatDesc found = {};
  cudaExtent extent = {};
  unsigned told = 0;
  NEED(cudaArrayGetInfo(&found, &extent, &told, array));
  std::printf("array %d %d %d %d %d %zu %zu %zu %u\n", found.x, found.y, found.z, found.w, static_cast<int>(found.f),
              extent.width, extent.height, extent.depth, told);
  return array;
}

void print(cudaArray_t array) {
  static char host[kPitch * kHeight];
  NEED(cudaMemcpy2DFromArray(host, kPitch, array, 0, 0, kPitch, kHeight, cudaMemcpyDeviceToHost));
  print_digest(host, sizeof host);
}

cudaTextureObject_t texture_of(const cudaResourceDesc& resource) {
  cudaTextureDesc how = {};
  how.addressMode[0] = cudaAddressModeClamp;
  how.addressMode[1] = cudaAddressModeWrap;
  how.filterMode = cudaFilterModePoint;
  how.readMode = cudaReadModeElementType;
  how.maxAnisotropy = 3;
  cudaTextureObject_t texture;
  NEED(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  cudaTextureDesc found = {};
  NEED(cudaGetTextureObjectTextureDesc(&found, texture));
  std::printf("texture %d %d %d %d %u\n", found.addressMode[0], found.addressMode[1], found.filterMode, found.readMode,
              found.maxAnisotropy);
  return texture;
}

void copy_runs(cudaArray_t first, cudaArray_t second) {
  NEED(cudaMemcpy2DToArray(first, 0, 0, buffers[0], kPitch, kPitch, kHeight, cudaMemcpyDeviceToDevice));
  // Across the ends of rows.
  NEED(cudaMemcpyToArray(first, 160, 2, buffers[1], kPitch * 2 + 32, cudaMemcpyDeviceToDevice));
  NEED(cudaMemcpy2DArrayToArray(second, 16, 1, first, 0, 3, 1600, 30, cudaMemcpyDeviceToDevice));
  NEED(cudaMemcpyArrayToArray(second, 32, 40, first, 64, 1, kPitch + 48, cudaMemcpyDeviceToDevice));
  NEED(cudaMemcpyFromArray(buffers[2], second, 16, 0, kPitch * 3, cudaMemcpyDeviceToDevice));
  cudaMemcpy3DParms box = {};
  box.srcArray = first;
  box.srcPos = {5, 1, 0};
  box.dstPtr = {buffers[3], 4096, 4096, 32};
  box.dstPos = {48, 2, 0};
  box.extent = {100, 20, 1};
  box.kind = cudaMemcpyDeviceToDevice;
  NEED(cudaMemcpy3D(&box));
  print(first);
  print(second);
}

void fetch_array(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  const cudaTextureObject_t texture = texture_of(resource);
  fetch<<<64, 256>>>(reinterpret_cast<float4*>(buffers[4]), texture, kWidth * kHeight);
  NEED(cudaGetLastError());
  cudaResourceDesc found = {};
  NEED(cudaGetTextureObjectResourceDesc(&found, texture));
  std::printf("resource %d %d\n", static_cast<int>(found.resType), found.res.array.array == array);
  NEED(cudaDestroyTextureObject(texture));
}

void fetch_memory() {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {buffers[5], cudaCreateChannelDesc<unsigned>(), kBytes / 4};
  const cudaTextureObject_t texture = texture_of(resource);
  fetch_words<<<64, 256>>>(buffers[6], texture, kBytes / 16);
  NEED(cudaGetLastError());
  mix_all();
  fetch_words<<<64, 256>>>(buffers[7], texture, kBytes / 16);
  NEED(cudaDeviceSynchronize());
  cudaResourceDesc found = {};
  NEED(cudaGetTextureObjectResourceDesc(&found, texture));
  std::printf("resource %d %d %d %zu\n", static_cast<int>(found.resType), found.res.linear.devPtr == buffers[5],
              found.res.linear.desc.x, found.res.linear.sizeInBytes);
  NEED(cudaDestroyTextureObject(texture));
}

void store_array(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  NEED(cudaCreateSurfaceObject(&surface, &resource));
  store<<<64, 256>>>(surface, reinterpret_cast<const float4*>(buffers[1]), kWidth * kHeight);
  NEED(cudaDeviceSynchronize());
  NEED(cudaDestroySurfaceObject(surface));
  print(array);
}

int main() {
  make_buffers();
  mix_all();
  const cudaArray_t first = make_array(0);
  const cudaArray_t second = make_array(cudaArraySurfaceLoadStore);
  copy_runs(first, second);
  fetch_array(first);
  fetch_memory();
  store_array(second);
  cudaArray_t cube;
  const cudaChannelFormatDesc odd = {8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  TELL(cudaMallocArray(&cube, &odd, 16, 16, 0));
  static_cast<void>(cudaGetLastError());
  const cudaChannelFormatDesc bytes = cudaCreateChannelDesc<unsigned char>();
  NEED(cudaMalloc3DArray(&cube, &bytes, {64, 16, 8}, 0));
  cudaMemcpy3DParms box = {};
  box.srcPtr = {buffers[0], 64, 64, 16};
  box.dstArray = cube;
  box.extent = {64, 16, 8};
  box.kind = cudaMemcpyDeviceToDevice;
  NEED(cudaMemcpy3D(&box));
  NEED(cudaFreeArray(cube));
  NEED(cudaFreeArray(first));
  NEED(cudaFreeArray(second));
  mix_all();
  return finish();
}
