// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/network.h"

#include <cmath>
#include <utility>

#include "examples/common/digest.h"
#include "examples/digits/kernels.h"
#include "examples/digits/layout.h"

namespace digits {
namespace {

using examples::require;

// Uniform numbers around zero, the same on every machine (linear congruential, Knuth's MMIX constants).
class Uniform {
 public:
  explicit Uniform(unsigned seed) : state_(seed) {}

  float draw(float radius) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (static_cast<float>(state_ >> 40) / static_cast<float>(1 << 23) - 1.0f) * radius;
  }

 private:
  unsigned long long state_;
};

Parameter make_parameter(const std::vector<float>& values) {
  Parameter parameter = {Floats(values.size(), "weights"), Floats(values.size(), "means"),
                         Floats(values.size(), "squares")};
  require(cudaMemcpy(parameter.weight.get(), values.data(), parameter.weight.bytes(), cudaMemcpyHostToDevice),
          "upload of weights");
  require(cudaMemset(parameter.mean.get(), 0, parameter.mean.bytes()), "clearing of means");
  require(cudaMemset(parameter.square.get(), 0, parameter.square.bytes()), "clearing of squares");
  return parameter;
}

// A uniform distribution with variance 1 / inputs keeps the size of signals; relu halves it, hence the 2 below.
std::vector<float> draw_taps(Uniform& uniform) {
  std::vector<float> taps(kChannels * kTaps);
  for (float& tap : taps) tap = uniform.draw(std::sqrt(3.0f / kTaps));
  return taps;
}

// The sum of many blocks must not grow too far beyond the network's input: each block after the first is scaled down.
std::vector<float> draw_mixing(Uniform& uniform, float scale) {
  std::vector<float> mixing(kChannels * kPointwiseInputs, 0.0f);
  for (int to = 0; to < kChannels; ++to) {
    for (int from = 0; from < kChannels; ++from)
      mixing[to * kPointwiseInputs + from] = uniform.draw(scale * std::sqrt(3.0f * 2.0f / kChannels));
  }
  return mixing;
}

std::size_t activation(int images) { return static_cast<std::size_t>(images) * kFeatures; }

}  // namespace

Network::Network(unsigned seed) : partial_(kChunks * kClasses * kFeatures, "partial sums") {
  Uniform uniform(seed);
  for (int index = 0; index < kBlocks; ++index) {
    Block block;
    block.taps = make_parameter(draw_taps(uniform));
    block.mixing =
        make_parameter(draw_mixing(uniform, index == 0 ? 1.0f : 1.0f / std::sqrt(static_cast<float>(kBlocks))));
    blocks_.push_back(std::move(block));
  }
  std::vector<float> weights(kClasses * kFeatures);
  for (float& weight : weights) weight = uniform.draw(0.1f * std::sqrt(3.0f / kFeatures));
  classifier_ = make_parameter(weights);
}

Floats Network::forward(const Batch& batch, bool keep, cudaStream_t stream) {
  const float* in = batch.images;
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    Block& block = blocks_[index];
    const bool first = index == 0;
    block.convolved = Floats(activation(batch.count), "convolved");
    depthwise_forward(batch.count, first ? 1 : kChannels, in, block.taps.weight.get(), block.convolved.get(), stream);
    block.rectified = Floats(activation(batch.count), "rectified");
    pointwise_forward(batch.count, block.convolved.get(), block.mixing.weight.get(), block.rectified.get(), stream);
    if (!first) {
      block.sum = Floats(activation(batch.count), "sum");
      add(batch.count, in, block.rectified.get(), block.sum.get(), stream);
    }
    in = first ? block.rectified.get() : block.sum.get();
    if (!keep) {
      block.convolved.release();
      if (!first) block.rectified.release();
      if (index >= 2) blocks_[index - 1].sum.release();
    }
  }
  Floats logits(static_cast<std::size_t>(batch.count) * kClasses, "logits");
  classify(batch.count, in, classifier_.weight.get(), logits.get(), stream);
  return logits;
}

