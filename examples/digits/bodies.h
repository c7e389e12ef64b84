// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the network, one function per kernel, for GPU and host alike (see common/host_twin.h).
//
// Images are 8 by 8. A thread computes one row of eight pixels of one channel of one image, so its sums are eight
// independent lanes: a GPU keeps them in registers, a host compiler in vectors, and neither may change the order of
// additions. Sums over a whole batch (weight gradients) are computed in two steps of fixed order: kChunks partial sums,
// then their sum; there are no atomics. So the same device always computes the same bits.
#pragma once

#include "examples/digits/layout.h"

namespace digits {

#define DIGITS_BODY __host__ __device__ inline

// The position of a thread: image, channel and row of pixels.
struct PixelRow {
  int image;
  int channel;
  int row;
};

DIGITS_BODY PixelRow place_of(int thread) {
  return {thread / (kChannels * kSide), thread / kSide % kChannels, thread % kSide};
}

DIGITS_BODY int offset_of(PixelRow place) {
  return ((place.image * kChannels + place.channel) * kSide + place.row) * kSide;
}

// The range of images of one partial sum.
DIGITS_BODY int chunk_begin(int chunk, int images) { return chunk * images / kChunks; }

// The sum of eight lanes, always in this order.
DIGITS_BODY float sum_of(const float* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// Row `row` of the plane between zero columns; rows outside the plane are zero.
DIGITS_BODY void load_padded(const float* plane, int row, float* line) {
  line[0] = 0.0f;
  line[kSide + 1] = 0.0f;
  for (int x = 0; x < kSide; ++x) line[x + 1] = row >= 0 && row < kSide ? plane[row * kSide + x] : 0.0f;
}

// 3 by 3 over the row's neighbourhood. `direction` 1 reads the taps forward, -1 backward, which is the transposed
// operator.
DIGITS_BODY void convolve_row(const float* plane, const float* taps, int row, int direction, float* sum) {
  const float* first = direction > 0 ? taps : taps + kTaps - 1;
  for (int dy = 0; dy < 3; ++dy) {
    float line[kSide + 2];
    load_padded(plane, row + dy - 1, line);
    for (int dx = 0; dx < 3; ++dx) {
      const float tap = first[direction * (dy * 3 + dx)];
      for (int x = 0; x < kSide; ++x) sum[x] += tap * line[x + dx];
    }
  }
}

// The image has one channel at the network's input (inputs == 1) and kChannels after it.
DIGITS_BODY const float* input_plane(const float* in, PixelRow place, int inputs) {
  return in + (place.image * inputs + (inputs == 1 ? 0 : place.channel)) * kPixels;
}

DIGITS_BODY void depthwise_forward_body(int thread, int images, int inputs, const float* in, const float* taps,
                                        float* out) {
  if (thread >= images * kChannels * kSide) return;
  const PixelRow place = place_of(thread);
  float sum[kSide] = {};
  convolve_row(input_plane(in, place, inputs), taps + place.channel * kTaps, place.row, 1, sum);
  for (int x = 0; x < kSide; ++x) out[offset_of(place) + x] = sum[x];
}

// gradient_in = skip + transposed convolution of gradient_out: the gradient around the block plus the one through it.
DIGITS_BODY void depthwise_backward_body(int thread, int images, const float* gradient_out, const float* taps,
                                         const float* skip, float* gradient_in) {
  if (thread >= images * kChannels * kSide) return;
  const PixelRow place = place_of(thread);
  float sum[kSide];
  for (int x = 0; x < kSide; ++x) sum[x] = skip[offset_of(place) + x];
  convolve_row(input_plane(gradient_out, place, kChannels), taps + place.channel * kTaps, place.row, -1, sum);
  for (int x = 0; x < kSide; ++x) gradient_in[offset_of(place) + x] = sum[x];
}

// partial[chunk][channel][tap]
DIGITS_BODY void depthwise_weights_body(int thread, int images, int inputs, const float* in, const float* gradient_out,
                                        float* partial) {
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
      float line[kSide + 2];
      load_padded(plane, row + dy - 1, line);
      for (int x = 0; x < kSide; ++x) lane[x] += gradient[row * kSide + x] * line[x + dx];
    }
  }
  partial[thread] = sum_of(lane);
}

// out = relu(weights * in + bias), separately for each pixel
DIGITS_BODY void pointwise_forward_body(int thread, int images, const float* in, const float* weights, float* out) {
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

DIGITS_BODY void pointwise_backward_body(int thread, int images, const float* gradient_out, const float* weights,
                                         float* gradient_in) {
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
DIGITS_BODY void pointwise_weights_body(int thread, int images, const float* in, const float* gradient_out,
                                        float* partial) {
  if (thread >= kChunks * kChannels * kPointwiseInputs) return;
  const int chunk = thread / (kChannels * kPointwiseInputs);
  const int to = thread / kPointwiseInputs % kChannels;
  const int from = thread % kPointwiseInputs;
  float lane[kSide] = {};
  for (int image = chunk_begin(chunk, images); image < chunk_begin(chunk + 1, images); ++image) {
    const float* gradient = gradient_out + (image * kChannels + to) * kPixels;
    const float* plane = in + (image * kChannels + from) * kPixels;
    for (int pixel = 0; pixel < kPixels; pixel += kSide) {
      for (int x = 0; x < kSide; ++x)
        lane[x] += from == kChannels ? gradient[pixel + x] : gradient[pixel + x] * plane[pixel + x];
    }
  }
  partial[thread] = sum_of(lane);
}

// The gradient where relu was not zero.
DIGITS_BODY void relu_backward_body(int thread, int images, const float* gradient_out, const float* activation,
                                    float* gradient_in) {
  if (thread >= images * kChannels * kSide) return;
  for (int i = thread * kSide; i < (thread + 1) * kSide; ++i)
    gradient_in[i] = activation[i] > 0.0f ? gradient_out[i] : 0.0f;
}

DIGITS_BODY void add_body(int thread, int images, const float* a, const float* b, float* out) {
  if (thread >= images * kChannels * kSide) return;
  for (int i = thread * kSide; i < (thread + 1) * kSide; ++i) out[i] = a[i] + b[i];
}

// logits[image][class]; weights [class][feature]
DIGITS_BODY void classify_body(int thread, int images, const float* features, const float* weights, float* logits) {
  if (thread >= images * kClasses) return;
  const float* feature = features + thread / kClasses * kFeatures;
  const float* weight = weights + thread % kClasses * kFeatures;
  float lane[kSide] = {};
  for (int i = 0; i < kFeatures; i += kSide) {
    for (int x = 0; x < kSide; ++x) lane[x] += feature[i + x] * weight[i + x];
  }
  logits[thread] = kFeatureScale * sum_of(lane);
}

DIGITS_BODY void classify_backward_body(int thread, int images, const float* gradient_logits, const float* weights,
                                        float* gradient_features) {
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
DIGITS_BODY void classify_weights_body(int thread, int images, const float* features, const float* gradient_logits,
                                       float* partial) {
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
DIGITS_BODY void loss_body(int thread, int images, const float* logits, const int* labels, float* loss, int* correct,
                           float* gradient) {
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
DIGITS_BODY void adam_step_body(int thread, int count, const float* partial, float rate, float* mean, float* square,
                                float* weight) {
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

#undef DIGITS_BODY

}  // namespace digits
