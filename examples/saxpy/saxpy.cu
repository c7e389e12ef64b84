// SPDX-License-Identifier: Apache-2.0
// saxpy: y = a x + y, the smallest complete program.
#include <cstdio>
#include <vector>

#include "examples/common/device_buffer.h"
#include "examples/common/digest.h"
#include "examples/common/grid.h"

__global__ void saxpy(int count, float a, const float* x, float* y) {
  const int i = examples::thread_index();
  // Rounds twice, as the host does below; the compiler would fuse the two operations.
  if (i < count) y[i] = __fadd_rn(__fmul_rn(a, x[i]), y[i]);
}

int main() {
  using examples::require;
  examples::program_name = "saxpy";
  constexpr int kCount = 1 << 20;
  constexpr float kFactor = 2.5f;

  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i % 1000) / 8;
    y[i] = static_cast<float>(i % 777) / 3;
  }
  const examples::DeviceBuffer<float> device_x(kCount, "x");
  const examples::DeviceBuffer<float> device_y(kCount, "y");
  require(cudaMemcpy(device_x.get(), x.data(), device_x.bytes(), cudaMemcpyHostToDevice), "upload of x");
  require(cudaMemcpy(device_y.get(), y.data(), device_y.bytes(), cudaMemcpyHostToDevice), "upload of y");

  saxpy<<<examples::blocks_for(kCount), examples::kThreadsPerBlock>>>(kCount, kFactor, device_x.get(), device_y.get());
  examples::require_launched("saxpy");

  std::vector<float> result(kCount);
  require(cudaMemcpy(result.data(), device_y.get(), device_y.bytes(), cudaMemcpyDeviceToHost), "download of y");
  for (int i = 0; i < kCount; ++i) {
    const float expected = kFactor * x[i] + y[i];
    if (result[i] != expected) {
      std::fprintf(stderr, "saxpy: y[%d] is %g and should be %g\n", i, static_cast<double>(result[i]),
                   static_cast<double>(expected));
      return 1;
    }
  }
  examples::Digest digest;
  digest.add(result.data(), device_y.bytes());
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
}
