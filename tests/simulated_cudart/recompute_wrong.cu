// SPDX-License-Identifier: Apache-2.0
// Kernels that do not give the same when they run again. They are run as if they had been proven to
// (THERMOCLINE_TEST_PROVEN=wrongly), beside a harmless one.
//
//   recompute_wrong TRAP STEPS
//     address   its results depend on where they go
//     count     ... on how often it has run
//     leaves    it leaves a part of its output as it was
//     late      ... on how often it has run, from the eighth step on
//     none      they do not
// Reads what the kernel of each step has made, twice, with other work between. Prints how often the second content was not
// the first, how often the harmless kernel's was wrong, and a digest of the latter.
#include <cstdlib>
#include <string>

#include "tests/simulated_cudart/recompute_traps.h"

namespace {

using traps::kBlocks, traps::kCount, traps::kThreads, traps::own;

enum Trap { kNone, kAddress, kLaunches, kLeaves, kLate };

__device__ unsigned runs[kCount];  // by thread

__global__ void wrongly(const float* in, float* out, int count, int trap, int step) {
  const int i = own();
  if (i >= count) return;
  float value = in[i] * 0.5f;
  if (trap == kAddress) value += static_cast<float>(reinterpret_cast<unsigned long long>(out) >> 12 & 0xffff);
  if (trap == kLaunches || (trap == kLate && step >= 8)) value += static_cast<float>(++runs[i]);
  if (trap == kLeaves && i % 64 == 63) return;
  out[i] = value;
}
__global__ void harmless(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i] * 1.5f + 7.0f;
}
__global__ void in_place(float* values, int count) {
  const int i = own();
  if (i < count) values[i] = values[i] * 0.5f + 1.0f;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string name = argv[1];
  const Trap trap = name == "address"  ? kAddress
                    : name == "count"  ? kLaunches
                    : name == "leaves" ? kLeaves
                    : name == "late"   ? kLate
                                       : kNone;
  const traps::Memory in, made, beside, other, updated;
  traps::upload(in, 1);
  traps::upload(made, 2);
  traps::upload(updated, 3);
  int changed = 0, wrong = 0;
  traps::Result result;
  const std::vector<float> input = traps::pattern(1);
  for (int step = 0; step < std::atoi(argv[2]); ++step) {
    wrongly<<<kBlocks, kThreads>>>(in.at, made.at, kCount, trap, step);
    const std::vector<float> first = traps::download(made.at);
    harmless<<<kBlocks, kThreads>>>(in.at, beside.at, kCount);
    in_place<<<kBlocks, kThreads>>>(updated.at, kCount);
    traps::upload(other, step);
    changed += std::memcmp(first.data(), traps::download(made.at).data(), traps::kBytes) != 0;
    const std::vector<float> right = traps::download(beside.at);
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (right[at] != input[at] * 1.5f + 7.0f) {
        ++wrong;
        break;
      }
    }
    result.add(right);
    result.add(updated.at);
  }
  std::printf("changed %d, wrong %d, digest %016llx\n", changed, wrong,
              static_cast<unsigned long long>(result.digest.value()));
}
