// SPDX-License-Identifier: Apache-2.0
// Many small buffers, which share pages: half of them go, others take their places, and all that is there is right.
#include <algorithm>
#include <vector>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::size_t kMany = 40;
constexpr std::uint64_t kMostWords = 4096;
const Memory kScattered{{"scattered", 0}, nullptr, nullptr};

void begin(World& world, unsigned stream, Buffer& buffer) {
  buffer = Buffer();
  buffer.memory = &kScattered;
  const auto value = static_cast<unsigned>(world.random.next());
  buffer.model.assign(1 + world.random.below(kMostWords), std::uint64_t{value} << 32 | value);
  CHECK_CUDA(cuMemAlloc(&buffer.address, buffer.bytes()));
  CHECK_CUDA(cuMemsetD32Async(buffer.address, value, buffer.bytes() / 4, world.stream(stream)));
  world.submitted(stream);
  world.after_write(stream, buffer);
}

void mix_three(World& world, unsigned stream, std::vector<Buffer>& all) {
  const auto any = [&]() -> Slice {
    Buffer& buffer = all[world.random.below(all.size())];
    return {&buffer, 0, buffer.model.size()};
  };
  const Operands operands{any(), any(), any(), world.random.next()};
  Task task{.kernel = "model_combine"};
  for (const std::uint64_t word : operands.table()) task.add(word);
  task.add(operands.salt);
  std::vector<void*> parameters = task.parameters();
  CHECK_CUDA(
      cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, world.stream(stream), parameters.data(), nullptr));
  world.submitted(stream);
  combine(operands.out.words(), operands.a.words(), operands.b.words(), operands.salt);
}

// All work is in one stream, and what is freed is freed in it.
void scatter(World& world) {
  const unsigned stream = world.own_stream();
  std::vector<Buffer> all(kMany);
  for (Buffer& one : all) begin(world, stream, one);
  for (std::size_t i = 0; i < kMany; ++i) {
    mix_three(world, stream, all);
    if (world.random.one_in(2)) continue;
    CHECK_CUDA(cuMemFreeAsync(all[i].address, world.stream(stream)));
    begin(world, stream, all[i]);
  }
  std::vector<std::uint64_t> found(kMostWords);
  for (Buffer& one : all) {
    CHECK_CUDA(cuMemcpyDtoHAsync(found.data(), one.address, one.bytes(), world.stream(stream)));
    CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
    world.expect({&one, 0, one.model.size()}, found.data());
    CHECK_CUDA(cuMemFree(one.address));
  }
}

const Registered<Step> step({{"scatter_small_buffers", 1}, scatter});
}  // namespace
