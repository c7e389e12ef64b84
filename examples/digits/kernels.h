// SPDX-License-Identifier: Apache-2.0
// The kernels as the network launches them: arguments are device addresses; the stream is last. layout.h has layouts.
#pragma once

#include <cuda_runtime.h>

namespace digits {

void depthwise_forward(int images, int inputs, const float* in, const float* taps, float* out, cudaStream_t stream);
void depthwise_backward(int images, const float* gradient_out, const float* taps, const float* skip, float* gradient_in,
                        cudaStream_t stream);
void depthwise_weights(int images, int inputs, const float* in, const float* gradient_out, float* partial,
                       cudaStream_t stream);
void pointwise_forward(int images, const float* in, const float* weights, float* out, cudaStream_t stream);
void pointwise_backward(int images, const float* gradient_out, const float* weights, float* gradient_in,
                        cudaStream_t stream);
void pointwise_weights(int images, const float* in, const float* gradient_out, float* partial, cudaStream_t stream);
void relu_backward(int images, const float* gradient_out, const float* activation, float* gradient_in,
                   cudaStream_t stream);
void add(int images, const float* a, const float* b, float* out, cudaStream_t stream);
void classify(int images, const float* features, const float* weights, float* logits, cudaStream_t stream);
void classify_backward(int images, const float* gradient_logits, const float* weights, float* gradient_features,
                       cudaStream_t stream);
void classify_weights(int images, const float* features, const float* gradient_logits, float* partial,
                      cudaStream_t stream);
void loss(int images, const float* logits, const int* labels, float* losses, int* correct, float* gradient,
          cudaStream_t stream);
void adam_step(int count, const float* partial, float rate, float* mean, float* square, float* weight,
               cudaStream_t stream);

}  // namespace digits
