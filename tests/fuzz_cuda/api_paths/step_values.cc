// SPDX-License-Identifier: Apache-2.0
// A stream is blocked by a value, with work after it, while others continue; another stream, or the host, writes the
// value. Neither is a blocking stream: work ordered after the legacy stream might be blocked too, including what is to
// write the value.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool is_blocking(const World& world, unsigned stream) {
  static const bool has_flags = driver_has("cuStreamGetFlags");
  if (!has_flags) return true;
  unsigned flags = 0;
  CHECK_CUDA(cuStreamGetFlags(world.stream(stream), &flags));
  return (flags & CU_STREAM_NON_BLOCKING) == 0;
}

void set(World& world, unsigned stream) {
  Buffer& buffer = world.any_defined();
  const auto value = static_cast<unsigned>(world.random.next());
  world.before_write(stream, buffer);
  CHECK_CUDA(cuMemsetD32Async(buffer.address, value, buffer.bytes() / 4, world.stream(stream)));
  world.submitted(stream);
  world.after_write(stream, buffer);
  std::fill(buffer.model.begin(), buffer.model.end(), std::uint64_t{value} << 32 | value);
}

struct Word {
  bool on_host = false;
  CUdeviceptr address = 0;
  std::uint64_t* host = nullptr;
};

Word make_word(World& world) {
  Word word;
  word.on_host = world.random.one_in(3);
  if (word.on_host) {
    CHECK_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&word.host), 64, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK_CUDA(cuMemHostGetDevicePointer(&word.address, word.host, 0));
    __atomic_store_n(word.host, 0, __ATOMIC_RELEASE);
  } else {
    CHECK_CUDA(cuMemAlloc(&word.address, 4096));
  }
  return word;
}

void free_word(const Word& word) {
  if (word.on_host) return CHECK_CUDA(cuMemFreeHost(word.host));
  CHECK_CUDA(cuMemFree(word.address));
}

void write(const Word& word, std::uint64_t value, bool wide, CUstream writing) {
  if (word.on_host) {
    __atomic_store_n(word.host, value, __ATOMIC_RELEASE);
  } else if (wide) {
    CHECK_CUDA(cuStreamWriteValue64(writing, word.address, value, CU_STREAM_WRITE_VALUE_DEFAULT));
  } else {
    CHECK_CUDA(
        cuStreamWriteValue32(writing, word.address, static_cast<unsigned>(value), CU_STREAM_WRITE_VALUE_DEFAULT));
  }
}

// Not with a full host fallback (which is used with unseen API paths), in which no buffer is evicted or fetched while
// anything runs: evicted buffers could not be fetched before the value is written.
void stand(World& world) {
  if (world.options.unseen || world.buffers().empty()) return;
  const unsigned blocked = world.own_stream(), other = world.own_stream();
  if (is_blocking(world, blocked) || is_blocking(world, other)) return;
  const bool wide = world.random.one_in(2);
  const Word word = make_word(world);
  CUstream writing = nullptr;
  CHECK_CUDA(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  if (!word.on_host) {
    write(word, 0, wide, writing);
    CHECK_CUDA(cuStreamSynchronize(writing));
  }
  if (wide) {
    CHECK_CUDA(cuStreamWaitValue64(world.stream(blocked), word.address, 1, CU_STREAM_WAIT_VALUE_EQ));
  } else {
    CHECK_CUDA(cuStreamWaitValue32(world.stream(blocked), word.address, 1, CU_STREAM_WAIT_VALUE_EQ));
  }
  set(world, blocked);
  // In another stream, which is ordered after the first if they share a buffer.
  set(world, other);
  write(word, 1, wide, writing);
  set(world, blocked);
  CHECK_CUDA(cuStreamSynchronize(world.stream(blocked)));
  CHECK_CUDA(cuStreamSynchronize(writing));
  CHECK_CUDA(cuStreamDestroy(writing));
  free_word(word);
}

const Registered<Step> api_path({{"wait_for_value", 2}, stand});
}  // namespace
