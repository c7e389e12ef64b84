// SPDX-License-Identifier: Apache-2.0
// Trains a small transformer on made-up numbers: layer norm, causal attention of two heads, projection, dropout by a
// counter, residuals, an MLP with GELU, and Adam. What the forward pass leaves for the backward pass is nearly all of its
// memory.
//
//   transformer [BLOCKS [SEQUENCES [STEPS [plain|tiled [step|once]]]]]    default: 3 blocks, 512 sequences of 32 tokens
//     of 32 numbers (2 MiB an activation, 8 MiB one of the MLP), 12 steps
//   plain: kernels of independent threads; tiled: some whose threads share memory and shuffle
//   step: activations are allocated in stream order where they are made, and freed behind their last use; once: before
//     the first step
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/device_buffer.h"
#include "examples/common/digest.h"
#include "examples/transformer/kernels.cuh"
#include "examples/transformer/tiled_kernels.cuh"

namespace {

using Buffer = examples::DeviceBuffer<float>;
using Pairs = examples::DeviceBuffer<float2>;
using examples::require;
using namespace transformer;

constexpr unsigned kThreads = 128;

unsigned blocks_of(std::size_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

// A matrix with what Adam knows of it.
struct Weights {
  Weights(int rows, int width, unsigned seed, float scale)
      : depth(rows), columns(width), values(count(), "weights"), means(count(), "means"), squares(count(), "squares") {
    make_input<<<blocks_of(count()), kThreads>>>(values.get(), static_cast<int>(count()), seed);
    std::vector<float> host(count());
    require(cudaMemcpy(host.data(), values.get(), values.bytes(), cudaMemcpyDeviceToHost), "download");
    for (float& value : host) value = scale == 0.0f ? 1.0f : value * scale;
    require(cudaMemcpy(values.get(), host.data(), values.bytes(), cudaMemcpyHostToDevice), "upload");
    require(cudaMemset(means.get(), 0, means.bytes()), "means");
    require(cudaMemset(squares.get(), 0, squares.bytes()), "squares");
  }
  std::size_t count() const { return static_cast<std::size_t>(depth) * static_cast<std::size_t>(columns); }

  int depth, columns;
  Buffer values, means, squares;
};

// Memory of a step: in stream order, or for good.
template <class T>
class Activation {
 public:
  Activation(std::size_t count, bool in_order) : count_(count), in_order_(in_order) {
    void** const to = reinterpret_cast<void**>(&data_);
    examples::refuse_allocation(in_order ? cudaMallocAsync(to, bytes(), nullptr) : cudaMalloc(to, bytes()), bytes(),
                                "an activation");
  }
  Activation(Activation&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_), in_order_(other.in_order_) {}
  Activation& operator=(Activation&&) = delete;
  ~Activation() {
    if (data_ != nullptr) require(in_order_ ? cudaFreeAsync(data_, nullptr) : cudaFree(data_), "a free");
  }

  T* get() const { return data_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
  bool in_order_;
};

struct Activations {
  Activations(std::size_t rows, bool in_order)
      : attention_moments(rows, in_order),
        mlp_moments(rows, in_order),
        normal(rows * kWidth, in_order),
        qkv(rows * 3 * kWidth, in_order),
        parts(rows * kHeads * kTokens, in_order),
        context(rows * kWidth, in_order),
        attended(rows * kWidth, in_order),
        mlp_normal(rows * kWidth, in_order),
        hidden(rows * kHidden, in_order),
        active(rows * kHidden, in_order),
        out(rows * kWidth, in_order) {}

  Activation<float2> attention_moments, mlp_moments;
  Activation<float> normal, qkv, parts, context, attended, mlp_normal, hidden, active, out;
};

struct Block {
  explicit Block(unsigned seed)
      : attention_gain(1, kWidth, seed, 0),
        qkv_weights(kWidth, 3 * kWidth, seed + 1, 0.6f),
        projection(kWidth, kWidth, seed + 2, 0.6f),
        mlp_gain(1, kWidth, seed + 3, 0),
        first(kWidth, kHidden, seed + 4, 0.6f),
        second(kHidden, kWidth, seed + 5, 0.3f) {}

  Weights attention_gain, qkv_weights, projection, mlp_gain, first, second;
  std::optional<Activations> made;
};

class Transformer {
 public:
  Transformer(int blocks, int sequences, bool is_tiled, bool in_order)
      : is_tiled_(is_tiled),
        in_order_(in_order),
        rows_(static_cast<std::size_t>(sequences) * kTokens),
        in_(rows_ * kWidth, "input"),
        added_(rows_ * kWidth, "what is added"),
        pairs_(rows_ * kHeads, "sums of rows"),
        gradient_(rows_ * kWidth, "gradient"),
        narrow_(rows_ * kWidth, "gradient"),
        wide_(rows_ * kHidden, "gradient"),
        qkv_gradient_(rows_ * 3 * kWidth, "gradient"),
        products_(rows_ * kHeads, "products of rows"),
        score_gradient_(rows_ * kHeads * kTokens, "gradient"),
        partial_(chunks() * kWidth * kHidden, "partial sums"),
        step_(kWidth * kHidden, "gradient") {
    for (int i = 0; i < blocks; ++i) blocks_.emplace_back(static_cast<unsigned>(i) * 17u + 5u);
  }

  void step(unsigned number) {
    const unsigned seed = number * 7919u;
    step_number_ = number + 1;
    make_input<<<blocks_of(in_.count()), kThreads>>>(in_.get(), static_cast<int>(in_.count()), seed);
    const float* in = in_.get();
    for (Block& block : blocks_) {
      if (!block.made.has_value()) block.made.emplace(rows_, in_order_);
      forward(in, block, *block.made, seed);
      in = block.made->out.get();
    }
    begin_backward<<<each(gradient_), kThreads>>>(in, gradient_.get(), count(gradient_), seed);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      mlp_backward(blocks_[i], *blocks_[i].made, seed);
      backward_of_attention(i > 0 ? blocks_[i - 1].made->out.get() : in_.get(), blocks_[i], *blocks_[i].made, seed);
      if (in_order_) blocks_[i].made.reset();
    }
    examples::require_launched("a step");
  }

  void add_to(examples::Digest* digest) const {
    for (const Block& block : blocks_) {
      for (const Weights* const one : {&block.attention_gain, &block.qkv_weights, &block.projection, &block.mlp_gain,
                                       &block.first, &block.second}) {
        std::vector<float> host(one->count());
        require(cudaMemcpy(host.data(), one->values.get(), one->values.bytes(), cudaMemcpyDeviceToHost), "download");
        digest->add(host.data(), one->values.bytes());
        if (!std::ranges::all_of(host, [](float value) { return std::isfinite(value); }))
          std::fprintf(stderr, "transformer: a weight is no number\n"), std::exit(1);
      }
    }
  }

 private:
  std::size_t chunks() const { return rows_ / kRowsOfAChunk; }
  int rows() const { return static_cast<int>(rows_); }
  template <class Any>
  static unsigned each(const Any& buffer) {
    return blocks_of(buffer.count());
  }
  template <class Any>
  static int count(const Any& buffer) {
    return static_cast<int>(buffer.count());
  }

  void norm(const float* in, const Weights& gain, const Activation<float2>& moments,
            const Activation<float>& out) const {
    if (is_tiled_) {
      layer_norm_of_warps<<<static_cast<unsigned>(rows_), kWidth>>>(in, gain.values.get(), moments.get(), out.get());
      return;
    }
    find_moments<<<blocks_of(rows_), kThreads>>>(in, moments.get(), rows());
    normalize<<<each(out), kThreads>>>(in, moments.get(), gain.values.get(), out.get(), count(out));
  }
  void multiply(const Activation<float>& in, const Weights& by, float* out) const {
    const auto columns = static_cast<unsigned>(by.columns), rows_of_all = static_cast<unsigned>(rows_);
    if (is_tiled_) {
      tiled_product<<<dim3(columns / kTile, rows_of_all / kTile), dim3(kTile, kTile)>>>(in.get(), by.values.get(), out,
                                                                                        by.depth, by.columns);
      return;
    }
    product<<<dim3(columns / 32, rows_of_all / 4), dim3(32, 4)>>>(in.get(), by.values.get(), out, rows(), by.depth,
                                                                  by.columns);
  }
  // The gradient of what was multiplied.
  void multiply_back(const Buffer& gradient, const Weights& by, const Buffer& out) const {
    const dim3 grid(static_cast<unsigned>(by.depth) / 32, static_cast<unsigned>(rows_) / 4);
    product_transposed<<<grid, dim3(32, 4)>>>(gradient.get(), by.values.get(), out.get(), rows(), by.columns, by.depth);
  }

  void forward(const float* in, const Block& of, const Activations& block, unsigned seed) const {
    norm(in, of.attention_gain, block.attention_moments, block.normal);
    multiply(block.normal, of.qkv_weights, block.qkv.get());
    find_scores<<<each(block.parts), kThreads>>>(block.qkv.get(), block.parts.get(), count(block.parts));
    const unsigned score_rows = static_cast<unsigned>(rows_) * kHeads;
    if (is_tiled_) {
      softmax_of_warps<<<score_rows, kTokens>>>(block.parts.get());
    } else {
      find_softmax_sums<<<blocks_of(score_rows), kThreads>>>(block.parts.get(), pairs_.get(),
                                                             static_cast<int>(score_rows));
      softmax<<<each(block.parts), kThreads>>>(block.parts.get(), pairs_.get(), count(block.parts));
    }
    find_context<<<each(block.context), kThreads>>>(block.parts.get(), block.qkv.get(), block.context.get(),
                                                    count(block.context));
    multiply(block.context, of.projection, added_.get());
    drop_and_add<<<each(block.attended), kThreads>>>(in, added_.get(), block.attended.get(), count(block.attended),
                                                     seed ^ 0x9e37u);
    norm(block.attended.get(), of.mlp_gain, block.mlp_moments, block.mlp_normal);
    multiply(block.mlp_normal, of.first, block.hidden.get());
    gelu<<<each(block.hidden), kThreads>>>(block.hidden.get(), block.active.get(), count(block.hidden));
    multiply(block.active, of.second, added_.get());
    drop_and_add<<<each(block.out), kThreads>>>(block.attended.get(), added_.get(), block.out.get(), count(block.out),
                                                seed ^ 0x79b9u);
  }

  // Computes the gradient of `in` and adds it to that of the residual.
  void norm_backward(const float* in, const Activation<float2>& moments, Weights& gain) {
    find_norm_sums<<<blocks_of(rows_), kThreads>>>(in, moments.get(), gain.values.get(), narrow_.get(), pairs_.get(),
                                                   rows());
    normalize_backward<<<each(gradient_), kThreads>>>(in, moments.get(), gain.values.get(), narrow_.get(), pairs_.get(),
                                                      gradient_.get(), count(gradient_));
    find_gain_gradients<<<static_cast<unsigned>(chunks()), kWidth>>>(in, moments.get(), narrow_.get(), partial_.get());
    descend(gain);
  }
  void weights_backward(const Activation<float>& in, const Buffer& gradient, Weights& of) {
    find_weight_gradients<<<dim3(blocks_of(of.count()), static_cast<unsigned>(chunks())), kThreads>>>(
        in.get(), gradient.get(), partial_.get(), of.depth, of.columns);
    descend(of);
  }
  void descend(Weights& of) {
    const int weights = static_cast<int>(of.count());
    sum_chunks<<<blocks_of(of.count()), kThreads>>>(partial_.get(), step_.get(), static_cast<int>(chunks()), weights);
    const auto steps = static_cast<float>(step_number_);
    adam<<<blocks_of(of.count()), kThreads>>>(of.values.get(), of.means.get(), of.squares.get(), step_.get(), weights,
                                              1 / (1 - std::pow(0.9f, steps)), 1 / (1 - std::pow(0.99f, steps)));
  }

  void mlp_backward(Block& of, const Activations& block, unsigned seed) {
    drop_backward<<<each(narrow_), kThreads>>>(gradient_.get(), narrow_.get(), count(narrow_), seed ^ 0x79b9u);
    multiply_back(narrow_, of.second, wide_);
    weights_backward(block.active, narrow_, of.second);
    gelu_backward<<<each(block.hidden), kThreads>>>(block.hidden.get(), wide_.get(), count(block.hidden));
    multiply_back(wide_, of.first, narrow_);
    weights_backward(block.mlp_normal, wide_, of.first);
    norm_backward(block.attended.get(), block.mlp_moments, of.mlp_gain);
  }
  void backward_of_attention(const float* in, Block& of, const Activations& block, unsigned seed) {
    drop_backward<<<each(narrow_), kThreads>>>(gradient_.get(), narrow_.get(), count(narrow_), seed ^ 0x9e37u);
    multiply_back(narrow_, of.projection, added_);
    weights_backward(block.context, narrow_, of.projection);
    find_score_gradients<<<each(block.parts), kThreads>>>(added_.get(), block.qkv.get(), score_gradient_.get(),
                                                          count(block.parts));
    const int score_rows = rows() * kHeads;
    find_softmax_products<<<blocks_of(rows_ * kHeads), kThreads>>>(block.parts.get(), score_gradient_.get(),
                                                                   products_.get(), score_rows);
    softmax_backward<<<each(block.parts), kThreads>>>(block.parts.get(), products_.get(), score_gradient_.get(),
                                                      count(block.parts));
    attention_backward<<<each(block.qkv), kThreads>>>(block.parts.get(), score_gradient_.get(), block.qkv.get(),
                                                      added_.get(), qkv_gradient_.get(), count(block.qkv));
    multiply_back(qkv_gradient_, of.qkv_weights, narrow_);
    weights_backward(block.normal, qkv_gradient_, of.qkv_weights);
    norm_backward(in, block.attention_moments, of.attention_gain);
  }

  bool is_tiled_, in_order_;
  std::size_t rows_;
  unsigned step_number_ = 0;
  Buffer in_, added_;
  Pairs pairs_;
  Buffer gradient_, narrow_, wide_, qkv_gradient_, products_, score_gradient_, partial_, step_;
  std::vector<Block> blocks_;
};

int number(int argc, char** argv, int place, int otherwise) {
  if (argc <= place) return otherwise;
  const int given = std::atoi(argv[place]);
  if (given > 0) return given;
  std::fprintf(stderr, "transformer: '%s' is not a number above 0\n", argv[place]);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "transformer";
  const int blocks = number(argc, argv, 1, 3), sequences = number(argc, argv, 2, 512),
            steps = number(argc, argv, 3, 12);
  const std::string style = argc > 4 ? argv[4] : "plain", when = argc > 5 ? argv[5] : "step";
  const bool is_known = (style == "plain" || style == "tiled") && (when == "step" || when == "once");
  if (!is_known || sequences % (kRowsOfAChunk / kTokens) != 0) {
    std::fprintf(stderr,
                 "transformer: expected plain or tiled kernels, activations of a step or allocated once, and a number "
                 "of sequences that is a multiple of %d\n",
                 kRowsOfAChunk / kTokens);
    return 2;
  }
  Transformer transformer(blocks, sequences, style == "tiled", when == "step");
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  float milliseconds = 0;
  for (int step = 0; step < steps; ++step) {
    require(cudaEventRecord(begin), "event");
    transformer.step(static_cast<unsigned>(step));
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "event");
    require(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  }
  require(cudaEventDestroy(begin), "event");
  require(cudaEventDestroy(end), "event");
  examples::Digest digest;
  transformer.add_to(&digest);
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
  std::fprintf(stderr, "transformer: the last step took %.3f ms\n", static_cast<double>(milliseconds));
}
