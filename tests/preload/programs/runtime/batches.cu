// SPDX-License-Identifier: Apache-2.0
// Many copies in one call of the runtime, in both forms.
#include "tests/preload/programs/runtime/small.cuh"

int main() {
  make_buffers();
  mix_all();
  cudaStream_t stream;
  NEED(cudaStreamCreate(&stream));
  NEED(cudaDeviceSynchronize());
  std::vector<char> host(kBytes, 5);
  void* to[] = {buffers[0], buffers[1] + 100, buffers[2]};
  const void* from[] = {buffers[3], buffers[4], host.data()};
  const std::size_t sizes[] = {kBytes / 2, 12345, kBytes};
  cudaMemcpyAttributes how = {};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  NEED(cudaMemcpyBatchAsync(to, from, sizes, 3, &how, &first, 1, stream));
  cudaMemcpy3DBatchOp box = {};
  box.src.type = cudaMemcpyOperandTypePointer;
  box.src.op.ptr = {buffers[5], 1024, 64, {}};
  box.dst.type = cudaMemcpyOperandTypePointer;
  box.dst.op.ptr = {buffers[6], 2048, 32, {}};
  box.extent = {1000, 32, 8};
  box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  NEED(cudaMemcpy3DBatchAsync(1, &box, 0, stream));
  NEED(cudaStreamSynchronize(stream));
  TELL(cudaMemcpyBatchAsync(to, from, sizes, 3, nullptr, nullptr, 0, stream));
  static_cast<void>(cudaGetLastError());
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = {buffers[7], 4096, 4096, 16};
  peer.dstPtr = {buffers[1], 8192, 8192, 16};
  peer.extent = {3000, 16, 2};
  NEED(cudaMemcpy3DPeer(&peer));
  mix_all();
  return finish();
}
