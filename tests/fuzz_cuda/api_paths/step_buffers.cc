// SPDX-License-Identifier: Apache-2.0
// Allocates, writes, reads and frees buffers.
#include <cstring>

#include <algorithm>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

Buffer* some(World& world) { return world.buffers().empty() ? nullptr : &world.any(); }

void allocate(World& world) { world.allocate(world.any_size()); }

void free(World& world) {
  if (Buffer* buffer = some(world)) world.free(*buffer);
}

void upload(World& world) {
  Buffer* const buffer = some(world);
  if (buffer == nullptr) return;
  Slice to{buffer, 0, buffer->model.size()};
  if (buffer->defined && world.random.one_in(3)) to = world.any_slice();
  const std::uint64_t* const noise = world.noise(to.count);
  const unsigned stream = world.any_stream();
  const bool pageable = world.random.one_in(3);
  void* const from = pageable ? world.pageable() : world.staging();
  std::memcpy(from, noise, to.bytes());
  std::memcpy(to.words().at, noise, to.bytes());
  world.before_write(stream, *to.buffer);
  copy(world, stream, {CopyEnd::Kind::kDevice, to.address()},
       {pageable ? CopyEnd::Kind::kPageable : CopyEnd::Kind::kPinned, reinterpret_cast<std::uint64_t>(from)},
       to.bytes());
  if (!pageable) world.staging_used(stream);
  // The copy has read it; nobody may read it later.
  if (pageable) std::memset(from, 0x5a, to.bytes());
  world.after_write(stream, *to.buffer);
  to.buffer->defined = true;
}

void read_back(World& world) {
  if (some(world) == nullptr) return;
  const Slice from = world.any_slice();
  const unsigned stream = world.any_stream();
  const bool pageable = world.random.one_in(3);
  void* const to = pageable ? world.pageable() : world.staging();
  world.before_read(stream, *from.buffer);
  copy(world, stream,
       {pageable ? CopyEnd::Kind::kPageable : CopyEnd::Kind::kPinned, reinterpret_cast<std::uint64_t>(to)},
       {CopyEnd::Kind::kDevice, from.address()}, from.bytes());
  world.after_read(stream, *from.buffer);
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  world.expect(from, to);
}

void copy_on_device(World& world) {
  if (some(world) == nullptr) return;
  Slice from = world.any_slice();
  Slice to = world.any_slice();
  if (to.buffer == from.buffer) return;
  from.count = to.count = std::min(from.count, to.count);
  const unsigned stream = world.any_stream();
  world.before_read(stream, *from.buffer);
  world.before_write(stream, *to.buffer);
  copy(world, stream, {CopyEnd::Kind::kDevice, to.address()}, {CopyEnd::Kind::kDevice, from.address()}, from.bytes());
  world.after_read(stream, *from.buffer);
  world.after_write(stream, *to.buffer);
  std::memcpy(to.words().at, from.words().at, from.bytes());
}

const Registered<Step> one({{"allocate", 26}, allocate});
const Registered<Step> two({{"free", 6}, free});
const Registered<Step> three({{"upload", 10}, upload});
const Registered<Step> four({{"read_back", 8}, read_back});
const Registered<Step> five({{"copy_on_device", 6}, copy_on_device});
}  // namespace
