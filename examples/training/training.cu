// SPDX-License-Identifier: Apache-2.0
// Trains a small convolutional network on made-up images: depthwise convolutions, batch normalization, dropout whose random
// numbers come from a seed, ReLU in place, and gradient descent. What the forward pass leaves for the backward pass is
// nearly all of its memory.
//
//   training [LAYERS [IMAGES [STEPS]]]    default: 8 layers, 32 images of 16 x 64 x 64 (8 MiB an activation), 10 steps
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/common/device_buffer.h"
#include "examples/common/digest.h"

namespace {

using Buffer = examples::DeviceBuffer<float>;
using examples::require;

constexpr int kChannels = 16, kSide = 64, kPlane = kSide * kSide, kTaps = 9;
constexpr int kThreads = 256;

__device__ unsigned mixed(unsigned value) {
  value = (value ^ (value >> 16)) * 0x45d9f3bu;
  value = (value ^ (value >> 16)) * 0x45d9f3bu;
  return value ^ (value >> 16);
}
__device__ bool is_kept(unsigned i, unsigned seed) { return (mixed(i ^ seed) & 3) != 0; }
__device__ int channel_of(int i) { return i / kPlane % kChannels; }

__global__ void make_images(float* out, int count, unsigned seed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  out[i] = static_cast<float>(mixed(static_cast<unsigned>(i) ^ seed) & 0xffff) / 65536.0f - 0.5f;
}

__global__ void convolve(const float* in, const float* weights, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const int x = i % kSide, y = i / kSide % kSide, channel = channel_of(i);
  float sum = 0;
  for (int tap = 0; tap < kTaps; ++tap) {
    const int from_x = x + tap % 3 - 1, from_y = y + tap / 3 - 1;
    if (from_x < 0 || from_x >= kSide || from_y < 0 || from_y >= kSide) continue;
    sum += in[i + (tap / 3 - 1) * kSide + tap % 3 - 1] * weights[channel * kTaps + tap];
  }
  out[i] = sum;
}

// Sums over a block of threads, in a fixed order.
__device__ float sum_of_block(float value) {
  __shared__ float sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  const float sum = sums[0];
  __syncthreads();
  return sum;
}

// One block for each channel.
__global__ void find_moments(const float* in, float* moments, int images) {
  const int channel = static_cast<int>(blockIdx.x);
  float sum = 0, squares = 0;
  for (int image = 0; image < images; ++image) {
    for (int i = static_cast<int>(threadIdx.x); i < kPlane; i += kThreads) {
      const float value = in[(image * kChannels + channel) * kPlane + i];
      sum += value;
      squares += value * value;
    }
  }
  sum = sum_of_block(sum);
  squares = sum_of_block(squares);
  if (threadIdx.x != 0) return;
  const float mean = sum / static_cast<float>(images * kPlane);
  moments[channel] = mean;
  moments[kChannels + channel] = rsqrtf(squares / static_cast<float>(images * kPlane) - mean * mean + 1e-5f);
}

__global__ void normalize_and_drop(const float* in, const float* moments, const float* scale, float* out, int count,
                                   unsigned seed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const int channel = channel_of(i);
  const float value = (in[i] - moments[channel]) * moments[kChannels + channel] * scale[channel] + 0.1f;
  out[i] = is_kept(static_cast<unsigned>(i), seed) ? value * (4.0f / 3.0f) : 0.0f;
}

__global__ void relu(float* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] = fmaxf(values[i], 0.0f);
}

__global__ void begin_backward(const float* out, float* gradient, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) gradient[i] = (out[i] - 0.25f) / static_cast<float>(count);
}

// Through ReLU and dropout, in place.
__global__ void relu_and_drop_backward(const float* out, float* gradient, int count, unsigned seed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const bool passes = out[i] > 0 && is_kept(static_cast<unsigned>(i), seed);
  gradient[i] = passes ? gradient[i] * (4.0f / 3.0f) : 0.0f;
}

__global__ void sum_gradients(const float* in, const float* moments, const float* gradient, float* sums, int images) {
  const int channel = static_cast<int>(blockIdx.x);
  float sum = 0, product = 0;
  for (int image = 0; image < images; ++image) {
    for (int i = static_cast<int>(threadIdx.x); i < kPlane; i += kThreads) {
      const int at = (image * kChannels + channel) * kPlane + i;
      sum += gradient[at];
      product += gradient[at] * (in[at] - moments[channel]) * moments[kChannels + channel];
    }
  }
  sum = sum_of_block(sum);
  product = sum_of_block(product);
  if (threadIdx.x != 0) return;
  sums[channel] = sum;
  sums[kChannels + channel] = product;
}

__global__ void normalize_backward(const float* in, const float* moments, const float* scale, const float* sums,
                                   float* gradient, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const int channel = channel_of(i);
  const float per_channel = static_cast<float>(count / kChannels);
  const float normal = (in[i] - moments[channel]) * moments[kChannels + channel];
  gradient[i] = scale[channel] * moments[kChannels + channel] *
                (gradient[i] - sums[channel] / per_channel - normal * sums[kChannels + channel] / per_channel);
}

__global__ void convolve_backward(const float* gradient, const float* weights, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const int x = i % kSide, y = i / kSide % kSide, channel = channel_of(i);
  float sum = 0;
  for (int tap = 0; tap < kTaps; ++tap) {
    const int to_x = x - (tap % 3 - 1), to_y = y - (tap / 3 - 1);
    if (to_x < 0 || to_x >= kSide || to_y < 0 || to_y >= kSide) continue;
    sum += gradient[i - (tap / 3 - 1) * kSide - (tap % 3 - 1)] * weights[channel * kTaps + tap];
  }
  out[i] = sum;
}

