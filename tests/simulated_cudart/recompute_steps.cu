// SPDX-License-Identifier: Apache-2.0
// Steps like those of a training, with little arithmetic: a stencil, a sum over each block of threads, dropout by a seed
// and ReLU in place forward, and their inputs read again backward.
//
//   recompute_steps LAYERS STEPS [WHEN [KIB]]
//     WHEN activations are allocated and freed, in each step:
//     used    each just before it is made; freed once it has been read for the last time (the default)
//     all     all where the step begins; freed where it ends
//     ends    each just before it is made; freed where the step ends
//     async   as used, by cudaMallocAsync and cudaFreeAsync
//     once    allocated before the first step, and freed behind the last one
//     KIB     how large an activation is: 2,048 by default, which has pages of its own
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
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

class Activation {
 public:
  Activation(int count, bool in_order) : in_order_(in_order) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float4);
    void** const to = reinterpret_cast<void**>(&data_);
    require(in_order ? cudaMallocAsync(to, bytes, nullptr) : cudaMalloc(to, bytes), "an activation");
  }
  Activation(Activation&& other) noexcept : data_(std::exchange(other.data_, nullptr)), in_order_(other.in_order_) {}
  Activation& operator=(Activation&&) = delete;
  ~Activation() {
    if (data_ != nullptr) require(in_order_ ? cudaFreeAsync(data_, nullptr) : cudaFree(data_), "a free");
  }
  float4* get() const { return data_; }

 private:
  float4* data_ = nullptr;
  bool in_order_;
};

struct Layer {
  Layer(int values, bool in_order)
      : smooth(values, in_order), sums(values / kThreads, in_order), out(values, in_order) {}
  Activation smooth, sums, out;
};

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "recompute_steps";
  if (argc < 3 || argc > 5) return 2;
  const auto count = static_cast<std::size_t>(std::atoi(argv[1]));
  const int steps = std::atoi(argv[2]);
  const std::string when = argc > 3 ? argv[3] : "used";
  const bool in_order = when == "async", frees_soon = in_order || when == "used", is_once = when == "once";
  const int values = argc > 4 ? std::atoi(argv[4]) * 64 : kCount, blocks = values / kThreads;
  Buffer input(values, "input"), gradient(values, "gradient");
  require(cudaMemset(gradient.get(), 0, gradient.bytes()), "cudaMemset");
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  float milliseconds = 0;
  std::vector<Layer> layers;
  for (int step = 0; step < steps; ++step) {
    const unsigned seed = static_cast<unsigned>(step) * 7919u;
    require(cudaEventRecord(begin), "event");
    while ((when == "all" || is_once) && layers.size() < count) layers.emplace_back(values, in_order);
    make_input<<<blocks, kThreads>>>(input.get(), values, seed);
    const float4* in = input.get();
    for (std::size_t i = 0; i < count; ++i) {
      if (i == layers.size()) layers.emplace_back(values, in_order);
      const Layer& layer = layers[i];
      stencil<<<blocks, kThreads>>>(in, layer.smooth.get(), values);
      sum_blocks<<<blocks, kThreads>>>(layer.smooth.get(), layer.sums.get());
      center_and_drop<<<blocks, kThreads>>>(layer.smooth.get(), layer.sums.get(), layer.out.get(), values, seed);
      relu<<<blocks, kThreads>>>(layer.out.get(), values);
      in = layer.out.get();
    }
    for (std::size_t i = count; i-- > 0;) {
      backward<<<blocks, kThreads>>>(layers[i].smooth.get(), layers[i].out.get(), gradient.get(), values);
      if (frees_soon) layers.pop_back();
    }
    // The inputs of the others are freed first.
    if (!is_once) layers.clear();
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "event");
    require(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  }
  std::vector<float4> host(static_cast<std::size_t>(values));
  require(cudaMemcpy(host.data(), gradient.get(), gradient.bytes(), cudaMemcpyDeviceToHost), "download");
  examples::Digest digest;
  digest.add(host.data(), gradient.bytes());
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
  std::fprintf(stderr, "the last step took %.3f ms\n", static_cast<double>(milliseconds));
}
