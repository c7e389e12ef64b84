// SPDX-License-Identifier: Apache-2.0
// Operands in tables in memory: uploaded; moved on the device; two levels deep; through a global variable of the
// module; written by a kernel; in memory of the host, where the kernel reads them.
#include <algorithm>
#include <iterator>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::size_t kBytes = kTableWords * sizeof(std::uint64_t);

Task by(const char* kernel, World::Table& table, CUdeviceptr address, std::uint64_t salt) {
  Task task{.kernel = kernel};
  task.add(address);
  task.add(salt);
  task.tables.push_back(&table.buffer);
  return task;
}

Task uploaded(World& world, unsigned stream, const Operands& operands) {
  World::Table& table = world.table();
  upload_table(world, stream, table, operands.table(), table.buffer.address);
  return by("model_combine_by_table", table, table.buffer.address, operands.salt);
}

// Through another location, which is cleared afterwards.
Task moved(World& world, unsigned stream, const Operands& operands) {
  World::Table& table = world.table();
  const CUdeviceptr first = table.buffer.address + kBytes;
  upload_table(world, stream, table, operands.table(), first);
  copy(world, stream, {CopyEnd::Kind::kDevice, table.buffer.address}, {CopyEnd::Kind::kDevice, first}, kBytes);
  CHECK_CUDA(cuMemsetD8Async(first, 0, kBytes, world.stream(stream)));
  world.submitted(stream);
  world.after_write(stream, table.buffer);
  return by("model_combine_by_table", table, table.buffer.address, operands.salt);
}

void clear(World& world, unsigned stream, World::Table& table, CUdeviceptr at, std::size_t bytes) {
  world.before_write(stream, table.buffer);
  CHECK_CUDA(cuMemsetD32Async(at, 0, bytes / 4, world.stream(stream)));
  world.submitted(stream);
  world.after_write(stream, table.buffer);
}

// Buffers that the pointers point to are accessed by every later kernel that is given the table, and must then fit too.
void forget_afterwards(World& world, unsigned stream, Task& task, World::Table& table, CUdeviceptr at,
                       std::size_t bytes = 8) {
  task.afterwards = [&world, &table, stream, at, bytes] { clear(world, stream, table, at, bytes); };
}

Task two_deep(World& world, unsigned stream, const Operands& operands) {
  World::Table& table = world.table();
  World::Table& root = world.table();
  const CUdeviceptr word = root.buffer.address + 2 * kBytes;
  upload_table(world, stream, table, operands.table(), table.buffer.address);
  const std::uint64_t words[] = {table.buffer.address, 0};
  upload_table(world, stream, root, words, word);
  Task task = by("model_combine_by_chain", root, word, operands.salt);
  task.tables.push_back(&table.buffer);
  forget_afterwards(world, stream, task, root, word);
  return task;
}

// The kernel is given no address at all.
Task behind_a_global(World& world, unsigned stream, const Operands& operands) {
  World::Table& table = world.table();
  World::Table& root = world.root();
  const CUdeviceptr word = world.device.roots + std::uint64_t{world.slot} * 8;
  upload_table(world, stream, table, operands.table(), table.buffer.address);
  const std::uint64_t words[] = {table.buffer.address};
  upload_table(world, stream, root, words, word);
  Task task{.kernel = "model_combine_by_root"};
  task.add(world.slot);
  task.add(operands.salt);
  task.tables = {&table.buffer, &root.buffer};
  forget_afterwards(world, stream, task, root, word);
  return task;
}

// The host writes the words without a call, and the rest of the memory holds no addresses of earlier tables.
Task in_place(World& world, unsigned stream, const Operands& operands) {
  World::Table& table = world.table();
  const auto words = operands.table();
  std::fill_n(table.host, kTableBytes / sizeof *table.host, 0);
  std::copy(std::begin(words), std::end(words), table.host);
  Task task{.kernel = "model_combine_by_table"};
  task.add(table.host);
  task.add(operands.salt);
  task.afterwards = [&world, &table, stream] { CHECK_CUDA(cuEventRecord(table.uploaded, world.stream(stream))); };
  return task;
}

// If the library knows of kernels that write tables, small operands would be assumed to be tables too and to point to
// each other permanently; and everything that they point to would have to fit.
bool may_be_tables(const Operands& operands) {
  constexpr std::uint64_t kMostTableBytes = 256 << 10;
  const Buffer* const all[] = {operands.out.buffer, operands.a.buffer, operands.b.buffer};
  return std::any_of(std::begin(all), std::end(all),
                     [](const Buffer* buffer) { return buffer->bytes() <= kMostTableBytes; });
}

// Accesses all other buffers, so that buffers that only the table points to are evicted.
void crowd_out(World& world, unsigned stream) {
  const CopyEnd there{CopyEnd::Kind::kPinned, reinterpret_cast<std::uint64_t>(world.staging())};
  for (const auto& buffer : world.buffers()) {
    if (!buffer->defined) continue;
    world.before_read(stream, *buffer);
    copy(world, stream, there, {CopyEnd::Kind::kDevice, buffer->address}, sizeof(std::uint64_t));
    world.after_read(stream, *buffer);
  }
  world.staging_used(stream);
}

Task written_by_a_kernel(World& world, unsigned stream, const Operands& operands) {
  const bool is_seen = world.options.unseen == 0;
  if (is_seen && may_be_tables(operands)) return uploaded(world, stream, operands);
  World::Table& table = world.table();
  clear(world, stream, table, table.buffer.address, kTableBytes);
  Task task{.kernel = "model_write_table"};
  task.add(table.buffer.address);
  for (const std::uint64_t word : operands.table()) task.add(word);
  std::vector<void*> parameters = task.parameters();
  // It accesses none of them, but the race checker can not know that.
  Buffer* const named[] = {operands.out.buffer, operands.a.buffer, operands.b.buffer};
  for (const Buffer* buffer : named) world.before_read(stream, *buffer);
  world.before_write(stream, table.buffer);
  CHECK_CUDA(
      cuLaunchKernel(function_of(world, task), 1, 1, 1, 32, 1, 1, 0, world.stream(stream), parameters.data(), nullptr));
  world.submitted(stream);
  world.after_write(stream, table.buffer);
  for (Buffer* buffer : named) world.after_read(stream, *buffer);
  if (world.random.one_in(3)) crowd_out(world, stream);
  Task combine = by("model_combine_by_table", table, table.buffer.address, operands.salt);
  if (is_seen) forget_afterwards(world, stream, combine, table, table.buffer.address, kTableBytes);
  return combine;
}

const Registered<Passing> one({{"pass_table", 4}, uploaded});
const Registered<Passing> two({{"pass_moved_table", 2}, moved});
const Registered<Passing> three({{"pass_table_of_tables", 2}, two_deep});
const Registered<Passing> four({{"pass_behind_a_global", 1}, behind_a_global});
const Registered<Passing> six({{"pass_table_in_place", 2}, in_place});
const Registered<Passing> five({{"pass_written_table", 2}, written_by_a_kernel});
}  // namespace
