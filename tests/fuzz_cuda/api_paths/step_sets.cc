// SPDX-License-Identifier: Apache-2.0
// Sets of bytes, halves and words; of ranges and of rows; blocking and in stream order.
#include <algorithm>
#include <cstring>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

std::uint64_t repeated(std::uint64_t value, unsigned bytes) {
  std::uint64_t word = 0;
  for (unsigned i = 0; i < 8; i += bytes) word |= (value & ((std::uint64_t{1} << (8 * bytes)) - 1)) << (8 * i);
  return word;
}

void set_range(const Slice& to, unsigned bytes, std::uint64_t value, CUstream stream) {
  if (bytes == 1)
    return CHECK_CUDA(cuMemsetD8Async(to.address(), static_cast<unsigned char>(value), to.bytes(), stream));
  if (bytes == 2) {
    return CHECK_CUDA(cuMemsetD16Async(to.address(), static_cast<unsigned short>(value), to.bytes() / 2, stream));
  }
  CHECK_CUDA(cuMemsetD32Async(to.address(), static_cast<unsigned>(value), to.bytes() / 4, stream));
}

void set(World& world) {
  if (world.buffers().empty()) return;
  Slice to = world.any_slice();
  const unsigned stream = world.any_stream();
  const unsigned bytes = 1U << world.random.below(3);
  const std::uint64_t value = world.random.next();
  world.before_write(stream, *to.buffer);
  set_range(to, bytes, value, world.stream(stream));
  world.submitted(stream);
  world.after_write(stream, *to.buffer);
  std::fill_n(to.words().at, to.count, repeated(value, bytes));
}

void set_blocking(World& world) {
  if (world.buffers().empty()) return;
  Slice to = world.any_slice();
  const std::uint64_t value = world.random.next();
  world.before_write(kLegacy, *to.buffer);
  CHECK_CUDA(cuMemsetD32(to.address(), static_cast<unsigned>(value), to.bytes() / 4));
  world.submitted(kLegacy);
  world.after_write(kLegacy, *to.buffer);
  std::fill_n(to.words().at, to.count, repeated(value, 4));
}

// Every second word.
void set_rows(World& world) {
  if (world.buffers().empty()) return;
  Slice to = world.any_slice();
  const unsigned stream = world.any_stream();
  const auto value = static_cast<unsigned>(world.random.next());
  const std::size_t rows = std::min<std::uint64_t>((to.count + 1) / 2, 1000);
  world.before_write(stream, *to.buffer);
  CHECK_CUDA(cuMemsetD2D32Async(to.address(), 16, value, 2, rows, world.stream(stream)));
  world.submitted(stream);
  world.after_write(stream, *to.buffer);
  for (std::size_t row = 0; row < rows; ++row) to.words().at[row * 2] = repeated(value, 4);
}

const Registered<Step> one({{"set", 3}, set});
const Registered<Step> two({{"set_blocking", 1}, set_blocking});
const Registered<Step> three({{"set_rows", 1}, set_rows});
}  // namespace
