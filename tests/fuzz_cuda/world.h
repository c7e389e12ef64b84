// SPDX-License-Identifier: Apache-2.0
// The state of one random program: streams and the order established between them, buffers with the model of their
// contents, host memory for copies, graphs. ApiPaths (api_path.h) use it.
//
// Contract: work is submitted between before_read/before_write and after_read/after_write of everything that it
// accesses; these order conflicting work, with events, as CUDA's rules require and not more. The model is changed at
// submission, so it contains what memory will contain when everything submitted has run.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/fuzz_cuda/device.h"
#include "tests/fuzz_cuda/random.h"

namespace model {

inline constexpr unsigned kStreams = 6;
inline constexpr unsigned kLegacy = 4, kPerThread = 5;  // lower numbers are the program's own streams
inline constexpr std::uint64_t kMiB = 1 << 20;

struct Options {
  std::uint64_t programs = 20, first = 1, operations = 300, threads = 1, repeat = 1;
  std::uint64_t live = 96 * kMiB;    // limit for all live buffers together
  std::uint64_t held = 16 * kMiB;    // limit for the buffers that graphs may name
  std::uint64_t largest = 8 * kMiB;  // size limit of a buffer
  std::uint64_t unseen = 0;          // 1: the library is not told which kernels write tables
  std::uint64_t sleeps = 0;          // 1: the program sleeps and wakes now and then
  std::uint64_t simulated_ms = 0;    // in place of `programs`: until the device's clock shows this many milliseconds
};

// The n-th piece of work of a stream.
struct Moment {
  unsigned stream = 0;
  std::uint64_t ordinal = 0;
};

struct Memory;
struct Buffer {
  CUdeviceptr address = 0;
  std::vector<std::uint64_t> model;  // every word, in program order
  bool defined = false;
  bool held = false;                    // a graph names it
  const Memory* memory = nullptr;       // the API path that allocated it
  std::uint64_t token = 0;              // used by that API path
  std::vector<Moment> writes, reads{};  // the last write, and reads since then
  std::uint64_t bytes() const { return model.size() * 8; }
};

struct Slice {
  Buffer* buffer = nullptr;
  std::uint64_t first = 0, count = 0;
  CUdeviceptr address() const { return buffer->address + first * 8; }
  std::uint64_t bytes() const { return count * 8; }
  Words words() const { return {buffer->model.data() + first, count}; }
};

struct CopyEnd {
  enum class Kind : std::uint8_t { kDevice, kPinned, kPageable };
  Kind kind = Kind::kDevice;
  std::uint64_t address = 0;
  void* host() const { return reinterpret_cast<void*>(address); }
  bool on_device() const { return kind == Kind::kDevice; }
};

// A graph that is kept: it is launched again until one of its buffers is freed.
struct Graph {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<Buffer*> reads, writes;
  std::function<void()> effect;        // of a launch, on the model
  std::function<void(Graph&)> change;  // gives it other work. Its last launch has completed
  std::shared_ptr<void> own{};         // destroyed with it
  Moment used{};
};

class World {
 public:
  World(std::uint64_t seed, unsigned slot, const Options& options, const Device& device);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The digest of everything that was read back.
  std::uint64_t run();

  Random random;
  const Options& options;
  const Device& device;
  const unsigned slot;  // of this host thread

  // --- Streams ---
  CUstream stream(unsigned index) const { return streams_[index]; }
  unsigned any_stream() { return static_cast<unsigned>(random.below(kStreams)); }
  unsigned own_stream() { return static_cast<unsigned>(random.below(kLegacy)); }
  void replace_stream(unsigned index);
  void before_read(unsigned stream, const Buffer& buffer);
  void before_write(unsigned stream, const Buffer& buffer);
  void order(unsigned stream, Moment moment);
  // Work was submitted; calls that follow refer to it.
  void submitted(unsigned stream) { ++done_[stream]; }
  Moment now(unsigned stream) const { return {stream, done_[stream]}; }
  void after_read(unsigned stream, Buffer& buffer) const { buffer.reads.push_back(now(stream)); }
  void after_write(unsigned stream, Buffer& buffer) const;
  void host_waits(const Buffer& buffer);  // for all work that accesses it

  // --- Buffers ---
  //
  // nullptr if it would exceed the limit for live buffers.
  Buffer* allocate(std::uint64_t bytes);
  std::uint64_t any_size();
  Buffer& any();
  Buffer& any_defined();
  Slice any_slice();  // of a defined buffer, sometimes all of it
  void free(Buffer& buffer);
  std::span<const std::unique_ptr<Buffer>> buffers() const { return buffers_; }
  // Whether a graph may be given all of them.
  bool may_hold(std::span<Buffer* const> buffers) const;
  void hold(std::span<Buffer* const> buffers);
  // Compares every byte.
  void expect(const Slice& slice, const void* found);
  [[noreturn]] void fail(const char* what, std::uint64_t found, std::uint64_t expected) const;
  void digest(std::uint64_t value) { digest_ = mix(digest_ ^ value); }

  // --- Host memory ---
  //
  // Pinned, `options.largest` bytes. Work of its former use has completed; used() must be called after the new use.
  void* staging();
  void staging_used(unsigned stream);
  void* pageable() { return pageable_.data(); }
  const std::uint64_t* noise(std::uint64_t words);  // this many random words

  // --- Tables: small buffers through which kernels are given their operands ---
  struct Table {
    Buffer buffer;
    std::uint64_t* host = nullptr;  // pinned
    CUevent uploaded = nullptr;
  };
  Table& table();  // its host memory may be written
  Table& root();   // represents this thread's word of the module's global variable; only `host` is its own memory

  // --- Graphs ---
  std::vector<std::unique_ptr<Graph>>& graphs() { return graphs_; }
  void launch(Graph& graph, unsigned stream);
  void drop(std::size_t graph);
  // Slices of that many different buffers that graphs may be given, and that count as held from now on. Empty if there
  // are too few.
  std::vector<Slice> pick_held(std::size_t count);

 private:
  struct Staging {
    void* host = nullptr;
    CUevent done = nullptr;
  };
  CUstream create_stream();
  void finish();

  const std::uint64_t seed_;
  std::array<CUstream, kStreams> streams_{};
  std::array<Staging, 3> staging_{};
  std::size_t next_staging_ = 0;
  std::vector<std::uint64_t> pageable_;
  std::array<Table, 3> tables_{};
  Table root_;
  std::size_t next_table_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::uint64_t live_ = 0, held_ = 0, step_ = 0, digest_ = 0;
  std::array<std::uint64_t, kStreams> done_{};                         // amount of work submitted so far
  std::array<std::array<std::uint64_t, kStreams>, kStreams> known_{};  // [stream][other]: other's work ordered before
};

}  // namespace model
