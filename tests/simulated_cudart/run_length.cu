// SPDX-License-Identifier: Apache-2.0
// CUB's run-length encoding of four arrays of 1,000,000 elements, all of whose results are kept to the end, against the
// standard library's.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cub/device/device_run_length_encode.cuh>
#include <iterator>
#include <random>
#include <vector>

namespace {

constexpr int kArrays = 4;
constexpr int kElements = 1'000'000;

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

int* buffer(int count) {
  int* at = nullptr;
  require(cudaMalloc(&at, sizeof(int) * count));
  return at;
}

std::vector<int> read_back(const int* from, int count) {
  std::vector<int> host(count);
  require(cudaMemcpy(host.data(), from, sizeof(int) * count, cudaMemcpyDeviceToHost));
  return host;
}

struct Array {
  std::vector<int> host;
  int *in = buffer(kElements), *values = buffer(kElements), *lengths = buffer(kElements), *runs = buffer(1);
};

// Runs of 1 to `longest` elements; the first array has no two equal neighbors.
std::vector<int> elements(int longest) {
  std::mt19937 random(longest);
  std::vector<int> made;
  while (made.size() < kElements) {
    const int value = static_cast<int>(random() % 1000);
    if (!made.empty() && made.back() == value) continue;
    made.insert(made.end(), 1 + random() % longest, value);
  }
  made.resize(kElements);
  return made;
}

int count_wrong(const Array& array) {
  const int runs = read_back(array.runs, 1)[0];
  std::vector<int> values;
  std::unique_copy(array.host.begin(), array.host.end(), std::back_inserter(values));
  if (runs != static_cast<int>(values.size())) return 1;
  const std::vector<int> lengths = read_back(array.lengths, runs);
  int wrong = read_back(array.values, runs) != values ? 1 : 0;
  auto at = array.host.begin();
  for (int i = 0; i < runs; ++i) {
    const auto end = std::find_if(at, array.host.end(), [&](int value) { return value != values[i]; });
    wrong += end - at != lengths[i] ? 1 : 0;
    at = end;
  }
  return wrong;
}

}  // namespace

int main() {
  std::vector<Array> arrays(kArrays);
  for (int i = 0; i < kArrays; ++i) {
    arrays[i].host = elements(1 + 40 * i * i);
    require(cudaMemcpy(arrays[i].in, arrays[i].host.data(), sizeof(int) * kElements, cudaMemcpyHostToDevice));
  }
  const auto encode = [](void* work, std::size_t& bytes, const Array& to) {
    require(cub::DeviceRunLengthEncode::Encode(work, bytes, to.in, to.values, to.lengths, to.runs, kElements));
  };
  std::size_t bytes = 0;
  encode(nullptr, bytes, arrays[0]);
  void* work = nullptr;
  require(cudaMalloc(&work, bytes));
  for (const Array& array : arrays) encode(work, bytes, array);
  int wrong = 0;
  for (const Array& array : arrays) wrong += count_wrong(array);
  std::printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 2;
}
