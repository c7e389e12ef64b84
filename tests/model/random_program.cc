// SPDX-License-Identifier: Apache-2.0
// Random CUDA programs that check themselves. Each program allocates, frees, launches, copies and sets on several
// streams, orders what conflicts with events as CUDA's rules demand and nothing more, and compares what it reads back
// with a model on the host that executes the same program in program order. It knows nothing of the library: it is run
// plain, and preloaded under budgets that force eviction, in order of time and in adversarial orders; every run must
// agree with the model.
//
// Usage: random_program [--programs N] [--first SEED] [--operations N] [--threads N] [--repeat N] [--live BYTES]
// --repeat runs every program several times, as training repeats its step.
// Exit status 0: every program agreed; 1: a difference, with the seed that shows it; 2: wrong usage or a driver error.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/model/model_kernels.h"

namespace {

constexpr unsigned kStreams = 4;  // the last one is the legacy default stream
constexpr std::uint64_t kMiB = 1 << 20;

struct Options {
  std::uint64_t programs = 20, first = 1, operations = 300, threads = 1, repeat = 1, live_bytes = 96 * kMiB;
};

[[noreturn]] void driver_failed(const char* call, CUresult result) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "random_program: %s: %s\n", call, name != nullptr ? name : "unknown error");
  std::_Exit(2);
}

void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) driver_failed(call, result);
}
#define CHECK(call) check(call, #call)

// splitmix64 (Steele, Lea, Flood 2014): small, seedable, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t next() { return model::mix(state_ += 0x9e3779b97f4a7c15u); }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

// The n-th piece of work of a stream.
struct Moment {
  unsigned stream = 0;
  std::uint64_t ordinal = 0;
};

struct Buffer {
  CUdeviceptr address = 0;
  std::uint64_t words = 0;
  std::array<std::uint64_t, model::kSamples> contents{};  // the model: the sampled words, in program order
  bool defined = false;
  bool from_pool = false;
  std::vector<Moment> writes, reads;  // since the last write
};

struct Staging {
  void* host = nullptr;
  CUevent done = nullptr;
};

// A small buffer through which a kernel is told what it works on.
struct Table {
  CUdeviceptr address = 0;
  std::uint64_t* host = nullptr;
  CUevent uploaded = nullptr;
  Moment used;
};

struct Kernels {
  CUfunction combine = nullptr, combine_by_table = nullptr;
};

