// SPDX-License-Identifier: Apache-2.0
// A residual network of depthwise separable convolutions on 8 by 8 images, trained with Adam.
//
//   a0 = relu(P0 D0 image)      ak = a(k-1) + relu(Pk Dk a(k-1))      logits = W a(last)
//
// D: 3 by 3 within each channel; P: across channels, with bias. The shape is chosen for demonstration. Each block keeps
// three activations of the whole batch for the backward pass but needs only nine plus seventeen multiplications per
// element. So it uses much memory for little arithmetic, and a host core trains it in seconds. With 512 images an
// activation is 2 MiB, a whole device page. No kernel uses more than four of them, so a third of the peak is far more
// than any one kernel needs.
//
// Activations are allocated in every forward pass and freed as the backward pass consumes them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "examples/common/device_buffer.h"

namespace digits {

inline constexpr int kBlocks = 10;

using Floats = examples::DeviceBuffer<float>;

struct Parameter {
  Floats weight;
  Floats mean;
  Floats square;
};

// Parameters of one block, and what its forward pass keeps for its backward pass.
struct Block {
  Parameter taps;
  Parameter mixing;
  Floats convolved;
  Floats rectified;
  Floats sum;
};

// Device memory of one batch.
struct Batch {
  const float* images;
  const int* labels;
  int count;
};

// Per image, on the device.
struct Verdict {
  float* losses;
  int* correct;
};

class Network {
 public:
  explicit Network(unsigned seed);

  // Forward and backward pass; the parameters are updated in stream order.
  void train(const Batch& batch, const Verdict& verdict, float rate, cudaStream_t stream);
  void judge(const Batch& batch, const Verdict& verdict, cudaStream_t stream);

  // The digest of all parameters, in order; waits for the device.
  std::uint64_t digest() const;

 private:
  // `keep`: what the backward pass needs stays allocated.
  Floats forward(const Batch& batch, bool keep, cudaStream_t stream);
  void backward(const Batch& batch, const Floats& gradient_logits, float rate, cudaStream_t stream);
  Floats backward_block(int index, const Batch& batch, Floats gradient, float rate, cudaStream_t stream);
  void step(Parameter& parameter, float rate, cudaStream_t stream);

  int steps_ = 0;
  std::vector<Block> blocks_;
  Parameter classifier_;
  Floats partial_;
};

}  // namespace digits
