// SPDX-License-Identifier: Apache-2.0
// The network's kernels, and their launches.
//
// Images are 8 by 8. A thread computes one row of eight pixels of one channel of one image, so its sums are eight
// independent lanes, which stay in registers. Sums over a whole batch (weight gradients) are computed in two steps of
// fixed order: kChunks partial sums, then their sum; there are no atomics. So the same device always computes the same
// bits.
#include "examples/digits/kernels.h"

#include "examples/common/cuda_check.h"
#include "examples/common/grid.h"
#include "examples/digits/layout.h"

namespace digits {
namespace {

// The position of a thread: image, channel and row of pixels.
struct PixelRow {
  int image;
  int channel;
  int row;
};

__device__ PixelRow place_of(int thread) {
  return {thread / (kChannels * kSide), thread / kSide % kChannels, thread % kSide};
}

__device__ int offset_of(PixelRow place) {
  return ((place.image * kChannels + place.channel) * kSide + place.row) * kSide;
}

// The range of images of one partial sum.
__device__ int chunk_begin(int chunk, int images) { return chunk * images / kChunks; }

// The sum of eight lanes, always in this order.
__device__ float sum_of(const float* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// 3 by 3 over the row's neighborhood, added to `sum`; outside the plane are zeros. `direction` 1 reads the taps
// forward, -1 backward, which is the transposed operator.
__device__ void convolve_row(const float* plane, const float* taps, int row, int direction, float* sum) {
  const float* first = direction > 0 ? taps : taps + kTaps - 1;
  for (int dy = 0; dy < 3; ++dy) {
    if (row + dy < 1 || row + dy > kSide) continue;
    const float* line = plane + (row + dy - 1) * kSide;
    for (int dx = 0; dx < 3; ++dx) {
      const float tap = first[direction * (dy * 3 + dx)];
      for (int x = 0; x < kSide; ++x) {
        const int from = x + dx - 1;
        if (from >= 0 && from < kSide) sum[x] += tap * line[from];
      }
    }
  }
}

// The image has one channel at the network's input (inputs == 1) and kChannels after it.
__device__ const float* input_plane(const float* in, PixelRow place, int inputs) {
  return in + (place.image * inputs + (inputs == 1 ? 0 : place.channel)) * kPixels;
}

}  // namespace
}  // namespace digits

using namespace digits;

__global__ void digits_depthwise_forward(int images, int inputs, const float* in, const float* taps, float* out) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  const PixelRow place = place_of(thread);
  float sum[kSide] = {};
  convolve_row(input_plane(in, place, inputs), taps + place.channel * kTaps, place.row, 1, sum);
  for (int x = 0; x < kSide; ++x) out[offset_of(place) + x] = sum[x];
}

// gradient_in = skip + transposed convolution of gradient_out: the gradient around the block plus the one through it.
__global__ void digits_depthwise_backward(int images, const float* gradient_out, const float* taps, const float* skip,
                                          float* gradient_in) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  const PixelRow place = place_of(thread);
  float sum[kSide];
  for (int x = 0; x < kSide; ++x) sum[x] = skip[offset_of(place) + x];
  convolve_row(input_plane(gradient_out, place, kChannels), taps + place.channel * kTaps, place.row, -1, sum);
  for (int x = 0; x < kSide; ++x) gradient_in[offset_of(place) + x] = sum[x];
}