class Program {
 public:
  Program(std::uint64_t seed, const Options& options, const Kernels& kernels)
      : seed_(seed), random_(seed), options_(options), kernels_(kernels) {
    for (Table& table : tables_) {
      CHECK(cuMemAlloc(&table.address, 2 * kTableBytes));
      CHECK(cuMemAllocHost(reinterpret_cast<void**>(&table.host), kTableBytes));
      CHECK(cuEventCreate(&table.uploaded, CU_EVENT_DISABLE_TIMING));
    }
    for (unsigned i = 0; i + 1 < kStreams; ++i) {
      CHECK(cuStreamCreate(&streams_[i], random_.one_in(2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    }
    streams_[kStreams - 1] = nullptr;
    for (Staging& staging : staging_) {
      CHECK(cuMemAllocHost(&staging.host, kLargestBytes));
      CHECK(cuEventCreate(&staging.done, CU_EVENT_DISABLE_TIMING));
    }
  }

  ~Program() {
    CHECK(cuCtxSynchronize());
    for (auto& buffer : buffers_) CHECK(cuMemFree(buffer->address));
    for (Table& table : tables_) {
      CHECK(cuMemFree(table.address));
      CHECK(cuMemFreeHost(table.host));
      CHECK(cuEventDestroy(table.uploaded));
    }
    for (Staging& staging : staging_) {
      CHECK(cuEventSynchronize(staging.done));
      CHECK(cuEventDestroy(staging.done));
      CHECK(cuMemFreeHost(staging.host));
    }
    for (unsigned i = 0; i + 1 < kStreams; ++i) CHECK(cuStreamDestroy(streams_[i]));
  }

  // The digest of everything that was read back; 0 never.
  std::uint64_t run() {
    for (step_ = 0; step_ < options_.operations; ++step_) one_operation();
    for (auto& buffer : buffers_) read_back(*buffer);
    return digest_ | 1;
  }

 private:
  static constexpr std::uint64_t kLargestBytes = 8 * kMiB;
  static constexpr std::size_t kTableBytes = model::kTableWords * sizeof(std::uint64_t);

  void one_operation() {
    const std::uint64_t kind = random_.below(100);
    if (buffers_.size() < 3 || kind < 16) return allocate();
    if (kind < 24) return free_one();
    if (kind < 34) return upload();
    if (kind < 42) return read_back(any());
    if (kind < 47) return fill();
    if (kind < 52) return copy();
    if (kind < 55) return CHECK(cuStreamSynchronize(streams_[random_.below(kStreams)]));
    if (kind < 56) return CHECK(cuCtxSynchronize());
    launch();
  }

  Buffer& any() { return *buffers_[random_.below(buffers_.size())]; }
  Buffer& any_defined() {
    for (int attempt = 0; attempt < 8; ++attempt) {
      if (Buffer& buffer = any(); buffer.defined) return buffer;
    }
    Buffer& buffer = any();
    if (!buffer.defined) fill_buffer(buffer);
    return buffer;
  }

  // `stream` runs its next work after the moment; an event only where nothing orders them yet.
  void order(unsigned stream, Moment moment) {
    if (moment.stream == stream || known_[stream][moment.stream] >= moment.ordinal) return;
    CUevent event = nullptr;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, streams_[moment.stream]));
    CHECK(cuStreamWaitEvent(streams_[stream], event, 0));
    CHECK(cuEventDestroy(event));
    for (unsigned i = 0; i < kStreams; ++i) known_[stream][i] = std::max(known_[stream][i], known_[moment.stream][i]);
    known_[stream][moment.stream] = done_[moment.stream];
  }
  void before_read(unsigned stream, const Buffer& buffer) {
    for (const Moment& write : buffer.writes) order(stream, write);
  }
  void before_write(unsigned stream, const Buffer& buffer) {
    before_read(stream, buffer);
    for (const Moment& read : buffer.reads) order(stream, read);
  }
  void after_read(unsigned stream, Buffer& buffer) { buffer.reads.push_back({stream, done_[stream]}); }
  void after_write(unsigned stream, Buffer& buffer) {
    buffer.reads.clear();
    buffer.writes.assign(1, {stream, done_[stream]});
  }

  void allocate() {
    // Log-uniform between 512 bytes and 8 MiB.
    const std::uint64_t scale = std::uint64_t{1} << (9 + random_.below(14));
    const std::uint64_t bytes = (scale + random_.below(scale)) / 8 * 8;
    if (live_ + bytes > options_.live_bytes || bytes > kLargestBytes) return;
    auto buffer = std::make_unique<Buffer>();
    buffer->words = bytes / 8;
    if (random_.one_in(3)) {
      const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
      CHECK(cuMemAllocAsync(&buffer->address, bytes, streams_[stream]));
      ++done_[stream];
      after_write(stream, *buffer);
      buffer->from_pool = true;
    } else {
      CHECK(cuMemAlloc(&buffer->address, bytes));
    }
    live_ += bytes;
    buffers_.push_back(std::move(buffer));
  }

  void free_one() {
    const std::size_t index = random_.below(buffers_.size());
    Buffer& buffer = *buffers_[index];
    // cuMemFree does not wait for memory of cuMemAllocAsync.
    if (random_.one_in(2) || buffer.from_pool) {
      const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
      before_write(stream, buffer);
      CHECK(cuMemFreeAsync(buffer.address, streams_[stream]));
      ++done_[stream];
    } else {
      CHECK(cuMemFree(buffer.address));
    }
    live_ -= buffer.words * 8;
    buffers_[index] = std::move(buffers_.back());
    buffers_.pop_back();
  }

  Staging& staging() {
    Staging& one = staging_[next_staging_++ % staging_.size()];
    CHECK(cuEventSynchronize(one.done));
    return one;
  }

  void upload() {
    Buffer& buffer = any();
    const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
    Staging& from = staging();
    auto* words = static_cast<std::uint64_t*>(from.host);
    for (unsigned i = 0; i < model::kSamples; ++i) {
      words[model::sample_at(buffer.words, i)] = buffer.contents[i] = random_.next();
    }
    // Samples may coincide in small buffers: what the last write left is what counts.
    for (unsigned i = 0; i < model::kSamples; ++i) buffer.contents[i] = words[model::sample_at(buffer.words, i)];
    before_write(stream, buffer);
    CHECK(cuMemcpyHtoDAsync(buffer.address, from.host, buffer.words * 8, streams_[stream]));
    CHECK(cuEventRecord(from.done, streams_[stream]));
    ++done_[stream];
    after_write(stream, buffer);
    buffer.defined = true;
  }

  void read_back(Buffer& buffer) {
    if (!buffer.defined) return;
    const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
    Staging& to = staging();
    before_read(stream, buffer);
    CHECK(cuMemcpyDtoHAsync(to.host, buffer.address, buffer.words * 8, streams_[stream]));
    ++done_[stream];
    after_read(stream, buffer);
    CHECK(cuStreamSynchronize(streams_[stream]));
    const auto* words = static_cast<const std::uint64_t*>(to.host);
    for (unsigned i = 0; i < model::kSamples; ++i) {
      const std::uint64_t found = words[model::sample_at(buffer.words, i)];
      if (found != buffer.contents[i]) differ(buffer, i, found);
      digest_ = model::mix(digest_ ^ found);
    }
  }

  [[noreturn]] void differ(const Buffer& buffer, unsigned sample, std::uint64_t found) {
    std::fprintf(stderr,
                 "random_program: seed %llu, operation %llu: a buffer of %llu bytes differs from the model at word "
                 "%llu: %016llx, expected "
                 "%016llx\n  repeat: random_program --first %llu --programs 1 --operations %llu --live %llu\n",
                 static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(step_),
                 static_cast<unsigned long long>(buffer.words) * 8,
                 static_cast<unsigned long long>(model::sample_at(buffer.words, sample)),
                 static_cast<unsigned long long>(found), static_cast<unsigned long long>(buffer.contents[sample]),
                 static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(options_.operations),
                 static_cast<unsigned long long>(options_.live_bytes));
    std::fflush(stderr);
    std::_Exit(1);
  }

  void fill() { fill_buffer(any()); }
  void fill_buffer(Buffer& buffer) {
    const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
    const auto value = static_cast<unsigned>(random_.next());
    before_write(stream, buffer);
    CHECK(cuMemsetD32Async(buffer.address, value, buffer.words * 2, streams_[stream]));
    ++done_[stream];
    after_write(stream, buffer);
    buffer.contents.fill(std::uint64_t{value} << 32 | value);
    buffer.defined = true;
  }

  void copy() {
    Buffer& from = any_defined();
    for (auto& to : buffers_) {
      if (to.get() == &from || to->words != from.words) continue;
      return copy_between(from, *to);
    }
    // No second buffer of that size: make one by copying into a new allocation.
    if (live_ + from.words * 8 > options_.live_bytes) return;
    auto to = std::make_unique<Buffer>();
    to->words = from.words;
    CHECK(cuMemAlloc(&to->address, to->words * 8));
    live_ += to->words * 8;
    copy_between(from, *to);
    buffers_.push_back(std::move(to));
  }
  void copy_between(Buffer& from, Buffer& to) {
    const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
    before_read(stream, from);
    before_write(stream, to);
    CHECK(cuMemcpyDtoDAsync(to.address, from.address, from.words * 8, streams_[stream]));
    ++done_[stream];
    after_read(stream, from);
    after_write(stream, to);
    to.contents = from.contents;
    to.defined = true;
  }

  void launch() {
    Buffer& a = any_defined();
    Buffer& b = any_defined();
    Buffer& out = any_defined();
    const unsigned stream = static_cast<unsigned>(random_.below(kStreams));
    before_read(stream, a);
    before_read(stream, b);
    before_write(stream, out);
    std::uint64_t salt = random_.next();
    if (random_.one_in(4)) {
      launch_by_table(stream, {out.address, out.words, a.address, a.words, b.address, b.words}, salt);
    } else {
      void* parameters[] = {&out.address, &out.words, &a.address, &a.words, &b.address, &b.words, &salt};
      CHECK(cuLaunchKernel(kernels_.combine, 1, 1, 1, 64, 1, 1, 0, streams_[stream], parameters, nullptr));
      ++done_[stream];
    }
    after_read(stream, a);
    after_read(stream, b);
    after_write(stream, out);
    model::combine_samples(out.contents.data(), out.words, a.contents.data(), b.contents.data(), salt);
  }

  // No parameter names what the kernel works on.
  void launch_by_table(unsigned stream, const std::array<std::uint64_t, model::kTableWords>& words,
                       std::uint64_t salt) {
    Table& table = tables_[next_table_++ % tables_.size()];
    CHECK(cuEventSynchronize(table.uploaded));
    std::copy(words.begin(), words.end(), table.host);
    order(stream, table.used);
    // At times it comes by way of another place.
    const bool moved = random_.one_in(3);
    const CUdeviceptr first = moved ? table.address + kTableBytes : table.address;
    CHECK(cuMemcpyHtoDAsync(first, table.host, kTableBytes, streams_[stream]));
    CHECK(cuEventRecord(table.uploaded, streams_[stream]));
    if (moved) {
      CHECK(cuMemcpyDtoDAsync(table.address, first, kTableBytes, streams_[stream]));
      CHECK(cuMemsetD8Async(first, 0, kTableBytes, streams_[stream]));
    }
    void* parameters[] = {&table.address, &salt};
    CHECK(cuLaunchKernel(kernels_.combine_by_table, 1, 1, 1, 64, 1, 1, 0, streams_[stream], parameters, nullptr));
    done_[stream] += moved ? 4 : 2;
    table.used = {stream, done_[stream]};
  }

  const std::uint64_t seed_;
  Random random_;
  const Options options_;
  const Kernels kernels_;
  std::array<CUstream, kStreams> streams_{};
  std::array<Staging, 4> staging_{};
  std::size_t next_staging_ = 0;
  std::array<Table, 3> tables_{};
  std::size_t next_table_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::uint64_t live_ = 0, step_ = 0, digest_ = 0;
  std::array<std::uint64_t, kStreams> done_{};  // work submitted so far
  std::array<std::array<std::uint64_t, kStreams>, kStreams>
      known_{};  // [stream][other]: other's work that is ordered before
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(argv[i + 1], &end, 10);
    if (*end != '\0') return false;
    if (flag == "--programs")
      options->programs = value;
    else if (flag == "--first")
      options->first = value;
    else if (flag == "--operations")
      options->operations = value;
    else if (flag == "--threads")
      options->threads = value;
    else if (flag == "--repeat")
      options->repeat = value;
    else if (flag == "--live")
      options->live_bytes = value;
    else
      return false;
  }
  return argc % 2 == 1 && options->threads > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: random_program [--programs N] [--first SEED] [--operations N] [--threads N] [--repeat N] "
                 "[--live BYTES]\n");
    return 2;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  Kernels kernels;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, model::kImage));
  CHECK(cuModuleGetFunction(&kernels.combine, module, "model_combine"));
  CHECK(cuModuleGetFunction(&kernels.combine_by_table, module, "model_combine_by_table"));

  std::vector<std::uint64_t> digests(options.threads, 0);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      CHECK(cuCtxSetCurrent(context));
      for (std::uint64_t i = t; i < options.programs; i += options.threads) {
        std::uint64_t digest_of_one = 0;
        for (std::uint64_t again = 0; again < options.repeat; ++again) {
          digest_of_one = Program(options.first + i, options, kernels).run();
        }
        digests[t] = model::mix(digests[t] ^ digest_of_one);
      }
    });
  }
  std::uint64_t digest = 0;
  for (std::uint64_t t = 0; t < options.threads; ++t) {
    threads[t].join();
    digest = model::mix(digest ^ digests[t]);
  }
  CHECK(cuModuleUnload(module));
  std::printf("programs %llu digest %016llx\n", static_cast<unsigned long long>(options.programs),
              static_cast<unsigned long long>(digest));
  return 0;
}
