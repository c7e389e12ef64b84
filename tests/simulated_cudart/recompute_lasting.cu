// SPDX-License-Identifier: Apache-2.0
// Training steps of a program that allocates its buffers once and uses them in every step: what a step leaves in them is
// overwritten in the next. Weights are updated in place, small sums by a kernel that never runs again, ReLU is in place.
//
//   recompute_lasting LAYERS STEPS [TRAP]
//     carried   each step reads first what the step before has left in the activations of one layer
//     left      the first step behind each fourth reads what that has left in all activations
//     short     each fifth step ends behind the forward pass
//     host      a host function in each step
//     uploads   instead: each layer's content is made of an input of its own, uploaded to the same place, and read behind
//     others    instead: each is made by the kernel that never runs again
//     late      from step 14 on, what a kernel makes depends on how often it has run (with THERMOCLINE_TEST_PROVEN=late)
// Prints a digest of the weights and the gradient, and one of what the last step has left in each activation.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "examples/common/digest.h"
#include "tests/simulated_cudart/recompute_layers.h"

namespace {

using namespace layers;

__global__ void stencil(const float4* in, const float4* weights, float4* out, int count) {
  const int i = own();
  if (i < count) out[i] = sum(in[i], weights[0].x, in[i > 0 ? i - 1 : i], weights[0].y);
}
// The same, until it is told to count.
__device__ unsigned runs[kCount];
__global__ void late_stencil(const float4* in, const float4* weights, float4* out, int count, bool counts) {
  const int i = own();
  if (i >= count) return;
  out[i] = sum(in[i], weights[0].x, in[i > 0 ? i - 1 : i], weights[0].y);
  if (counts) out[i].w = static_cast<float>(++runs[i]);
}
__global__ void center(const float4* in, const float4* sums, float4* out, int count) {
  const int i = own();
  if (i < count) out[i] = sum(in[i], 1.5f, sums[i / kThreads], -1.0f / kThreads);
}
// Its threads are counted by atomic operations: it never runs again.
__global__ void turn_blocks(const float4* in, float4* out) {
  __shared__ float4 all[kThreads];
  __shared__ unsigned threads;
  if (threadIdx.x == 0) threads = 0;
  __syncthreads();
  all[threadIdx.x] = in[own()];
  atomicAdd(&threads, 1u);
  __syncthreads();
  out[own()] = all[threads - 1 - threadIdx.x];
}
__global__ void descend(float4* weights, const float4* gradient) {
  weights[threadIdx.x] = sum(weights[threadIdx.x], 0.99f, gradient[threadIdx.x], 0.001f);
}

struct Layer {
  Buffer weights{1, "weights"}, smooth{kCount, "smooth"}, sums{kBlocks, "sums"}, out{kCount, "out"};
};

std::vector<float4> download(const Buffer& from, int count) {
  std::vector<float4> values(static_cast<std::size_t>(count));
  require(cudaMemcpy(values.data(), from.get(), from.bytes(), cudaMemcpyDeviceToHost), "download");
  return values;
}

class Network {
 public:
  explicit Network(int layers) : layers_(static_cast<std::size_t>(layers)) {
    require(cudaMemset(gradient_.get(), 0, gradient_.bytes()), "cudaMemset");
    const float4 weights{0.5f, 0.5f, 0.25f, 0.25f};
    for (const Layer& layer : layers_) {
      require(cudaMemset(layer.smooth.get(), 0, layer.smooth.bytes()), "cudaMemset");
      require(cudaMemset(layer.out.get(), 0, layer.out.bytes()), "cudaMemset");
      require(cudaMemcpy(layer.weights.get(), &weights, sizeof weights, cudaMemcpyHostToDevice), "upload");
    }
  }