// partial[chunk][channel][tap]
__global__ void digits_depthwise_weights(int images, int inputs, const float* in, const float* gradient_out,
                                         float* partial) {
  const int thread = examples::thread_index();
  if (thread >= kChunks * kChannels * kTaps) return;
  const int chunk = thread / (kChannels * kTaps);
  const int channel = thread / kTaps % kChannels;
  const int dy = thread % kTaps / 3;
  const int dx = thread % kTaps % 3;
  float lane[kSide] = {};
  for (int image = chunk_begin(chunk, images); image < chunk_begin(chunk + 1, images); ++image) {
    const float* plane = input_plane(in, {image, channel, 0}, inputs);
    const float* gradient = gradient_out + (image * kChannels + channel) * kPixels;
    for (int row = 0; row < kSide; ++row) {
      if (row + dy < 1 || row + dy > kSide) continue;
      const float* from = plane + (row + dy - 1) * kSide + dx - 1;
      if (dx > 0) lane[0] += gradient[row * kSide] * from[0];
      for (int x = 1; x < kSide - 1; ++x) lane[x] += gradient[row * kSide + x] * from[x];
      if (dx < 2) lane[kSide - 1] += gradient[row * kSide + kSide - 1] * from[kSide - 1];
    }
  }
  partial[thread] = sum_of(lane);
}

// out = relu(weights * in + bias), separately for each pixel
__global__ void digits_pointwise_forward(int images, const float* in, const float* weights, float* out) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  const PixelRow place = place_of(thread);
  const float* weight = weights + place.channel * kPointwiseInputs;
  float sum[kSide];
  for (int x = 0; x < kSide; ++x) sum[x] = weight[kChannels];
  for (int from = 0; from < kChannels; ++from) {
    const float* line = in + offset_of({place.image, from, place.row});
    for (int x = 0; x < kSide; ++x) sum[x] += weight[from] * line[x];
  }
  for (int x = 0; x < kSide; ++x) out[offset_of(place) + x] = sum[x] > 0.0f ? sum[x] : 0.0f;
}

__global__ void digits_pointwise_backward(int images, const float* gradient_out, const float* weights,
                                          float* gradient_in) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  const PixelRow place = place_of(thread);
  float sum[kSide] = {};
  for (int to = 0; to < kChannels; ++to) {
    const float weight = weights[to * kPointwiseInputs + place.channel];
    const float* line = gradient_out + offset_of({place.image, to, place.row});
    for (int x = 0; x < kSide; ++x) sum[x] += weight * line[x];
  }
  for (int x = 0; x < kSide; ++x) gradient_in[offset_of(place) + x] = sum[x];
}

// partial[chunk][out][in + bias]
__global__ void digits_pointwise_weights(int images, const float* in, const float* gradient_out, float* partial) {
  const int thread = examples::thread_index();
  if (thread >= kChunks * kChannels * kPointwiseInputs) return;
  const int chunk = thread / (kChannels * kPointwiseInputs);
  const int to = thread / kPointwiseInputs % kChannels;
  const int from = thread % kPointwiseInputs;
  float lane[kSide] = {};
  for (int image = chunk_begin(chunk, images); image < chunk_begin(chunk + 1, images); ++image) {
    const float* gradient = gradient_out + (image * kChannels + to) * kPixels;
    if (from == kChannels) {
      for (int pixel = 0; pixel < kPixels; ++pixel) lane[pixel % kSide] += gradient[pixel];
      continue;
    }
    const float* plane = in + (image * kChannels + from) * kPixels;
    for (int pixel = 0; pixel < kPixels; ++pixel) lane[pixel % kSide] += gradient[pixel] * plane[pixel];
  }
  partial[thread] = sum_of(lane);
}

// The gradient where relu was not zero.
__global__ void digits_relu_backward(int images, const float* gradient_out, const float* activation,
                                     float* gradient_in) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  for (int i = thread * kSide; i < (thread + 1) * kSide; ++i)
    gradient_in[i] = activation[i] > 0.0f ? gradient_out[i] : 0.0f;
}

__global__ void digits_add(int images, const float* a, const float* b, float* out) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  for (int i = thread * kSide; i < (thread + 1) * kSide; ++i) out[i] = a[i] + b[i];
}

