// SPDX-License-Identifier: Apache-2.0
// A kernel that is given its operands by any API path of passing, and launched by any API path of launching.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void launch(World& world) {
  if (world.buffers().empty()) return;
  Operands operands;
  operands.a = world.any_slice();
  operands.b = world.any_slice();
  operands.out = world.any_slice();
  operands.salt = world.random.next();
  Buffer* const named[] = {operands.a.buffer, operands.b.buffer, operands.out.buffer};
  const bool may_record = world.may_hold(named);
  const auto* launching =
      pick<Launching>(world, [&](const Launching& api_path) { return may_record || !api_path.records; });
  const auto* passing = pick<Passing>(world, [](const Passing&) { return true; });
  const unsigned stream = stream_for(world, launching->needs);
  if (launching->records) world.hold(named);
  Task task = passing->prepare(world, stream, operands);
  world.before_read(stream, *operands.a.buffer);
  world.before_read(stream, *operands.b.buffer);
  world.before_write(stream, *operands.out.buffer);
  for (const Buffer* table : task.tables) world.before_read(stream, *table);
  launching->launch(world, stream, task);
  world.submitted(stream);
  world.after_read(stream, *operands.a.buffer);
  world.after_read(stream, *operands.b.buffer);
  world.after_write(stream, *operands.out.buffer);
  for (Buffer* table : task.tables) world.after_read(stream, *table);
  combine(operands.out.words(), operands.a.words(), operands.b.words(), operands.salt);
  if (task.afterwards) task.afterwards();
}

void change_every_word(World& world) {
  if (world.buffers().empty()) return;
  const Slice out = world.any_slice();
  if (out.bytes() > kMiB) return;
  const unsigned stream = world.any_stream();
  Task task{.kernel = "model_change_every_word"};
  const std::uint64_t salt = world.random.next();
  task.add(out.address());
  task.add(out.count);
  task.add(salt);
  std::vector<void*> parameters = task.parameters();
  world.before_write(stream, *out.buffer);
  CHECK_CUDA(cuLaunchKernel(function_of(world, task), 8, 1, 1, 128, 1, 1, 0, world.stream(stream), parameters.data(),
                            nullptr));
  world.submitted(stream);
  world.after_write(stream, *out.buffer);
  model::change_every_word(out.words(), salt);
}

const Registered<Step> one({{"launch", 45}, launch});
const Registered<Step> two({{"change_every_word", 2}, change_every_word});
}  // namespace
