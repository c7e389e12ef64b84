// SPDX-License-Identifier: Apache-2.0
// digits: trains a small convolutional network on handwritten digits, on whatever device the CUDA runtime finds.
//
//   digits [--epochs N] [FILE]
//
// FILE as in DATA.md; default: the one beside the executable, else the one in the source tree.
//
// Prints loss and held-out accuracy of each epoch, and at the end a digest of all weights, which is the same in every
// run with the same device. Exit status: 0 trained, 1 a CUDA error (one sentence on stderr), 2 wrong usage, 3 bad
// input.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "examples/common/cuda_check.h"
#include "examples/digits/data.h"
#include "examples/digits/network.h"
#include "examples/digits/uploader.h"

#ifndef DIGITS_DEFAULT_DATA
#error "DIGITS_DEFAULT_DATA names the data file in the source tree"
#endif

namespace {

using namespace digits;
using examples::require;

constexpr int kDefaultEpochs = 15;
constexpr int kMostEpochs = 10000;
constexpr int kBatch = 512;
constexpr unsigned kSeed = 20260101;

// Decreases linearly, so that the last steps settle.
float rate_at(int epoch, int epochs) {
  constexpr float kRate = 0.02f;
  return kRate * static_cast<float>(epochs - epoch) / static_cast<float>(epochs);
}

// Losses and predictions of one batch, copied to the host and added in order.
class Score {
 public:
  explicit Score(int most)
      : losses_(static_cast<std::size_t>(most), "losses"),
        correct_(static_cast<std::size_t>(most), "verdicts"),
        host_losses_(static_cast<std::size_t>(most), "pinned losses"),
        host_correct_(static_cast<std::size_t>(most), "pinned verdicts") {}

  Verdict target() const { return {losses_.get(), correct_.get()}; }

  // Waits for the stream.
  void collect(int images, cudaStream_t stream) {
    const auto count = static_cast<std::size_t>(images);
    require(cudaMemcpyAsync(host_losses_.get(), losses_.get(), count * sizeof(float), cudaMemcpyDeviceToHost, stream),
            "download of losses");
    require(cudaMemcpyAsync(host_correct_.get(), correct_.get(), count * sizeof(int), cudaMemcpyDeviceToHost, stream),
            "download of verdicts");
    require(cudaStreamSynchronize(stream), "a training step");
    for (std::size_t i = 0; i < count; ++i) {
      loss_ += static_cast<double>(host_losses_[i]);
      right_ += host_correct_[i];
    }
    images_ += images;
  }

  void clear() {
    loss_ = 0;
    right_ = 0;
    images_ = 0;
  }

  double loss() const { return loss_ / images_; }
  double accuracy() const { return static_cast<double>(right_) / images_; }

 private:
  examples::DeviceBuffer<float> losses_;
  examples::DeviceBuffer<int> correct_;
  examples::PinnedBuffer<float> host_losses_;
  examples::PinnedBuffer<int> host_correct_;
  double loss_ = 0;
  long right_ = 0;
  int images_ = 0;
};

void train(const Dataset& data, int epochs) {
  cudaStream_t compute = nullptr;
  require(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "cudaStreamCreate");
  {
    Network network(kSeed);
    Uploader uploader(data.training, kBatch, kSeed);
    const examples::DeviceBuffer<float> held_images(data.held_out.pixels.size(), "held-out images");
    const examples::DeviceBuffer<int> held_labels(data.held_out.labels.size(), "held-out labels");
    require(cudaMemcpy(held_images.get(), data.held_out.pixels.data(), held_images.bytes(), cudaMemcpyHostToDevice),
            "upload of held-out images");
    require(cudaMemcpy(held_labels.get(), data.held_out.labels.data(), held_labels.bytes(), cudaMemcpyHostToDevice),
            "upload of held-out labels");
    Score score(kBatch > data.held_out.count() ? kBatch : data.held_out.count());
    const int steps = (data.training.count() + kBatch - 1) / kBatch;
    uploader.prepare();
    for (int epoch = 0; epoch < epochs; ++epoch) {
      score.clear();
      for (int step = 0; step < steps; ++step) {
        const Batch batch = uploader.acquire(compute);
        network.train(batch, score.target(), rate_at(epoch, epochs), compute);
        uploader.consumed(compute);
        uploader.prepare();
        score.collect(batch.count, compute);
      }
      const double training_loss = score.loss();
      score.clear();
      network.judge({held_images.get(), held_labels.get(), data.held_out.count()}, score.target(), compute);
      score.collect(data.held_out.count(), compute);
      std::printf("epoch %2d  loss %.4f  held-out loss %.4f  accuracy %.2f %%\n", epoch + 1, training_loss,
                  score.loss(), 100 * score.accuracy());
      std::fflush(stdout);
    }
    std::printf("digest %016llx\n", static_cast<unsigned long long>(network.digest()));
  }
  require(cudaStreamDestroy(compute), "cudaStreamDestroy");
}

std::string default_data() {
  char executable[4096];
  const ssize_t length = readlink("/proc/self/exe", executable, sizeof executable);
  if (length > 0 && static_cast<std::size_t>(length) < sizeof executable) {
    const std::string path(executable, static_cast<std::size_t>(length));
    const std::string beside = path.substr(0, path.rfind('/') + 1) + "digits.csv.gz";
    if (access(beside.c_str(), R_OK) == 0) return beside;
  }
  return DIGITS_DEFAULT_DATA;
}

struct Options {
  int epochs = kDefaultEpochs;
  std::string file;
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--epochs" && i + 1 < argc) {
      char* end = nullptr;
      const long epochs = std::strtol(argv[++i], &end, 10);
      if (*end != '\0' || epochs < 1 || epochs > kMostEpochs) return false;
      options->epochs = static_cast<int>(epochs);
    } else if (!argument.empty() && argument[0] != '-' && options->file.empty()) {
      options->file = argument;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "digits";
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: digits [--epochs N] [FILE]      N from 1 to %d\n", kMostEpochs);
    return 2;
  }
  Dataset data;
  std::string problem;
  if (!read_dataset(options.file.empty() ? default_data() : options.file, &data, &problem)) {
    std::fprintf(stderr, "digits: %s\n", problem.c_str());
    return 3;
  }
  train(data, options.epochs);
  return 0;
}