// logits[image][class]; weights [class][feature]
__global__ void digits_classify(int images, const float* features, const float* weights, float* logits) {
  const int thread = examples::thread_index();
  if (thread >= images * kClasses) return;
  const float* feature = features + thread / kClasses * kFeatures;
  const float* weight = weights + thread % kClasses * kFeatures;
  float lane[kSide] = {};
  for (int i = 0; i < kFeatures; i += kSide) {
    for (int x = 0; x < kSide; ++x) lane[x] += feature[i + x] * weight[i + x];
  }
  logits[thread] = kFeatureScale * sum_of(lane);
}

__global__ void digits_classify_backward(int images, const float* gradient_logits, const float* weights,
                                         float* gradient_features) {
  const int thread = examples::thread_index();
  if (thread >= images * kChannels * kSide) return;
  const int image = thread / (kChannels * kSide);
  const int feature = thread % (kChannels * kSide) * kSide;
  float sum[kSide] = {};
  for (int label = 0; label < kClasses; ++label) {
    const float gradient = kFeatureScale * gradient_logits[image * kClasses + label];
    for (int x = 0; x < kSide; ++x) sum[x] += gradient * weights[label * kFeatures + feature + x];
  }
  for (int x = 0; x < kSide; ++x) gradient_features[thread * kSide + x] = sum[x];
}

// partial[chunk][class][feature], eight features a thread
__global__ void digits_classify_weights(int images, const float* features, const float* gradient_logits,
                                        float* partial) {
  const int thread = examples::thread_index();
  constexpr int kRows = kFeatures / kSide;
  if (thread >= kChunks * kClasses * kRows) return;
  const int chunk = thread / (kClasses * kRows);
  const int label = thread / kRows % kClasses;
  const int feature = thread % kRows * kSide;
  float sum[kSide] = {};
  for (int image = chunk_begin(chunk, images); image < chunk_begin(chunk + 1, images); ++image) {
    const float gradient = kFeatureScale * gradient_logits[image * kClasses + label];
    for (int x = 0; x < kSide; ++x) sum[x] += gradient * features[image * kFeatures + feature + x];
  }
  for (int x = 0; x < kSide; ++x) partial[thread * kSide + x] = sum[x];
}

// Cross entropy of softmax; its gradient, divided by the number of images; and whether the prediction is right.
__global__ void digits_loss(int images, const float* logits, const int* labels, float* loss, int* correct,
                            float* gradient) {
  const int thread = examples::thread_index();
  if (thread >= images) return;
  const float* logit = logits + thread * kClasses;
  int best = 0;
  for (int label = 1; label < kClasses; ++label) {
    if (logit[label] > logit[best]) best = label;
  }
  float power[kClasses];
  float total = 0.0f;
  for (int label = 0; label < kClasses; ++label) {
    power[label] = expf(logit[label] - logit[best]);
    total += power[label];
  }
  const int truth = labels[thread];
  loss[thread] = logf(total) - (logit[truth] - logit[best]);
  correct[thread] = best == truth ? 1 : 0;
  for (int label = 0; label < kClasses; ++label) {
    const float target = label == truth ? 1.0f : 0.0f;
    gradient[thread * kClasses + label] = (power[label] / total - target) / static_cast<float>(images);
  }
}

// One step of Adam (D. Kingma, J. Ba, 2015), after the partial sums have been added in order. `rate` holds the
// corrections for the number of steps.
__global__ void digits_adam_step(int count, const float* partial, float rate, float* mean, float* square,
                                 float* weight) {
  const int thread = examples::thread_index();
  if (thread >= count) return;
  constexpr float kMeanDecay = 0.9f;
  constexpr float kSquareDecay = 0.99f;
  constexpr float kSmallest = 1e-7f;
  float gradient = 0.0f;
  for (int chunk = 0; chunk < kChunks; ++chunk) gradient += partial[chunk * count + thread];
  mean[thread] = kMeanDecay * mean[thread] + (1.0f - kMeanDecay) * gradient;
  square[thread] = kSquareDecay * square[thread] + (1.0f - kSquareDecay) * gradient * gradient;
  weight[thread] -= rate * mean[thread] / (sqrtf(square[thread]) + kSmallest);
}

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