// One block for each weight.
__global__ void find_weight_gradients(const float* in, const float* gradient, float* out, int images) {
  const int channel = static_cast<int>(blockIdx.x) / kTaps, tap = static_cast<int>(blockIdx.x) % kTaps;
  float sum = 0;
  for (int image = 0; image < images; ++image) {
    for (int i = static_cast<int>(threadIdx.x); i < kPlane; i += kThreads) {
      const int x = i % kSide + tap % 3 - 1, y = i / kSide + tap / 3 - 1;
      if (x < 0 || x >= kSide || y < 0 || y >= kSide) continue;
      const int plane = (image * kChannels + channel) * kPlane;
      sum += in[plane + y * kSide + x] * gradient[plane + i];
    }
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void descend(float* values, const float* gradient, int count, float rate) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] -= rate * gradient[i];
}

int number(int argc, char** argv, int place, int otherwise) {
  if (argc <= place) return otherwise;
  const int given = std::atoi(argv[place]);
  if (given > 0) return given;
  std::fprintf(stderr, "training: '%s' is not a number above 0\n", argv[place]);
  std::exit(2);
}

struct Layer {
  Buffer weights, scale, convolved, moments, out;
};

class Network {
 public:
  Network(int layers, int images)
      : images_(images),
        count_(images * kChannels * kPlane),
        in_(size(), "images"),
        gradient_(size(), "gradient"),
        other_gradient_(size(), "gradient"),
        sums_(2 * kChannels, "sums"),
        step_(kChannels * kTaps, "step") {
    for (int i = 0; i < layers; ++i) {
      layers_.push_back({Buffer(kChannels * kTaps, "weights"), Buffer(kChannels, "scale"), Buffer(size(), "convolved"),
                         Buffer(2 * kChannels, "moments"), Buffer(size(), "activation")});
      std::vector<float> weights(kChannels * kTaps), scale(kChannels, 1.0f);
      for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = static_cast<float>((k * 7 + i) % 11) / 11.0f - 0.4f;
      upload(layers_.back().weights, weights);
      upload(layers_.back().scale, scale);
    }
  }

  void step(unsigned seed) {
    make_images<<<blocks(), kThreads>>>(in_.get(), count_, seed);
    const float* in = in_.get();
    for (Layer& layer : layers_) {
      convolve<<<blocks(), kThreads>>>(in, layer.weights.get(), layer.convolved.get(), count_);
      find_moments<<<kChannels, kThreads>>>(layer.convolved.get(), layer.moments.get(), images_);
      normalize_and_drop<<<blocks(), kThreads>>>(layer.convolved.get(), layer.moments.get(), layer.scale.get(),
                                                 layer.out.get(), count_, seed);
      relu<<<blocks(), kThreads>>>(layer.out.get(), count_);
      in = layer.out.get();
    }
    begin_backward<<<blocks(), kThreads>>>(in, gradient_.get(), count_);
    for (std::size_t i = layers_.size(); i-- > 0;) backward(layers_[i], i > 0 ? layers_[i - 1].out : in_, seed);
    examples::require_launched("a step");
  }

  void add_to(examples::Digest* digest) const {
    std::vector<float> weights(kChannels * kTaps);
    for (const Layer& layer : layers_) {
      require(cudaMemcpy(weights.data(), layer.weights.get(), layer.weights.bytes(), cudaMemcpyDeviceToHost),
              "download");
      digest->add(weights.data(), layer.weights.bytes());
    }
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(count_); }
  unsigned blocks() const { return static_cast<unsigned>((count_ + kThreads - 1) / kThreads); }
  static void upload(const Buffer& to, const std::vector<float>& from) {
    require(cudaMemcpy(to.get(), from.data(), to.bytes(), cudaMemcpyHostToDevice), "upload");
  }

  void backward(Layer& layer, const Buffer& in, unsigned seed) {
    relu_and_drop_backward<<<blocks(), kThreads>>>(layer.out.get(), gradient_.get(), count_, seed);
    sum_gradients<<<kChannels, kThreads>>>(layer.convolved.get(), layer.moments.get(), gradient_.get(), sums_.get(),
                                           images_);
    normalize_backward<<<blocks(), kThreads>>>(layer.convolved.get(), layer.moments.get(), layer.scale.get(),
                                               sums_.get(), gradient_.get(), count_);
    descend<<<1, kThreads>>>(layer.scale.get(), sums_.get() + kChannels, kChannels, 0.1f);
    find_weight_gradients<<<kChannels * kTaps, kThreads>>>(in.get(), gradient_.get(), step_.get(), images_);
    convolve_backward<<<blocks(), kThreads>>>(gradient_.get(), layer.weights.get(), other_gradient_.get(), count_);
    descend<<<1, kThreads>>>(layer.weights.get(), step_.get(), kChannels * kTaps, 0.1f);
    std::swap(gradient_, other_gradient_);
  }

  int images_, count_;
  Buffer in_, gradient_, other_gradient_, sums_, step_;
  std::vector<Layer> layers_;
};

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "training";
  const int layers = number(argc, argv, 1, 8), images = number(argc, argv, 2, 32), steps = number(argc, argv, 3, 10);
  Network network(layers, images);
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  float milliseconds = 0;
  for (int step = 0; step < steps; ++step) {
    require(cudaEventRecord(begin), "event");
    network.step(static_cast<unsigned>(step) * 7919u);
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "event");
    require(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  }
  require(cudaEventDestroy(begin), "event");
  require(cudaEventDestroy(end), "event");
  examples::Digest digest;
  network.add_to(&digest);
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
  std::fprintf(stderr, "training: the last step took %.3f ms\n", static_cast<double>(milliseconds));
}
