// SPDX-License-Identifier: Apache-2.0
// The device memory that small buffers cost: resident bytes for an operation, per byte of small buffers that it names,
// and pages of slabs per live byte. No time is measured.
//
// slab_bench TRACE...
//
// Prints a JSON line for each pattern: 100,000 scattered small buffers, and the recorded steps.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "bench/workloads.h"
#include "trace/read.h"

namespace thermocline::bench {
namespace {

class Ground {
 public:
  Ground() {
    HeapOptions options;
    options.limit = Bytes{1} << 38;
    THERMOCLINE_CHECK(Heap::create(driver_, clock_, options, &heap_).ok(), "The null driver refuses nothing.");
  }
  Buffer* allocate(Bytes bytes) {
    Buffer* buffer = nullptr;
    THERMOCLINE_CHECK(heap_->allocate(std::max(bytes, Bytes{1}), StreamIndex{}, &buffer).ok(), "There are addresses.");
    if (!buffer->block().mapped()) {
      THERMOCLINE_CHECK(heap_->map(buffer->block(), Wait::kNo).ok(), "The null driver refuses nothing.");
    }
    const HeapStatistics now = heap_->statistics();
    if (now.slab_bytes > peak_slab_bytes_) {
      peak_slab_bytes_ = now.slab_bytes;
      live_at_peak_ = now.slab_live_bytes;
    }
    return buffer;
  }
  void free(Buffer* buffer) { heap_->free(buffer); }
  void name(std::span<Buffer* const> buffers) {
    std::unordered_set<const Buffer*> small;
    std::unordered_set<const Block*> slabs;
    for (const Buffer* buffer : buffers) {
      if (!buffer->block().is_slab()) continue;
      if (small.insert(buffer).second) named_ += static_cast<double>(buffer->requested());
      if (slabs.insert(&buffer->block()).second) resident_ += static_cast<double>(buffer->block().bytes());
    }
    ++operations_;
  }
  void report(const std::string& shape) {
    std::printf("{\"shape\": \"%s\", \"operations\": %zu, \"named_mib\": %.3f, \"resident_mib\": %.0f, ", shape.c_str(),
                operations_, named_ / kMiB, resident_ / kMiB);
    std::printf("\"resident_per_named\": %.1f, \"peak_slab_mib\": %.0f, \"slab_per_live_at_peak\": %.3f}\n",
                resident_ / std::max(named_, 1.0), static_cast<double>(peak_slab_bytes_) / kMiB,
                static_cast<double>(peak_slab_bytes_) / static_cast<double>(std::max(live_at_peak_, Bytes{1})));
  }

 private:
  Driver driver_{null_table()};
  StreamClock clock_{driver_};
  std::unique_ptr<Heap> heap_;
  double named_ = 0, resident_ = 0;
  std::size_t operations_ = 0;
  Bytes peak_slab_bytes_ = 0, live_at_peak_ = 0;
};

constexpr std::size_t kBuffers = 100'000;
constexpr std::size_t kNamed = 64;
constexpr std::size_t kOperations = 1'000;

// 256 bytes to 16 KiB, uniform in the logarithm; not std::uniform_real_distribution, which differs between libraries.
Bytes small_size(std::mt19937_64& random) { return (Bytes{256} << random() % 6) + 256 * (random() % 2); }

// Lifetimes are random; operations name buffers that were allocated in a row, or any.
void scattered(bool in_a_row) {
  Ground ground;
  std::mt19937_64 random(1);
  std::vector<Buffer*> buffers(kBuffers);
  for (Buffer*& buffer : buffers) buffer = ground.allocate(small_size(random));
  for (std::size_t i = 0; i < 4 * kBuffers; ++i) {
    Buffer*& buffer = buffers[random() % kBuffers];
    ground.free(buffer);
    buffer = ground.allocate(small_size(random));
  }
  std::ranges::sort(buffers, {}, &Buffer::number);
  std::vector<Buffer*> named(kNamed);
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::size_t first = random() % (kBuffers - kNamed);
    for (std::size_t j = 0; j < kNamed; ++j) named[j] = buffers[in_a_row ? first + j : random() % kBuffers];
    ground.name(named);
  }
  ground.report(in_a_row ? "scattered, named in order of allocation" : "scattered, any named");
}

// The buffers of an object are allocated, named and freed together; some hundred objects live, of all ages. In between
// buffers of up to 1 MiB are allocated and freed.
void objects() {
  Ground ground;
  std::mt19937_64 random(1);
  struct Object {
    std::vector<Buffer*> buffers;
    Buffer* larger = nullptr;
  };
  std::vector<Object> all(kBuffers / kNamed);
  const auto make = [&](Object& object) {
    if (object.larger != nullptr) ground.free(object.larger);
    for (Buffer* buffer : object.buffers) ground.free(buffer);
    object.buffers.clear();
    for (std::size_t i = 0; i < kNamed; ++i) object.buffers.push_back(ground.allocate(small_size(random)));
    object.larger = ground.allocate((Bytes{16 * kKiB} << random() % 7) - 512 * (random() % 8));
  };
  for (Object& object : all) make(object);
  for (std::size_t i = 0; i < 4 * all.size(); ++i) make(all[random() % all.size()]);
  for (std::size_t i = 0; i < kOperations; ++i) ground.name(all[random() % all.size()].buffers);
  ground.report("objects of 64 small buffers");
}

bool recorded(const char* path) {
  Trace trace;
  TraceError error;
  if (!read_trace(path, &trace, &error)) {
    std::fprintf(stderr, "slab_bench: %s\n", error.text().c_str());
    return false;
  }
  Ground ground;
  std::vector<Buffer*> buffers(trace.buffers.size());
  std::vector<Buffer*> named;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == EventKind::kAllocate) {
      buffers[event.index] = ground.allocate(trace.buffers[event.index].bytes);
    } else if (event.kind == EventKind::kFree) {
      ground.free(buffers[event.index]);
    } else {
      const TraceOperator& one = trace.operators[event.index];
      named.clear();
      for (const std::uint32_t buffer : trace.reads(one)) named.push_back(buffers[buffer]);
      for (const std::uint32_t buffer : trace.writes(one)) named.push_back(buffers[buffer]);
      ground.name(named);
    }
  }
  std::string name = path;
  name = name.substr(name.rfind('/') + 1);
  ground.report(name.substr(0, name.find('.')));
  return true;
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  thermocline::bench::scattered(true);
  thermocline::bench::scattered(false);
  thermocline::bench::objects();
  bool ok = true;
  for (int i = 1; i < argc; ++i) ok &= thermocline::bench::recorded(argv[i]);
  return ok ? 0 : 1;
}
