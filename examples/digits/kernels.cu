// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/kernels.h"

#include "examples/common/cuda_check.h"
#include "examples/common/host_twin.h"
#include "examples/digits/bodies.h"

using namespace digits;

EXAMPLES_KERNEL(digits_depthwise_forward, depthwise_forward_body,
                (int images, int inputs, const float* in, const float* taps, float* out),
                (images, inputs, in, taps, out))
EXAMPLES_KERNEL(digits_depthwise_backward, depthwise_backward_body,
                (int images, const float* gradient_out, const float* taps, const float* skip, float* gradient_in),
                (images, gradient_out, taps, skip, gradient_in))
EXAMPLES_KERNEL(digits_depthwise_weights, depthwise_weights_body,
                (int images, int inputs, const float* in, const float* gradient_out, float* partial),
                (images, inputs, in, gradient_out, partial))
EXAMPLES_KERNEL(digits_pointwise_forward, pointwise_forward_body,
                (int images, const float* in, const float* weights, float* out), (images, in, weights, out))
EXAMPLES_KERNEL(digits_pointwise_backward, pointwise_backward_body,
                (int images, const float* gradient_out, const float* weights, float* gradient_in),
                (images, gradient_out, weights, gradient_in))
EXAMPLES_KERNEL(digits_pointwise_weights, pointwise_weights_body,
                (int images, const float* in, const float* gradient_out, float* partial),
                (images, in, gradient_out, partial))
EXAMPLES_KERNEL(digits_relu_backward, relu_backward_body,
                (int images, const float* gradient_out, const float* activation, float* gradient_in),
                (images, gradient_out, activation, gradient_in))
EXAMPLES_KERNEL(digits_add, add_body, (int images, const float* a, const float* b, float* out), (images, a, b, out))
EXAMPLES_KERNEL(digits_classify, classify_body,
                (int images, const float* features, const float* weights, float* logits),
                (images, features, weights, logits))
EXAMPLES_KERNEL(digits_classify_backward, classify_backward_body,
                (int images, const float* gradient_logits, const float* weights, float* gradient_features),
                (images, gradient_logits, weights, gradient_features))
EXAMPLES_KERNEL(digits_classify_weights, classify_weights_body,
                (int images, const float* features, const float* gradient_logits, float* partial),
                (images, features, gradient_logits, partial))
EXAMPLES_KERNEL(digits_loss, loss_body,
                (int images, const float* logits, const int* labels, float* losses, int* correct, float* gradient),
                (images, logits, labels, losses, correct, gradient))
EXAMPLES_KERNEL(digits_adam_step, adam_step_body,
                (int count, const float* partial, float rate, float* mean, float* square, float* weight),
                (count, partial, rate, mean, square, weight))

namespace digits {
namespace {

// Launches a kernel with `threads` threads; a launch error ends the program.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), int threads, cudaStream_t stream, Arguments... arguments) {
  kernel<<<examples::blocks_for(threads), examples::kThreadsPerBlock, 0, stream>>>(arguments...);
  examples::require_launched(name);
}

constexpr int kRowsPerImage = kChannels * kSide;

}  // namespace

#define DIGITS_LAUNCH(kernel, threads, ...) launch(#kernel, kernel, threads, stream, __VA_ARGS__)

void depthwise_forward(int images, int inputs, const float* in, const float* taps, float* out, cudaStream_t stream) {
  DIGITS_LAUNCH(digits_depthwise_forward, images * kRowsPerImage, images, inputs, in, taps, out);
}

void depthwise_backward(int images, const float* gradient_out, const float* taps, const float* skip, float* gradient_in,
                        cudaStream_t stream) {
  DIGITS_LAUNCH(digits_depthwise_backward, images * kRowsPerImage, images, gradient_out, taps, skip, gradient_in);
}

void depthwise_weights(int images, int inputs, const float* in, const float* gradient_out, float* partial,
                       cudaStream_t stream) {
  DIGITS_LAUNCH(digits_depthwise_weights, kChunks * kChannels * kTaps, images, inputs, in, gradient_out, partial);
}

void pointwise_forward(int images, const float* in, const float* weights, float* out, cudaStream_t stream) {
  DIGITS_LAUNCH(digits_pointwise_forward, images * kRowsPerImage, images, in, weights, out);
}

void pointwise_backward(int images, const float* gradient_out, const float* weights, float* gradient_in,
                        cudaStream_t stream) {
  DIGITS_LAUNCH(digits_pointwise_backward, images * kRowsPerImage, images, gradient_out, weights, gradient_in);
}

void pointwise_weights(int images, const float* in, const float* gradient_out, float* partial, cudaStream_t stream) {
  DIGITS_LAUNCH(digits_pointwise_weights, kChunks * kChannels * kPointwiseInputs, images, in, gradient_out, partial);
}

void relu_backward(int images, const float* gradient_out, const float* activation, float* gradient_in,
                   cudaStream_t stream) {
  DIGITS_LAUNCH(digits_relu_backward, images * kRowsPerImage, images, gradient_out, activation, gradient_in);
}

void add(int images, const float* a, const float* b, float* out, cudaStream_t stream) {
  DIGITS_LAUNCH(digits_add, images * kRowsPerImage, images, a, b, out);
}

void classify(int images, const float* features, const float* weights, float* logits, cudaStream_t stream) {
  DIGITS_LAUNCH(digits_classify, images * kClasses, images, features, weights, logits);
}

void classify_backward(int images, const float* gradient_logits, const float* weights, float* gradient_features,
                       cudaStream_t stream) {
  DIGITS_LAUNCH(digits_classify_backward, images * kRowsPerImage, images, gradient_logits, weights, gradient_features);
}

void classify_weights(int images, const float* features, const float* gradient_logits, float* partial,
                      cudaStream_t stream) {
  DIGITS_LAUNCH(digits_classify_weights, kChunks * kClasses * kFeatures / kSide, images, features, gradient_logits,
                partial);
}

void loss(int images, const float* logits, const int* labels, float* losses, int* correct, float* gradient,
          cudaStream_t stream) {
  DIGITS_LAUNCH(digits_loss, images, images, logits, labels, losses, correct, gradient);
}

void adam_step(int count, const float* partial, float rate, float* mean, float* square, float* weight,
               cudaStream_t stream) {
  DIGITS_LAUNCH(digits_adam_step, count, count, partial, rate, mean, square, weight);
}

}  // namespace digits
