// SPDX-License-Identifier: Apache-2.0
// Passes up and down through equal layers, one launch each. The kernel's structure ends with a word that nobody sets: in
// some launches it looks like an address.
#include <cuda.h>
#include <vector_types.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t kLayers = 10, kBytes = std::size_t{2} << 20;
constexpr int kPasses = 12;

constexpr char kKernel[] = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry layer(.param .align 8 .b8 block[24])
{
  ret;
}
)";

struct Block {
  CUdeviceptr out, in;
  std::uint64_t unset;
};

void check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "recorded_layers: error %d\n", static_cast<int>(result));
  std::exit(1);
}

void launch(CUfunction layer, Block block) {
  void* parameters[] = {&block};
  check(cuLaunchKernel(layer, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void simulated_layer(void** /*arguments*/, dim3 /*grid*/,
                                                                       dim3 /*block*/) {}

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule image = nullptr;
  CUfunction layer = nullptr;
  check(cuInit(0));
  check(cuDeviceGet(&device, 0));
  check(cuDevicePrimaryCtxRetain(&context, device));
  check(cuCtxSetCurrent(context));
  check(cuModuleLoadData(&image, kKernel));
  check(cuModuleGetFunction(&layer, image, "layer"));
  std::array<CUdeviceptr, kLayers> buffers{};
  for (CUdeviceptr& buffer : buffers) check(cuMemAlloc(&buffer, kBytes));
  std::uint32_t random = 1;
  const auto unset = [&]() -> std::uint64_t {
    random = random * 1664525 + 1013904223;
    return random >> 31 == 0 ? 0 : buffers[(random >> 16) % kLayers];
  };
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 1; i < kLayers; ++i) launch(layer, {buffers[i], buffers[i - 1], unset()});
    for (std::size_t i = kLayers - 1; i > 0; --i) launch(layer, {buffers[i - 1], buffers[i], unset()});
  }
  check(cuCtxSynchronize());
  std::puts("done");
}