void Network::step(Parameter& parameter, float rate, cudaStream_t stream) {
  adam_step(static_cast<int>(parameter.weight.count()), partial_.get(), rate, parameter.mean.get(),
            parameter.square.get(), parameter.weight.get(), stream);
}

// Takes the gradient of the block's output and returns that of its input. A weight is updated after its last use in the
// pass.
Floats Network::backward_block(int index, const Batch& batch, Floats gradient, float rate, cudaStream_t stream) {
  Block& block = blocks_[static_cast<std::size_t>(index)];
  const bool first = index == 0;
  Floats through(activation(batch.count), "gradient of the block");
  relu_backward(batch.count, gradient.get(), block.rectified.get(), through.get(), stream);
  block.rectified.release();
  pointwise_weights(batch.count, block.convolved.get(), through.get(), partial_.get(), stream);
  block.convolved.release();
  Floats inner(activation(batch.count), "gradient of the convolution");
  pointwise_backward(batch.count, through.get(), block.mixing.weight.get(), inner.get(), stream);
  step(block.mixing, rate, stream);
  through.release();
  const Block* before = first ? nullptr : &blocks_[static_cast<std::size_t>(index) - 1];
  const float* in = first ? batch.images : index == 1 ? before->rectified.get() : before->sum.get();
  depthwise_weights(batch.count, first ? 1 : kChannels, in, inner.get(), partial_.get(), stream);
  Floats input_gradient;
  if (!first) {
    input_gradient = Floats(activation(batch.count), "gradient of the input");
    depthwise_backward(batch.count, inner.get(), block.taps.weight.get(), gradient.get(), input_gradient.get(), stream);
  }
  step(block.taps, rate, stream);
  block.sum.release();
  return input_gradient;
}

void Network::backward(const Batch& batch, const Floats& gradient_logits, float rate, cudaStream_t stream) {
  Floats gradient(activation(batch.count), "gradient of the features");
  const float* features = blocks_.back().sum.get();
  classify_backward(batch.count, gradient_logits.get(), classifier_.weight.get(), gradient.get(), stream);
  classify_weights(batch.count, features, gradient_logits.get(), partial_.get(), stream);
  step(classifier_, rate, stream);
  for (int index = static_cast<int>(blocks_.size()) - 1; index >= 0; --index) {
    gradient = backward_block(index, batch, std::move(gradient), rate, stream);
  }
}

void Network::train(const Batch& batch, const Verdict& verdict, float rate, cudaStream_t stream) {
  const Floats logits = forward(batch, true, stream);
  const Floats gradient_logits(logits.count(), "gradient of the logits");
  loss(batch.count, logits.get(), batch.labels, verdict.losses, verdict.correct, gradient_logits.get(), stream);
  ++steps_;
  const double correction = std::sqrt(1 - std::pow(0.99, steps_)) / (1 - std::pow(0.9, steps_));
  backward(batch, gradient_logits, rate * static_cast<float>(correction), stream);
}

void Network::judge(const Batch& batch, const Verdict& verdict, cudaStream_t stream) {
  const Floats logits = forward(batch, false, stream);
  const Floats gradient_logits(logits.count(), "gradient of the logits");
  loss(batch.count, logits.get(), batch.labels, verdict.losses, verdict.correct, gradient_logits.get(), stream);
  blocks_.front().rectified.release();
  blocks_.back().sum.release();
}

std::uint64_t Network::digest() const {
  examples::Digest digest;
  const auto add_parameter = [&digest](const Parameter& parameter) {
    std::vector<float> values(parameter.weight.count());
    require(cudaMemcpy(values.data(), parameter.weight.get(), parameter.weight.bytes(), cudaMemcpyDeviceToHost),
            "download of weights");
    digest.add(values.data(), parameter.weight.bytes());
  };
  for (const Block& block : blocks_) {
    add_parameter(block.taps);
    add_parameter(block.mixing);
  }
  add_parameter(classifier_);
  return digest.value();
}

}  // namespace digits