  void step(unsigned step, const std::string& trap) {
    const Layer& middle = layers_[layers_.size() / 2];
    if (trap == "carried") read(middle);
    if (trap == "left" && step % 4 == 0) {
      for (const Layer& layer : layers_) read(layer);
    }
    make_input<<<kBlocks, kThreads>>>(input_.get(), kCount, step * 7919u);
    const float4* in = input_.get();
    for (const Layer& layer : layers_) {
      if (trap == "late") {
        late_stencil<<<kBlocks, kThreads>>>(in, layer.weights.get(), layer.smooth.get(), kCount, step >= 14);
      } else {
        stencil<<<kBlocks, kThreads>>>(in, layer.weights.get(), layer.smooth.get(), kCount);
      }
      sum_blocks<<<kBlocks, kThreads>>>(layer.smooth.get(), layer.sums.get());
      center<<<kBlocks, kThreads>>>(layer.smooth.get(), layer.sums.get(), layer.out.get(), kCount);
      relu<<<kBlocks, kThreads>>>(layer.out.get(), kCount);
      in = layer.out.get();
    }
    if (trap == "short" && step % 5 == 4) return;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      read(layers_[i]);
      descend<<<1, 1>>>(layers_[i].weights.get(), gradient_.get());
    }
  }

  // The layers' contents cannot be recomputed. The input of the next step comes before this one's are read.
  void unrelated_layers(unsigned step, bool by_uploads) {
    const std::vector<float4> values(kCount, float4{static_cast<float>(step), 1, 2, 3});
    const auto upload = [&] {
      require(cudaMemcpy(input_.get(), values.data(), input_.bytes(), cudaMemcpyHostToDevice), "upload");
    };
    for (const Layer& layer : layers_) {
      if (by_uploads) {
        upload();
        stencil<<<kBlocks, kThreads>>>(input_.get(), layer.weights.get(), layer.smooth.get(), kCount);
        stencil<<<kBlocks, kThreads>>>(input_.get(), layer.weights.get(), layer.out.get(), kCount);
      } else {
        turn_blocks<<<kBlocks, kThreads>>>(input_.get(), layer.smooth.get());
        turn_blocks<<<kBlocks, kThreads>>>(input_.get(), layer.out.get());
      }
    }
    if (by_uploads) upload();
    for (std::size_t i = layers_.size(); i-- > 0;) read(layers_[i]);
  }

  void print() const {
    examples::Digest digest;
    digest.add(download(gradient_, kCount).data(), gradient_.bytes());
    for (const Layer& layer : layers_) digest.add(download(layer.weights, 1).data(), layer.weights.bytes());
    std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
    // Nothing in a step reads these behind their last use in it.
    for (const Layer& layer : layers_) {
      examples::Digest left;
      left.add(download(layer.smooth, kCount).data(), layer.smooth.bytes());
      left.add(download(layer.out, kCount).data(), layer.out.bytes());
      std::printf("left %016llx\n", static_cast<unsigned long long>(left.value()));
    }
  }

 private:
  void read(const Layer& layer) {
    backward<<<kBlocks, kThreads>>>(layer.smooth.get(), layer.out.get(), gradient_.get(), kCount);
  }

  Buffer input_{kCount, "input"}, gradient_{kCount, "gradient"};
  std::vector<Layer> layers_;
};

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "recompute_lasting";
  if (argc < 3) return 2;
  Network network(std::atoi(argv[1]));
  const int steps = std::atoi(argv[2]);
  const std::string trap = argc > 3 ? argv[3] : "";
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  float milliseconds = 0;
  for (int step = 0; step < steps; ++step) {
    require(cudaEventRecord(begin), "event");
    if (trap == "uploads" || trap == "others") {
      network.unrelated_layers(static_cast<unsigned>(step), trap == "uploads");
    } else {
      network.step(static_cast<unsigned>(step), trap);
    }
    if (trap == "host")
      require(cudaLaunchHostFunc(
                  nullptr, [](void*) {}, nullptr),
              "a host function");
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "event");
    require(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  }
  network.print();
  std::fprintf(stderr, "the last step took %.3f ms\n", static_cast<double>(milliseconds));
}
