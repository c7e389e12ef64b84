// SPDX-License-Identifier: Apache-2.0
// Passes over equal layers, as inference has them: each is the same launch, and reads weights of its own.
#include <algorithm>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void launch(World& world, unsigned stream, const Slice& out, const Slice& weights, std::uint64_t salt) {
  const Operands operands{out, weights, weights, salt};
  Task task{.kernel = "model_combine"};
  for (const std::uint64_t word : operands.table()) task.add(word);
  task.add(salt);
  std::vector<void*> parameters = task.parameters();
  world.before_read(stream, *weights.buffer);
  world.before_write(stream, *out.buffer);
  CHECK_CUDA(
      cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, world.stream(stream), parameters.data(), nullptr));
  world.submitted(stream);
  world.after_read(stream, *weights.buffer);
  world.after_write(stream, *out.buffer);
  combine(out.words(), weights.words(), weights.words(), salt);
}

// Buffers that fill equally many pages, from the first such buffer on: the order is the same in every pass.
std::vector<Slice> layers(const World& world) {
  std::vector<Slice> found;
  for (const auto& buffer : world.buffers()) {
    if (buffer->defined && buffer->bytes() > world.options.largest / 16 * 15)
      found.push_back({buffer.get(), 0, buffer->model.size()});
  }
  return found;
}

void pass_over_layers(World& world) {
  if (world.buffers().empty()) return;
  const Slice activation = world.any_slice();
  const std::vector<Slice> weights = layers(world);
  if (weights.size() < 3) return;
  const unsigned stream = world.own_stream();
  const std::uint64_t salt = world.random.next(), passes = 2 + world.random.below(5);
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (const Slice& one : weights) launch(world, stream, activation, one, salt);
  }
}

const Registered<Step> step({{"pass_over_layers", 2}, pass_over_layers});
}  // namespace
