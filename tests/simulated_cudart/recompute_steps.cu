// SPDX-License-Identifier: Apache-2.0
// Steps like those of a training, with little arithmetic: a stencil, a sum over each block of threads, dropout by a seed
// and ReLU in place forward, and their inputs read again backward.
//
//   recompute_steps LAYERS STEPS
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/common/digest.h"
#include "tests/simulated_cudart/recompute_layers.h"

namespace {

using namespace layers;

__device__ bool is_kept(int i, unsigned seed) {
  return ((static_cast<unsigned>(i) ^ seed) * 0x45d9f3bu >> 13 & 3) != 0;
}

__global__ void stencil(const float4* in, float4* out, int count) {
  const int i = own();
  if (i < count) out[i] = sum(in[i], 0.5f, in[i > 0 ? i - 1 : i], 0.5f);
}
__global__ void center_and_drop(const float4* in, const float4* sums, float4* out, int count, unsigned seed) {
  const int i = own();
  if (i < count) out[i] = sum(in[i], is_kept(i, seed) ? 1.5f : 0.0f, sums[i / kThreads], -1.0f / kThreads);
}

struct Layer {
  Buffer smooth{kCount, "smooth"}, sums{kBlocks, "sums"}, out{kCount, "out"};
};

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "recompute_steps";
  if (argc != 3) return 2;
  const int count = std::atoi(argv[1]), steps = std::atoi(argv[2]);
  Buffer input(kCount, "input"), gradient(kCount, "gradient");
  require(cudaMemset(gradient.get(), 0, gradient.bytes()), "cudaMemset");
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  float milliseconds = 0;
  for (int step = 0; step < steps; ++step) {
    const unsigned seed = static_cast<unsigned>(step) * 7919u;
    require(cudaEventRecord(begin), "event");
    // Activations end with the step, as those of frameworks do.
    std::vector<Layer> layers;
    make_input<<<kBlocks, kThreads>>>(input.get(), kCount, seed);
    const float4* in = input.get();
    for (int i = 0; i < count; ++i) {
      const Layer& layer = layers.emplace_back();
      stencil<<<kBlocks, kThreads>>>(in, layer.smooth.get(), kCount);
      sum_blocks<<<kBlocks, kThreads>>>(layer.smooth.get(), layer.sums.get());
      center_and_drop<<<kBlocks, kThreads>>>(layer.smooth.get(), layer.sums.get(), layer.out.get(), kCount, seed);
      relu<<<kBlocks, kThreads>>>(layer.out.get(), kCount);
      in = layer.out.get();
    }
    for (; !layers.empty(); layers.pop_back())
      backward<<<kBlocks, kThreads>>>(layers.back().smooth.get(), layers.back().out.get(), gradient.get(), kCount);
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "event");
    require(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  }
  std::vector<float4> values(kCount);
  require(cudaMemcpy(values.data(), gradient.get(), gradient.bytes(), cudaMemcpyDeviceToHost), "download");
  examples::Digest digest;
  digest.add(values.data(), gradient.bytes());
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
  std::fprintf(stderr, "the last step took %.3f ms\n", static_cast<double>(milliseconds));
}
