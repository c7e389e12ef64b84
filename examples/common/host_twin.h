// SPDX-License-Identifier: Apache-2.0
// One kernel body for both sides. A body is `__host__ __device__ void body(int thread, parameters...)`: the work of one
// thread, which returns at once for threads beyond the data. EXAMPLES_KERNEL defines two functions from it:
//   - the kernel `name`, with one body call per thread, for a GPU;
//   - `simulated_<name>`, a loop over the same threads in order, which the simulated device finds by name.
//
// No body may depend on the order of its threads, because a GPU has none.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace examples {

inline constexpr int kThreadsPerBlock = 128;

inline int blocks_for(int threads) { return (threads + kThreadsPerBlock - 1) / kThreadsPerBlock; }

template <auto Body, typename... Parameters, std::size_t... Index>
void run_body(void (*)(int, Parameters...), std::index_sequence<Index...>, void** arguments, int threads) {
  for (int thread = 0; thread < threads; ++thread) Body(thread, *static_cast<Parameters*>(arguments[Index])...);
}

template <auto Body, typename... Parameters>
void run_on_host(void (*body)(int, Parameters...), void** arguments, dim3 grid, dim3 block) {
  run_body<Body>(body, std::index_sequence_for<Parameters...>{}, arguments, static_cast<int>(grid.x * block.x));
}

}  // namespace examples

#define EXAMPLES_UNPACK(...) __VA_ARGS__

#define EXAMPLES_KERNEL(name, body, parameters, arguments)                                    \
  __global__ void name parameters {                                                           \
    body(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), EXAMPLES_UNPACK arguments); \
  }                                                                                           \
  extern "C" void simulated_##name(void** arguments_of_launch, dim3 grid, dim3 block) {       \
    ::examples::run_on_host<body>(body, arguments_of_launch, grid, block);                    \
  }
