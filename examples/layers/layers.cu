// SPDX-License-Identifier: Apache-2.0
// Inference whose weights do not fit: a stack of square layers, each used once a pass, in order, over and over. The
// kernel's parameters do not tell that it only reads the weights. Integers, so that the result is the same everywhere;
// the program computes it on the host, too.
//
//   layers [LAYERS [WIDTH [PASSES]]]    default: 16 layers of 1024 x 1024 words (4 MiB each), 8 passes
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/common/device_buffer.h"
#include "examples/common/digest.h"

namespace {

using Word = std::uint32_t;
using examples::require;

__global__ void layer(int width, const Word* weights, const Word* in, Word* out) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= width) return;
  Word sum = 1;
  // Column by column, so that neighboring threads read neighboring words.
  for (int i = 0; i < width; ++i) sum += weights[static_cast<std::size_t>(i) * width + row] * in[i];
  out[row] = sum ^ (sum >> 15);
}

Word weight(int layer, std::size_t place) {
  return static_cast<Word>((place + 1) * 2654435761u + static_cast<Word>(layer) * 40503u);
}

void compute_on_host(int width, const std::vector<Word>& weights, std::vector<Word>* values) {
  std::vector<Word> out(width, 1);
  for (int i = 0; i < width; ++i) {
    for (int row = 0; row < width; ++row) out[row] += weights[static_cast<std::size_t>(i) * width + row] * (*values)[i];
  }
  for (Word& one : out) one ^= one >> 15;
  *values = out;
}

int number(int argc, char** argv, int place, int otherwise) {
  if (argc <= place) return otherwise;
  const int given = std::atoi(argv[place]);
  if (given > 0) return given;
  std::fprintf(stderr, "layers: '%s' is not a number above 0\n", argv[place]);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  examples::program_name = "layers";
  const int layers = number(argc, argv, 1, 16), width = number(argc, argv, 2, 1024), passes = number(argc, argv, 3, 8);
  const std::size_t words = static_cast<std::size_t>(width) * width;

  std::vector<examples::DeviceBuffer<Word>> weights;
  std::vector<Word> expected(width), staged(words);
  for (int i = 0; i < width; ++i) expected[i] = static_cast<Word>(i);
  const std::vector<Word> first = expected;
  for (int i = 0; i < layers; ++i) {
    for (std::size_t place = 0; place < words; ++place) staged[place] = weight(i, place);
    weights.emplace_back(words, "weights");
    require(cudaMemcpy(weights.back().get(), staged.data(), words * sizeof(Word), cudaMemcpyHostToDevice), "upload");
    compute_on_host(width, staged, &expected);
  }

  examples::DeviceBuffer<Word> values[2] = {{static_cast<std::size_t>(width), "values"},
                                            {static_cast<std::size_t>(width), "values"}};
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<Word> result(width);
  float milliseconds = 0;
  for (int pass = 0; pass < passes; ++pass) {
    require(cudaEventRecord(begin), "event");
    require(cudaMemcpy(values[0].get(), first.data(), values[0].bytes(), cudaMemcpyHostToDevice), "upload of values");
    for (int i = 0; i < layers; ++i) {
      layer<<<(width + 255) / 256, 256>>>(width, weights[i].get(), values[i % 2].get(), values[(i + 1) % 2].get());
      examples::require_launched("layer");
    }
    require(cudaMemcpy(result.data(), values[layers % 2].get(), values[0].bytes(), cudaMemcpyDeviceToHost), "download");
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "event");
    require(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    if (result != expected) {
      std::fprintf(stderr, "layers: pass %d gives another result than the host\n", pass);
      return 1;
    }
  }
  require(cudaEventDestroy(begin), "event");
  require(cudaEventDestroy(end), "event");
  examples::Digest digest;
  digest.add(result.data(), result.size() * sizeof(Word));
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
  std::fprintf(stderr, "layers: the last pass took %.3f ms\n", static_cast<double>(milliseconds));
}
